"""A matrix that the user has in a file."""

import csv
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from untwist.types import InputError


def read_matrix(path: Path) -> np.ndarray:
    """Returns the one numeric matrix of a .npy, .npz or .csv file, as float64."""
    if not path.is_file():
        raise InputError(f"no file at {path}: give a .npy, .npz or .csv file with one matrix")
    try:
        matrix = np.asarray(_LOADERS[path.suffix.lower()](path), dtype=np.float64)
    except KeyError as error:
        raise InputError(f"{path} must end in .npy, .npz or .csv to be read") from error
    except (ValueError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise InputError(f"{path} does not hold a matrix of numbers: {error}") from error
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{path} must hold a matrix, but holds an array of shape {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise InputError(f"{path} holds values that are missing or infinite: clean them first")
    return matrix


def _load_npz(path: Path) -> np.ndarray:
    """The only array of the archive."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if len(archive.files) != 1:
            raise InputError(f"{path} must hold one array, but holds {', '.join(archive.files)}")
        return archive[archive.files[0]]


def _load_csv(path: Path) -> np.ndarray:
    """Numbers separated by commas; a first line of names is passed over."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    try:
        [float(cell) for cell in rows[0]]
    except (ValueError, IndexError):
        rows = rows[1:]
    return np.array(rows, dtype=float)


_LOADERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npy": lambda path: np.load(path, allow_pickle=False),
    ".npz": _load_npz,
    ".csv": _load_csv,
}
