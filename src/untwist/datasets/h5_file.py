"""Reading HDF5 files: datasets stored in one piece are mapped where they lie."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from untwist.datasets.dataset import BLOCK_BYTES
from untwist.datasets.inspection import ArrayFacts, Inspection
from untwist.types import InputError

DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises on damaged files."""


@dataclass(frozen=True)
class H5File:
    """An HDF5 file that is open for reading.

    Attributes:
        path: Where it is.
        file: The open file.
        inspection: Refuses what is wrong with it.
    """

    path: Path
    file: h5py.File
    inspection: Inspection

    @property
    def names(self) -> list[str]:
        """The names of the datasets, with their groups."""
        names: list[str] = []
        try:
            self.file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
        except DAMAGE as error:
            raise self.inspection.refusal(f"its list of datasets is damaged ({error})") from error
        return names

    def facts(self, name: str) -> ArrayFacts:
        """Returns shape and dtype of a dataset without reading it."""
        dataset = self._dataset(name)
        return ArrayFacts(tuple(dataset.shape), dataset.dtype)

    def read(self, name: str) -> np.ndarray:
        """Returns a small dataset of numbers or texts, read into memory."""
        dataset = self._dataset(name)
        try:
            texts = h5py.check_string_dtype(dataset.dtype)
            held = dataset.asstr()[()] if texts else dataset[()]
        except DAMAGE as error:
            raise self.inspection.refusal(
                f"the dataset {name!r} cannot be read ({error})"
            ) from error
        return np.asarray(held, str) if texts else np.asarray(held)

    def mapped(self, name: str) -> np.ndarray | None:
        """Returns a memory map of a dataset stored in one piece; None if it is in chunks."""
        dataset = self._dataset(name)
        offset = dataset.id.get_offset()
        if offset is None or dataset.chunks is not None or offset % dataset.dtype.alignment:
            return None
        if offset + dataset.nbytes > self.path.stat().st_size:
            raise self.inspection.refusal(f"the dataset {name!r} is cut off")
        return np.memmap(self.path, dataset.dtype, "r", offset, tuple(dataset.shape))

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """Yields a dataset in pieces of whole rows, along its chunks; refuses damaged ones."""
        dataset = self._dataset(name)
        row = max(1, dataset.nbytes // max(1, len(dataset)))
        chunk = dataset.chunks[0] if dataset.chunks else 1
        step = max(1, BLOCK_BYTES // row // chunk) * chunk
        for start in range(0, len(dataset), step):
            try:
                block = np.asarray(dataset[start : start + step])
            except DAMAGE as error:
                raise self.inspection.refusal(
                    f"the dataset {name!r} cannot be read from row {start} on ({error})"
                ) from error
            yield block

    def _dataset(self, name: str) -> h5py.Dataset:
        """The dataset of that name."""
        try:
            item = self.file.get(name)
            if isinstance(item, h5py.Dataset) and item.shape is not None:
                texts = h5py.check_string_dtype(item.dtype)
                if (texts or not item.dtype.hasobject) and item.nbytes >= 0:
                    return item
                raise self.inspection.refusal(f"the dataset {name!r} does not hold plain numbers")
        except InputError:
            raise
        except DAMAGE as error:
            raise self.inspection.refusal(f"{name!r} cannot be read ({error})") from error
        held = ", ".join(self.names) or "nothing"
        raise self.inspection.refusal(
            f"expected a dataset named {name!r}, but the file holds {held}"
        )


@contextmanager
def open_h5(path: Path, inspection: Inspection) -> Iterator[H5File]:
    """Yields an HDF5 file; refuses what is not one."""
    try:
        file = h5py.File(path, "r")
    except DAMAGE as error:
        raise inspection.refusal(f"it is not a whole HDF5 file ({error})") from error
    with file:
        yield H5File(path, file, inspection)
