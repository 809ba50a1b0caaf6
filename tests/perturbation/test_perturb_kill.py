"""Killed with SIGKILL at random moments and resumed, `untwist perturb` ends with the same bits."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from comparing import assert_same

KILLS = 5
SMALL = [
    *("--dataset", "sprites", "--set", "size=16", "scales=2", "orientations=1", "positions=4"),
    *("--architecture", "small", "--members", "3", "--steps", "600", "--batch", "16"),
    *("--rounds", "150", "--log-every", "10", "--beta", "0.5", "--samples", "2"),
    *("--manipulation-learning-rate", "0.001", "--reader-steps", "600"),
]


def start(path: Path) -> subprocess.Popen:
    """Goes on with a directory, or begins it if there is none yet."""
    begun = (path / "perturb.toml").exists()
    if not begun:
        shutil.rmtree(path, ignore_errors=True)
    words = ["--resume", str(path)] if begun else [*SMALL, "--out", str(path)]
    code = "import sys; from untwist.cli import main; sys.exit(main())"
    words = ["perturb", *words, "--quiet", "--checkpoint-seconds", "0"]
    return subprocess.Popen([sys.executable, "-c", code, *words])


@pytest.mark.slow
def test_killed_at_random_and_resumed(tmp_path):
    """The moments are spread over the whole call: training, learning, writing and reading."""
    straight, path = tmp_path / "straight", tmp_path / "killed"
    began = time.monotonic()
    assert start(straight).wait() == 0
    lifetime = time.monotonic() - began
    choice, reached = random.Random(1), set()
    for _ in range(KILLS):
        process = start(path)
        try:
            assert process.wait(choice.uniform(0.1, 1.0) * lifetime) == 0
            assert_same(path, straight)
            shutil.rmtree(path)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            reached |= {place.name for place in path.glob("*")}
    assert start(path).wait() == 0
    assert_same(path, straight)
    assert {"population", "checkpoint"} <= reached  # some kills came in the middle of the work
