"""Your own data as a dataset: files that were exported or imported, and any images or vectors."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from untwist.datasets.cache import cache_directory
from untwist.datasets.dataset import Dataset, Provenance
from untwist.datasets.factor_table import (
    FactorTable,
    factor_table,
    grid_order,
    read_csv,
    unlabeled,
)
from untwist.datasets.own_source import OwnArrays, read_own
from untwist.factors import FactorSpace
from untwist.types import InputError

CLAIMS = ("confirmed by", "checks")
"""What a file cannot say of itself."""

ENDINGS = (".npz", ".h5", ".hdf5")


def own(
    path: str,
    /,
    *,
    factors: str | None = None,
    kinds: str | None = None,
    likelihood: str | None = None,
) -> Dataset:
    """Returns your own data: an .npz or .h5 file, or a folder of pictures.

    A file holds `images` (examples × height × width, with one or three channels last or first;
    bytes, or numbers from 0 to 1) or `vectors`, and may hold `factors` with their `names`. A folder
    may hold factors.csv. What `untwist data export` and `untwist data import` wrote reads back as
    it was. Rows that are a whole grid of discrete factors are put in grid order.

    Args:
        path: Where the data are.
        factors: A CSV file of factors, a column each, a row an example; one in the data by default.
        kinds: A kind for each factor, with commas between; what the values say by default.
        likelihood: bernoulli, gaussian or squared_error; bernoulli for images by default.
    """
    source = read_own(Path(path).expanduser())
    data, peak = _examples(source)
    table = _factors(source, len(data), factors, kinds)
    if len(table.rows) != len(data):
        raise InputError(
            f"{path}: expected a row of factors for each of the {len(data):,} examples, but got "
            f"{len(table.rows):,}"
        )
    order = grid_order(table)
    if order is not None and not np.array_equal(order, np.arange(len(order))):
        data, table = data[order], FactorTable(table.rows[order], table.space)
    suits = likelihood or _text(source, "likelihood")
    return Dataset(
        _text(source, "name") or source.path.stem,
        data,
        table.rows,
        table.space,
        suits or ("bernoulli" if source.is_image else "squared_error"),
        _provenance(source),
        data.shape[1:],
        peak,
    )


def imported_path(name: str) -> Path:
    """Returns where data imported under a name lie in the cache."""
    return cache_directory() / "imported" / f"{name}.npz"


def imported_names() -> list[str]:
    """Returns the names under which data were imported."""
    return sorted(path.stem for path in imported_path("any").parent.glob("*.npz"))


def is_own(name: str) -> bool:
    """Returns whether a name means a path, or data that were imported under it."""
    path = Path(name)
    return path.suffix in ENDINGS or len(path.parts) > 1 or path.is_dir() or _imported(name)


def own_path(name: str) -> str:
    """Returns the path of your own data by their path or by the name they were imported under."""
    return str(imported_path(name)) if _imported(name) else name


def settled_name(name: str) -> str:
    """Returns a name that means the same in every working directory: paths are made absolute."""
    if _imported(name) or not is_own(name):
        return name
    return str(Path(name).expanduser().absolute())


def _imported(name: str) -> bool:
    return len(Path(name).parts) == 1 and imported_path(name).is_file()


def _examples(source: OwnArrays) -> tuple[np.ndarray, int]:
    """The examples as a dataset keeps them, and the byte that stands for 1.0."""
    data = source.data
    if data.ndim == 0 or len(data) == 0:
        raise InputError(f"{source.path}: expected at least one example, but got none")
    if not source.is_image:
        if data.ndim != 2 or data.dtype.kind not in "fiub":
            raise InputError(
                f"{source.path}: expected vectors of numbers, examples × length, but got "
                f"{data.dtype} of shape {data.shape}"
            )
        return (data if data.dtype == np.float32 else data.astype(np.float32)), 255
    data = _channels_last(source)
    peak = _peak(source)
    if data.dtype == np.uint8:
        if source.files and peak is not None and peak < 255:
            return (data * (peak / 255)).round().astype(np.uint8), peak
        return data, (1 if _at_most_one(data) else 255) if peak is None else peak
    if data.dtype == bool:
        return data.astype(np.uint8), 1
    if data.dtype.kind == "f" and data.size and float(data.min()) >= 0 and float(data.max()) <= 1:
        return (np.asarray(data) * 255).round().astype(np.uint8), 255
    raise InputError(
        f"{source.path}: expected images as bytes, as true and false, or as numbers from 0 to 1, "
        f"but got {data.dtype} from {data.min()} to {data.max()}: rescale them"
    )


def _peak(source: OwnArrays) -> int | None:
    """The byte that stands for 1.0, if the source says so."""
    peak = source.small.get("peak")
    if peak is None:
        return None
    try:
        return int(peak)
    except (TypeError, ValueError):
        raise InputError(
            f"{source.path}: expected one whole number as peak, but got {peak}"
        ) from None


def _channels_last(source: OwnArrays) -> np.ndarray:
    """Images as examples × height × width × channel."""
    data = source.data
    if data.ndim == 3:
        return data[..., None]
    if data.ndim == 4 and data.shape[-1] in (1, 3):
        return data
    if data.ndim == 4 and data.shape[1] in (1, 3):
        return np.ascontiguousarray(np.moveaxis(data, 1, -1))
    raise InputError(
        f"{source.path}: expected images of shape examples × height × width, with 1 or 3 channels "
        f"last or first, but got {data.shape}"
    )


def _at_most_one(data: np.ndarray) -> bool:
    """Whether bytes are all 0 and 1, so that 1 stands for white; looks no further than it must."""
    return all(int(block.max()) <= 1 for block in np.array_split(data, max(1, len(data) // 4096)))


def _factors(source: OwnArrays, count: int, given: str | None, kinds: str | None) -> FactorTable:
    """The factors: those given, those in the file, those beside the pictures, or none."""
    beside = source.path / "factors.csv"
    if given is not None or (source.files and beside.is_file()):
        path = beside if given is None else Path(given).expanduser()
        if not path.is_file():
            raise InputError(f"there is no table of factors {path}: give the place of a CSV file")
        return _of_csv(source, path, kinds, own_space=given is None)
    if "factors" not in source.small:
        if kinds is not None:
            raise InputError(f"{source.path} has no factors, so kinds={kinds} says nothing")
        return unlabeled(count)
    rows = np.asarray(source.small["factors"])
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype.kind not in "fiubUS":
        raise InputError(
            f"{source.path}: expected factors of shape examples × factors, but got {rows.dtype} of "
            f"shape {rows.shape}"
        )
    names = [str(name) for name in source.small.get("names", [])]
    names = names or [f"factor{i + 1}" for i in range(rows.shape[1])]
    if len(names) != rows.shape[1]:
        raise InputError(
            f"{source.path}: expected a name for each of {rows.shape[1]} factors, but got "
            f"{', '.join(names)}"
        )
    space = _declared_space(source, kinds)
    if space is not None:
        return FactorTable(rows, space)
    return factor_table(names, list(rows.T), kinds, str(source.path))


def _of_csv(source: OwnArrays, path: Path, kinds: str | None, *, own_space: bool) -> FactorTable:
    """The factors of a CSV file, in the order of the examples."""
    names, rows = read_csv(path)
    if source.files and names[0] in ("image", "file", "filename", "name"):
        rows = _in_order(source, path, rows)
        names, rows = names[1:], [row[1:] for row in rows]
        if not names:
            raise InputError(f"{path}: expected a factor beside the names of pictures")
    space = _declared_space(source, kinds) if own_space else None
    if space is not None and list(space.names) == names:
        dtype = np.int32 if space.has_grid else np.float32
        try:
            return FactorTable(np.array(rows, np.float64).astype(dtype), space)
        except ValueError:
            raise InputError(f"{path}: expected numbers, as dataset.json declares") from None
    return factor_table(names, list(zip(*rows, strict=True)), kinds, str(path))


def _in_order(source: OwnArrays, path: Path, rows: list[list[str]]) -> list[list[str]]:
    """The rows of a table in the order of the pictures that they name."""
    by_name = {row[0]: row for row in rows}
    if len(by_name) < len(rows):
        raise InputError(f"{path}: expected one row a picture, but some are named twice")
    lost = [name for name in by_name if name not in set(source.files)]
    missing = [name for name in source.files if name not in by_name]
    if lost or missing:
        name, where = (lost[0], "the folder") if lost else (missing[0], "the table")
        raise InputError(f"{path}: expected a row for each picture, but {name} is not in {where}")
    return [by_name[name] for name in source.files]


def _declared_space(source: OwnArrays, wanted: str | None) -> FactorSpace | None:
    """The space that the source declares; None where it does not, or other kinds are wanted."""
    parts = [source.small.get(key) for key in ("names", "sizes", "kinds")]
    if wanted is not None or any(part is None for part in parts):
        return None
    names, sizes, declared = (_list(part) for part in parts)
    if not all(type(size) is int for size in sizes):
        raise InputError(f"{source.path}: expected whole numbers as sizes, but got {sizes}")
    return FactorSpace(
        tuple(str(name) for name in names),
        tuple(size or None for size in sizes),
        tuple(declared),
    )


def _list(values: Any) -> Sequence[Any]:
    """A small array or list, as a list of plain values."""
    return np.atleast_1d(np.asarray(values)).ravel().tolist()


def _text(source: OwnArrays, key: str) -> str:
    """A text that the source holds; empty if it holds none."""
    return str(source.small.get(key, ""))


def _provenance(source: OwnArrays) -> Provenance:
    """What the source says of its origin, but not that anybody confirmed it; else "your own"."""
    file = {"file": source.path.name}
    text = _text(source, "provenance")
    if text:
        try:
            held = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{source.path}: its provenance is not JSON: {error}") from error
        if isinstance(held, dict):
            return {key: value for key, value in held.items() if key not in CLAIMS} | file
        raise InputError(f"{source.path}: expected a table as provenance, but got {text[:40]!r}")
    return {"source": "your own data", "twin": False, "version": 1} | file
