"""Sets drawn into the cache: drawn once, whole or not at all, by one process at a time."""

import errno
import hashlib
import multiprocessing
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from untwist.datasets import drawn as drawn_module
from untwist.datasets.drawn import drawn
from untwist.types import InputError

SHAPE = (6, 4, 4, 1)
STEM = "toy-6x4x4x1-v1"


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(drawn_module, "MEMORY", 10)


def fill(data, report):
    """Six images that differ."""
    data[:] = np.arange(6, dtype=np.uint8)[:, None, None, None] + 1
    report(6, 6)


def never(data, report):
    """For what is there already."""
    raise AssertionError("drawn twice")


def names(cache):
    """What lies in the cache."""
    return sorted(path.name for path in (cache / "drawn").iterdir())


def test_a_large_set_is_drawn_once_and_mapped(cache):
    data, stored = drawn("toy", SHAPE, fill, version=1)
    assert isinstance(data, np.memmap)
    assert not data.flags.writeable
    assert data[:, 0, 0, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert stored["drawn_to"] == f"{STEM}.npy"
    assert stored["drawn_sha256"] == hashlib.sha256(data.tobytes()).hexdigest()
    assert names(cache) == [f"{STEM}.json", f"{STEM}.lock", f"{STEM}.npy"]
    again, same = drawn("toy", SHAPE, never, version=1)
    assert same == stored
    np.testing.assert_array_equal(again, data)


def test_a_small_set_is_drawn_in_memory(cache, monkeypatch):
    monkeypatch.setattr(drawn_module, "MEMORY", 96)
    data, stored = drawn("toy", SHAPE, fill, version=1)
    assert not isinstance(data, np.memmap)
    assert stored == {}
    assert not cache.exists()


def test_another_name_version_or_grid_is_another_file(cache):
    for name, shape, version in (("toy", SHAPE, 1), ("toy", SHAPE, 2), ("toy2", SHAPE, 1)):
        drawn(name, shape, fill, version=version)
    assert len([name for name in names(cache) if name.endswith(".npy")]) == 3


def test_what_fails_while_it_is_drawn_leaves_nothing(cache):
    def broken(data, report):
        data[:3] = 7
        raise RuntimeError("out of paint")

    with pytest.raises(RuntimeError, match="out of paint"):
        drawn("toy", SHAPE, broken, version=1)
    assert names(cache) == [f"{STEM}.lock"]
    assert drawn("toy", SHAPE, fill, version=1)[0][5, 0, 0, 0] == 6


def killed(data, report):
    """Draws a half, then is killed."""
    data[:3] = 7
    data.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def draw_in_another(fill):
    """Draws the toy in a process of its own; returns it."""
    drawing = multiprocessing.get_context("fork").Process(
        target=drawn, args=("toy", SHAPE, fill), kwargs={"version": 1}
    )
    drawing.start()
    return drawing


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_what_a_killed_process_left_is_swept_away_and_drawn_again(cache):
    process = draw_in_another(killed)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = [name for name in names(cache) if name.startswith(f".{STEM}.npy.")]
    assert len(left) == 1
    data, _ = drawn("toy", SHAPE, fill, version=1)
    assert data[:, 0, 0, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert names(cache) == [f"{STEM}.json", f"{STEM}.lock", f"{STEM}.npy"]


@pytest.mark.parametrize("damage", ["no note", "no file", "cut off", "another shape", "no sum"])
def test_a_file_without_its_note_or_of_another_size_is_drawn_again(damage, cache):
    drawn("toy", SHAPE, fill, version=1)
    file, note = cache / "drawn" / f"{STEM}.npy", cache / "drawn" / f"{STEM}.json"
    if damage == "no note":
        note.unlink()
    elif damage == "no file":
        file.unlink()
    elif damage == "cut off":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "another shape":
        np.save(file, np.zeros((5, 4, 4, 1), np.uint8))
    else:
        note.write_text("{}")
    calls = []

    def again(data, report):
        calls.append(1)
        fill(data, report)

    data, stored = drawn("toy", SHAPE, again, version=1)
    assert calls == [1]
    assert stored["drawn_sha256"] == hashlib.sha256(data.tobytes()).hexdigest()


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_two_processes_draw_one_file_once(cache, tmp_path):
    """The second waits for the first, then finds its file."""
    marks, gate = tmp_path / "marks", tmp_path / "gate"
    os.mkfifo(gate)

    def slow(data, report):
        with marks.open("a") as file:
            file.write("drawn\n")
        gate.read_text()  # until somebody opens the gate
        fill(data, report)

    processes = [draw_in_another(slow) for _ in range(2)]
    gate.write_text("go")  # waits until the first draws
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert marks.read_text() == "drawn\n"
    assert drawn("toy", SHAPE, never, version=1)[0][5, 0, 0, 0] == 6


def test_a_full_disk_is_refused_before_drawing(cache, monkeypatch):
    full = SimpleNamespace(f_bavail=1, f_frsize=95)
    monkeypatch.setattr(drawn_module.os, "statvfs", lambda path: full)
    with pytest.raises(InputError, match=r"has 0\.0 GB free, but the set takes 0\.0 GB: free some"):
        drawn("toy", SHAPE, never, version=1)
    assert names(cache) == [f"{STEM}.lock"]
    full.f_frsize = 96
    drawn("toy", SHAPE, fill, version=1)


def test_a_disk_that_fills_while_drawing_leaves_nothing(cache):
    def fills(data, report):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="No space left on device; free some space"):
        drawn("toy", SHAPE, fills, version=1)
    assert names(cache) == [f"{STEM}.lock"]


def test_a_place_that_cannot_be_made_is_refused(cache):
    cache.mkdir()
    (cache / "drawn").write_text("a file")
    with pytest.raises(InputError, match="cannot make .*: name another place in UNTWIST_CACHE"):
        drawn("toy", SHAPE, never, version=1)
