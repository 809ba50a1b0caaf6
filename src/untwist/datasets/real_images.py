"""Images on a factor grid out of an array of a published file: mapped, or unpacked once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from untwist.datasets.dataset import Dataset, Provenance
from untwist.datasets.found_file import Access, FoundFile
from untwist.datasets.h5_file import H5File
from untwist.datasets.inspection import Inspection
from untwist.datasets.npz_file import NpzFile
from untwist.datasets.unpack import open_made, unpack
from untwist.factors import FactorSpace, Kind

Check = Callable[[Inspection, np.ndarray], None]


@dataclass(frozen=True)
class GridLayout:
    """What a published file of images on a grid of factors holds.

    Attributes:
        name: The name in the catalog.
        source: What the set is called.
        names: The factors, the last fastest.
        sizes: How many values each has.
        kinds: What kind each is.
        shape: The shape of one image.
    """

    name: str
    source: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    kinds: tuple[Kind, ...]
    shape: tuple[int, int, int]

    @property
    def space(self) -> FactorSpace:
        """The factors."""
        return FactorSpace(self.names, self.sizes, self.kinds)

    @property
    def array(self) -> tuple[int, ...]:
        """The shape of the array of all images."""
        return (self.space.grid_size, *self.shape)


def made_before(found: FoundFile, part: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns the array made from an accepted file, or None where it must be made."""
    target = found.made(part)
    return open_made(target, shape) if found.accepted and target.exists() else None


def map_images(
    found: FoundFile,
    access: Access,
    file: NpzFile | H5File,
    name: str,
    *,
    check: Check,
) -> np.ndarray:
    """Returns a memory map of an array whose shape is already inspected, and accepts the file.

    Args:
        found: The file.
        access: Whether it may have another checksum than published.
        file: The file, open.
        name: The array.
        check: Facts of the content, asked where no published checksum speaks for the file.
    """
    inspection = file.inspection
    found.require_confirmed(access)
    array = file.mapped(name)
    if array is None:
        shape = file.facts(name).shape
        return make_images(found, inspection, file.blocks(name), shape, check=check)
    if not (found.accepted or found.certain):
        for _ in file.blocks(name):
            pass
        check(inspection, array)
    found.accept(inspection.passed)
    return array


def make_images(
    found: FoundFile,
    inspection: Inspection,
    blocks: Iterable[np.ndarray],
    shape: tuple[int, ...],
    *,
    check: Check,
    part: str = "images",
) -> np.ndarray:
    """Returns a memory map of the array made from blocks in the cache, and accepts the file."""

    def examine(array: np.ndarray) -> None:
        if not found.certain:
            check(inspection, array)

    array = unpack(found.made(part), blocks, shape, check=examine)
    found.accept(inspection.passed)
    return array


def real_provenance(
    source: str, files: Iterable[FoundFile], checks: Iterable[str] = ()
) -> Provenance:
    """Returns where real files come from: their names, checksums, and what says they are right."""
    files = tuple(files)
    return {
        "source": source,
        "twin": False,
        "version": 1,
        "files": ", ".join(file.published.name for file in files),
        "sha256": ", ".join(file.sha256 for file in files),
        "confirmed by": "; ".join(dict.fromkeys(file.confirmed_by for file in files)),
        "checks": "; ".join(checks),
    }


def grid_dataset(
    layout: GridLayout,
    data: np.ndarray,
    provenance: Provenance,
    *,
    bits: bool = False,
    likelihood: str = "bernoulli",
) -> Dataset:
    """Returns the dataset of a full grid: its factors are those of the grid, in order."""
    space = layout.space
    factors = np.asarray(space.factors(np.arange(space.grid_size, dtype=np.int32)))
    peak = 1 if bits else 255
    return Dataset(
        layout.name, data, factors, space, likelihood, provenance, layout.shape, peak, bits
    )
