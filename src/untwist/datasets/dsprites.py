"""dSprites from its published .npz or .hdf5 file."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_distinct, require_neighbors
from untwist.datasets.found_file import Access, FoundFile, find_file, is_here
from untwist.datasets.h5_file import H5File, open_h5
from untwist.datasets.inspection import Inspection
from untwist.datasets.npz_file import NpzFile, open_npz
from untwist.datasets.published_file import DSPRITES_HDF5, DSPRITES_NPZ, PublishedFile
from untwist.datasets.real_images import (
    GridLayout,
    grid_dataset,
    made_before,
    make_images,
    real_provenance,
)
from untwist.factors import FactorSpace

REPEATED = 0.02
"""The two ends of orientation differ by at most this share of what its first two values do."""


@dataclass(frozen=True)
class SpriteLayout:
    """What the files of dSprites hold.

    Attributes:
        grid: The factors but for the constant color, and the shape of an image.
        npz: The file as .npz.
        hdf5: The file as .hdf5.
    """

    grid: GridLayout
    npz: PublishedFile = DSPRITES_NPZ
    hdf5: PublishedFile = DSPRITES_HDF5


LAYOUT = SpriteLayout(
    GridLayout(
        "dsprites",
        "dSprites",
        ("shape", "scale", "orientation", "posX", "posY"),
        (3, 6, 40, 32, 32),
        ("categorical", "ordinal", "periodic", "ordinal", "ordinal"),
        (64, 64, 1),
    )
)


def dsprites(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns dSprites, real files: 737,280 binary images of a square, an ellipse and a heart.

    Shape 3, scale 6, orientation 40 (both ends of the turn), posX 32, posY 32; the constant first
    factor, color, is left out, as metrics do. Read from the .hdf5 or the .npz file, whichever is
    there; the metadata of the latter, which is a pickle, is never loaded. Kept as bits, 377 MB.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_dsprites(LAYOUT, Access(path, download, unverified))


def open_dsprites(layout: SpriteLayout, access: Access) -> Dataset:
    """Returns the dataset of this layout."""
    published = _choose(layout, access)
    found = find_file(layout.grid.name, published, access)
    shape = (layout.grid.space.grid_size, int(np.prod(layout.grid.shape)) // 8)
    images, checks = made_before(found, "images", shape), found.checks
    if images is None:
        inspection = Inspection(found.what)
        with _open(published is layout.npz, found, inspection) as file:
            images = _read(layout, found, access, file, shape)
        checks = inspection.passed
    provenance = real_provenance(layout.grid.source, [found], checks)
    return grid_dataset(layout.grid, images, provenance, bits=True)


def _choose(layout: SpriteLayout, access: Access) -> PublishedFile:
    """The .npz file if it is what there is, else the .hdf5 file."""
    if access.path is None:
        here = [is_here(layout.grid.name, file) for file in (layout.npz, layout.hdf5)]
        return layout.npz if here == [True, False] else layout.hdf5
    path = Path(access.path).expanduser()
    if path.is_dir():
        only_npz = (path / layout.npz.name).exists() > (path / layout.hdf5.name).exists()
        return layout.npz if only_npz else layout.hdf5
    return layout.npz if path.suffix == ".npz" else layout.hdf5


def _open(
    is_npz: bool, found: FoundFile, inspection: Inspection
) -> AbstractContextManager[NpzFile | H5File]:
    return open_npz(found.path, inspection) if is_npz else open_h5(found.path, inspection)


def _read(
    layout: SpriteLayout,
    found: FoundFile,
    access: Access,
    file: NpzFile | H5File,
    shape: tuple[int, ...],
) -> np.ndarray:
    """The packed images of a file that holds what it should."""
    inspection, space = file.inspection, layout.grid.space
    group = "latents_" if isinstance(file, NpzFile) else "latents/"
    rows = space.grid_size
    side = layout.grid.shape[:2]
    inspection.array("imgs", file.facts("imgs"), (rows, *side), "uint8")
    for part, dtype in (("classes", "int64|int32|uint8"), ("values", "float64|float32")):
        inspection.array(group + part, file.facts(group + part), (rows, 6), dtype)
    names, sizes = ("color", *space.names), (1, *space.grid_sizes)
    classes = file.read(f"{group}classes")
    ranks = inspection.levels(classes, names, sizes)
    inspection.require(
        np.array_equal(ranks, classes), "classes that count from 0", "others than 0, 1, 2, ..."
    )
    inspection.grid_order(ranks[:, 1:], space)
    values = inspection.levels(file.read(f"{group}values"), names, sizes)
    inspection.require(
        np.array_equal(values, ranks), "values that rise with the classes", "values that do not"
    )
    found.require_confirmed(access)
    blocks = _pack(file.blocks("imgs"), inspection)
    check = lambda look, array: _check_content(look, array, layout.grid)  # noqa: E731
    return make_images(found, inspection, blocks, shape, check=check)


def _pack(blocks: Iterator[np.ndarray], inspection: Inspection) -> Iterator[np.ndarray]:
    """The images as bits; refuses bytes other than 0 and 1."""
    done = 0
    for block in blocks:
        if (top := int(block.max())) > 1:
            raise inspection.refusal(
                f"expected bytes 0 and 1, but got {top} in images {done} to {done + len(block) - 1}"
            )
        done += len(block)
        yield np.packbits(block.reshape(len(block), -1), axis=-1)
    inspection.passed.append("bytes 0 and 1")


def _check_content(inspection: Inspection, packed: np.ndarray, layout: GridLayout) -> None:
    """Facts of the images: none blank, gradual steps, the turn's two ends alike, places right."""
    space = layout.space

    def pixels(index: np.ndarray) -> np.ndarray:
        return np.unpackbits(packed[index], axis=-1).reshape(-1, *layout.shape)

    counts = np.concatenate([np.bitwise_count(b).sum(-1) for b in np.array_split(packed, 64)])
    inspection.require(bool(counts.min() > 0), "no blank image", f"image {counts.argmin()} blank")
    smooth = ("posX", "posY", "orientation")
    require_neighbors(inspection, pixels, space, changing=("posX", "posY", "scale"), smooth=smooth)
    turns = packed.reshape(*space.grid_sizes, -1)
    last = np.bitwise_count(turns[:, :, 0] ^ turns[:, :, -1]).sum()
    step = np.bitwise_count(turns[:, :, 0] ^ turns[:, :, 1]).sum()
    inspection.require(
        bool(last <= REPEATED * step),
        "the same images at both ends of orientation",
        f"ends that differ in {last:,} pixels, a first step in {step:,}",
    )
    _check_places(inspection, pixels, counts, space)
    inside = turns[:, :, :-1].reshape(-1, packed.shape[-1])
    require_distinct(inspection, inside)


def _check_places(inspection: Inspection, pixels, counts: np.ndarray, space: FactorSpace) -> None:
    """Requires the area to rise with scale, posX to go right and posY down."""
    areas = counts.reshape(space.grid_sizes).mean((2, 3, 4))
    inspection.require(
        bool((np.diff(areas, axis=1) > 0).all()), "areas that rise with scale", "areas that do not"
    )
    ends = np.zeros((3, len(space)), np.int64)
    for row, factor in ((1, 3), (2, 4)):
        ends[row, factor] = space.grid_sizes[factor] - 1
    images = pixels(np.asarray(space.index(ends)))[..., 0].astype(np.float64)
    total = images.sum((1, 2))
    right = (images.sum(1) * np.arange(images.shape[2])).sum(1) / total
    down = (images.sum(2) * np.arange(images.shape[1])).sum(1) / total
    inspection.require(
        bool(right[1] > right[0] + 1 and abs(down[1] - down[0]) < 1),
        "posX that moves the sprite to the right",
        "a sprite that posX does not move so",
    )
    inspection.require(
        bool(down[2] > down[0] + 1 and abs(right[2] - right[0]) < 1),
        "posY that moves the sprite down",
        "a sprite that posY does not move so",
    )
