"""Arrays made once from a file and kept in the cache as .npy, to be mapped from then on."""

import math
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from untwist.datasets.inspection import Inspection
from untwist.datasets.npz_file import DAMAGE
from untwist.datasets.progress import progress_bar
from untwist.store import replacing
from untwist.types import InputError

ABANDONED_SECONDS = 3600.0


def unpack(
    target: Path,
    blocks: Iterable[np.ndarray],
    shape: tuple[int, ...],
    *,
    dtype: str = "uint8",
    check: Callable[[np.ndarray], None] = lambda array: None,
) -> np.ndarray:
    """Returns a memory map of the array that blocks of rows make, written to `target` first.

    The file takes its place only when it is whole and `check` has not raised.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if free < size:
        raise InputError(
            f"{target} needs {size / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free there: "
            "make room, or set UNTWIST_CACHE to a directory on a larger disk"
        )
    _sweep(target)
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    with replacing(target) as temporary:
        with temporary.open("wb") as file, progress_bar(f"unpacking {target.stem}", size) as bar:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype).data)
                bar(block.nbytes)
        check(open_made(temporary, shape, dtype=dtype))
    return open_made(target, shape, dtype=dtype)


def _sweep(target: Path) -> None:
    """Removes what a process that was killed had written of the same array, after an hour."""
    for left in target.parent.glob(f".{target.name}.*"):
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            left.unlink(missing_ok=True)


def open_made(path: Path, shape: tuple[int, ...], *, dtype: str = "uint8") -> np.ndarray:
    """Returns a memory map of an array in the cache; refuses one that is not whole."""
    inspection = Inspection(str(path), "delete it, and the next load makes it anew")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise inspection.refusal(f"it is damaged ({error})") from error
    inspection.array(path.stem, array, shape, dtype)
    return array
