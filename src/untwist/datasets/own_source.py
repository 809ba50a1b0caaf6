"""Arrays of your own data: out of an .npz or .h5 file, or a folder of pictures."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from untwist.datasets.cache import cache_directory
from untwist.datasets.h5_file import H5File, open_h5
from untwist.datasets.inspection import Inspection
from untwist.datasets.npz_file import NpzFile, open_npz
from untwist.datasets.progress import progress_bar
from untwist.datasets.unpack import open_made, unpack
from untwist.types import InputError

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
MODES = {"1": "L", "L": "L", "P": "RGB", "RGB": "RGB"}
IN_MEMORY = 2**29
"""Compressed arrays of more bytes are unpacked into the cache, to be mapped."""

SMALL = ("factors", "names", "sizes", "kinds", "peak", "provenance", "likelihood", "name")


@dataclass(frozen=True)
class OwnArrays:
    """What a source of your own data holds.

    Attributes:
        path: Where it is.
        data: Images or vectors, as they are stored.
        is_image: Whether they are images.
        small: The other arrays: factors, names, sizes, kinds, peak, provenance, likelihood.
        files: The names of the pictures, if they were files.
    """

    path: Path
    data: np.ndarray
    is_image: bool
    small: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()


def read_own(path: Path) -> OwnArrays:
    """Returns the arrays of a folder of pictures, an .npz or an .h5 file."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}: give the place of your data")
    inspection = Inspection(str(path), "expected an .npz, an .h5, or a folder of pictures")
    if path.suffix == ".npz":
        with open_npz(path, inspection) as file:
            return _read_file(path, file)
    if path.suffix in (".h5", ".hdf5"):
        with open_h5(path, inspection) as file:
            return _read_file(path, file)
    raise InputError(
        f"{path}: expected an .npz, an .h5 or .hdf5 file, or a folder of pictures, but it ends in "
        f"{path.suffix or 'nothing'}"
    )


def _read_file(path: Path, file: NpzFile | H5File) -> OwnArrays:
    """The arrays of an open file; the large one mapped where that can be."""
    names = [name for name in ("images", "vectors") if name in file.names]
    if len(names) != 1:
        raise InputError(
            f"{path}: expected one array named 'images' or 'vectors', but it holds "
            f"{', '.join(file.names) or 'nothing'}: rename the array"
        )
    small = {name: file.read(name) for name in SMALL if name in file.names}
    for key in ("names", "kinds"):
        if key in small and small[key].dtype.kind == "S":
            small[key] = np.char.decode(small[key], "utf-8")
    by_columns = file.facts(names[0]).by_columns
    data = None if by_columns else file.mapped(names[0])
    if data is None:
        data = _unpacked(path, file, names[0])
    elif data.nbytes <= IN_MEMORY:
        for _ in file.blocks(names[0]):  # Reading to the end compares the archive's checksum.
            pass
    return OwnArrays(path, data, names[0] == "images", small)


def _unpacked(path: Path, file: NpzFile | H5File, name: str) -> np.ndarray:
    """A compressed array: in memory if it is small, else unpacked into the cache once."""
    facts = file.facts(name)
    if facts.size <= IN_MEMORY or facts.by_columns:
        return file.read(name)
    stat = path.stat()
    seen = f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} {name}"
    target = cache_directory() / "own" / f"{hashlib.sha256(seen.encode()).hexdigest()[:16]}.npy"
    dtype = str(facts.dtype)
    if target.exists():
        return open_made(target, facts.shape, dtype=dtype)
    return unpack(target, file.blocks(name), facts.shape, dtype=dtype)


def _read_folder(path: Path) -> OwnArrays:
    """The pictures of a folder in the order of their names, all of one size."""
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise InputError(
            f"{path}: expected pictures ({', '.join(PICTURES)}), but the folder holds none"
        )
    first = _picture(files[0])
    data = np.empty((len(files), *first.shape), np.uint8)
    total = sum(file.stat().st_size for file in files)
    with progress_bar(f"reading {path.name}", total) as bar:
        for number, file in enumerate(files):
            picture = _picture(file)
            if picture.shape != first.shape:
                raise InputError(
                    f"{path}: expected pictures of one size and kind, but {files[0].name} is "
                    f"{first.shape} and {file.name} is {picture.shape}: resize or convert them"
                )
            data[number] = picture
            bar(file.stat().st_size)
    described = path / "dataset.json"
    small = _read_json(described) if described.exists() else {}
    if (path / "provenance.json").exists():
        small["provenance"] = (path / "provenance.json").read_text(encoding="utf-8")
    return OwnArrays(path, data, True, small, tuple(file.name for file in files))


def _read_json(path: Path) -> dict[str, Any]:
    """What a description says."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(held, dict):
        raise InputError(f"{path}: expected a table, but got {str(held)[:40]}")
    return held


def _picture(path: Path) -> np.ndarray:
    """A picture as bytes: height × width × channel."""
    try:
        with Image.open(path) as picture:
            if picture.mode not in MODES:
                raise InputError(
                    f"{path}: expected a gray or color picture of 8 bits, but its mode is "
                    f"{picture.mode}: convert it"
                )
            pixels = np.asarray(picture.convert(MODES[picture.mode]))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole picture ({error})") from error
    return pixels.reshape(*pixels.shape[:2], -1)
