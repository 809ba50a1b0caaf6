"""Where a drawn set is kept: small ones in memory, large ones once, in a memory map in the cache.

A file in the cache is drawn beside its place and moved there whole; a note beside it, written
last, holds its checksum. One without the other, or of another size, is drawn again, so that what a
killed process left behind is never taken for a dataset.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from untwist.datasets.cache import cache_directory
from untwist.datasets.dataset import Provenance, blocks
from untwist.store import replacing
from untwist.types import InputError

MEMORY = 2**28
"""Sets of more bytes are drawn into the cache."""

Bytes = UInt8[np.ndarray, "..."]
Report = Callable[[int, int], None]
"""Called with how many pieces are drawn, and of how many."""
Fill = Callable[[Bytes, Report], None]


def drawn(
    name: str, shape: tuple[int, ...], fill: Fill, *, version: int
) -> tuple[Bytes, Provenance]:
    """Returns the bytes that `fill` draws, and for those in the cache their checksum.

    Args:
        name: What tells this set from every other that is drawn.
        shape: The shape of the array, grid and image together.
        fill: Writes all of an array of that shape, and reports as it goes.
        version: The version of the drawing.
    """
    if np.prod(shape, dtype=np.int64) <= MEMORY:
        data = np.empty(shape, np.uint8)
        _fill(name, data, fill)
        return data, {}
    sizes = "x".join(map(str, shape))
    path = cache_directory() / "drawn" / f"{name}-{sizes}-v{version}.npy"
    _make_directory(path.parent)
    with _alone(path):
        note = _note(path, shape) or _draw(name, path, shape, fill)
    return np.load(path, mmap_mode="r"), {"drawn_to": path.name, "drawn_sha256": note["sha256"]}


def _draw(name: str, path: Path, shape: tuple[int, ...], fill: Fill) -> dict[str, str]:
    """Draws the file and its note."""
    for stale in path.parent.glob(f".{path.name}.*"):
        stale.unlink()
    _check_room(path.parent, int(np.prod(shape, dtype=np.int64)))
    with replacing(path) as scratch:
        data = np.lib.format.open_memmap(scratch, mode="w+", dtype=np.uint8, shape=shape)
        _fill(name, data, fill)
        data.flush()
        digest = hashlib.sha256()
        for _, block in blocks(data):
            digest.update(np.ascontiguousarray(block).data)
        del data
    note = {"sha256": digest.hexdigest()}
    with replacing(_note_path(path)) as scratch:
        scratch.write_text(json.dumps(note) + "\n")
    return note


def _fill(name: str, data: Bytes, fill: Fill) -> None:
    """Draws with a bar on the terminal, if there is one."""
    console = Console(stderr=True)
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden)
    with bar:
        task = bar.add_task(f"drawing {name}", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        fill(data, report)


def _note_path(path: Path) -> Path:
    """Where the checksum of a file stands."""
    return path.with_suffix(".json")


def _note(path: Path, shape: tuple[int, ...]) -> dict[str, str] | None:
    """The note of a file that is there whole; None if any of it is missing."""
    try:
        note = json.loads(_note_path(path).read_text())
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    whole = data.shape == shape and data.dtype == np.uint8
    return note if whole and isinstance(note, dict) and "sha256" in note else None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits until no other process draws this file, and keeps others waiting."""
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make_directory(path: Path) -> None:
    """Makes the directory of drawn files."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make {path}: {error.strerror}: name another place in UNTWIST_CACHE"
        ) from error


def _check_room(path: Path, size: int) -> None:
    """Raises where the disk has no room for a file of this size."""
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if free < size:
        raise InputError(
            f"{path} has {free / 1e9:.1f} GB free, but the set takes {size / 1e9:.1f} GB: free "
            "some space, name another place in UNTWIST_CACHE, or ask for a smaller `size` or grid"
        )
