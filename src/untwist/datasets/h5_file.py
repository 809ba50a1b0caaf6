"""Reading HDF5 files: datasets stored in one piece are mapped where they lie."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from untwist.datasets.dataset import BLOCK_BYTES
from untwist.datasets.inspection import ArrayFacts, Inspection


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
        self.file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        return names

    def facts(self, name: str) -> ArrayFacts:
        """Returns shape and dtype of a dataset without reading it."""
        dataset = self._dataset(name)
        return ArrayFacts(tuple(dataset.shape), dataset.dtype)

    def read(self, name: str) -> np.ndarray:
        """Returns a small dataset, read into memory."""
        return np.concatenate(list(self.blocks(name))) if self.facts(name).shape else np.array(0)

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
                yield np.asarray(dataset[start : start + step])
            except (OSError, RuntimeError) as error:
                raise self.inspection.refusal(
                    f"the dataset {name!r} cannot be read from row {start} on ({error})"
                ) from error

    def _dataset(self, name: str) -> h5py.Dataset:
        """The dataset of that name."""
        try:
            item = self.file.get(name)
        except (OSError, RuntimeError, KeyError) as error:
            raise self.inspection.refusal(f"{name!r} cannot be read ({error})") from error
        if not isinstance(item, h5py.Dataset) or item.shape is None:
            held = ", ".join(self.names) or "nothing"
            raise self.inspection.refusal(
                f"expected a dataset named {name!r}, but the file holds {held}"
            )
        if item.dtype.hasobject:
            raise self.inspection.refusal(f"the dataset {name!r} does not hold plain numbers")
        return item


@contextmanager
def open_h5(path: Path, inspection: Inspection) -> Iterator[H5File]:
    """Yields an HDF5 file; refuses what is not one."""
    try:
        file = h5py.File(path, "r")
    except (OSError, RuntimeError) as error:
        raise inspection.refusal(f"it is not a whole HDF5 file ({error})") from error
    with file:
        yield H5File(path, file, inspection)
