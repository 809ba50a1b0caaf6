"""Killed with SIGKILL at random moments and resumed, a run ends with the bits of a straight one."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from untwist.store import open_run, read_arrays, read_table

KILLS = 24
OPTIONS = [
    *("--dataset", "sprites", "--set", "size=16", "--architecture", "small"),
    *("--beta", "1", "4", "--seeds", "2", "--latents", "3", "--steps", "2000"),
    *("--log-every", "20", "--checkpoint-seconds", "0", "--quiet"),
]


def untwist(*arguments):
    code = "import sys; from untwist.cli import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", code, "train", *arguments])


@pytest.mark.slow
def test_killed_at_random_and_resumed(tmp_path):
    """The moments are spread over a run's whole life: start, compilation, training and writing.

    A run so young that it has no directory yet, or a directory without run.toml, starts anew.
    """
    straight = tmp_path / "straight"
    began = time.monotonic()
    assert untwist(*OPTIONS, "--out", str(straight)).wait() == 0
    lifetime = time.monotonic() - began
    choice, path, kills, during = random.Random(0), tmp_path / "killed", 0, 0
    while kills < KILLS:
        process = start(path)
        moment = choice.uniform(0.1, 1.05) * lifetime
        try:
            code = process.wait(moment)
            assert code == 0
            same(path, straight)
            shutil.rmtree(path)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            during += (path / "checkpoint" / "state.safetensors").exists()
    assert start(path).wait() == 0
    same(path, straight)
    assert during >= KILLS // 3  # many of the kills found a checkpoint to resume from


def start(path: Path) -> subprocess.Popen:
    """Resumes the run, or begins it if there is none yet."""
    if (path / "run.toml").exists():
        return untwist("--resume", str(path), "--quiet", "--checkpoint-seconds", "0")
    shutil.rmtree(path, ignore_errors=True)
    return untwist(*OPTIONS, "--out", str(path))


def same(path: Path, straight: Path) -> None:
    """Weights, members and history are the same, to the bit."""
    ours, theirs = (
        read_arrays(path / "weights.safetensors"),
        read_arrays(straight / "weights.safetensors"),
    )
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)
    for table in ("members.parquet", "history.parquet"):
        ours, theirs = read_table(path / table), read_table(straight / table)
        for name, column in theirs.items():
            np.testing.assert_array_equal(ours[name], column)
    assert open_run(path).state == "finished"
