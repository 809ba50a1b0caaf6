"""Shapes3D from its published HDF5 file."""

from dataclasses import dataclass

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_distinct, require_drawn, require_neighbors
from untwist.datasets.found_file import Access, find_file
from untwist.datasets.h5_file import open_h5
from untwist.datasets.inspection import Inspection
from untwist.datasets.published_file import SHAPES3D_H5, PublishedFile
from untwist.datasets.real_images import (
    GridLayout,
    grid_dataset,
    made_before,
    map_images,
    real_provenance,
)


@dataclass(frozen=True)
class ShapesLayout:
    """What the file of Shapes3D holds.

    Attributes:
        grid: The factors and the shape of an image.
        file: The file.
    """

    grid: GridLayout
    file: PublishedFile = SHAPES3D_H5


LAYOUT = ShapesLayout(
    GridLayout(
        "shapes3d",
        "Shapes3D",
        ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
        (10, 10, 10, 8, 4, 15),
        ("periodic", "periodic", "periodic", "ordinal", "categorical", "ordinal"),
        (64, 64, 3),
    )
)


def shapes3d(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns Shapes3D, real file: 480,000 color images of a solid in the middle of a room.

    Floor hue 10, wall hue 10, object hue 10, scale 8, shape 4, orientation 15. The published file
    is compressed; the first load unpacks it into the cache (5.9 GB), to be mapped from then on. A
    file whose images are stored in one piece is mapped where it lies.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_shapes3d(LAYOUT, Access(path, download, unverified))


def open_shapes3d(layout: ShapesLayout, access: Access) -> Dataset:
    """Returns the dataset of this layout."""
    grid = layout.grid
    found = find_file(grid.name, layout.file, access)
    images, checks = made_before(found, "images", grid.array), found.checks
    if images is None:
        inspection = Inspection(found.what)
        with open_h5(found.path, inspection) as file:
            inspection.array("images", file.facts("images"), grid.array, "uint8")
            rows = (grid.space.grid_size, len(grid.names))
            inspection.array("labels", file.facts("labels"), rows, "float64|float32")
            labels = inspection.levels(file.read("labels"), grid.names, grid.sizes)
            inspection.grid_order(labels, grid.space)
            check = lambda look, array: _check_content(look, array, grid)  # noqa: E731
            images = map_images(found, access, file, "images", check=check)
        checks = inspection.passed
    return grid_dataset(grid, images, real_provenance(grid.source, [found], checks))


def _check_content(inspection: Inspection, images: np.ndarray, grid: GridLayout) -> None:
    """Facts of the images: all distinct, gradual turns, the floor below, the walls above."""
    require_drawn(inspection, images)
    require_neighbors(
        inspection, images.__getitem__, grid.space, changing=grid.names, smooth=("orientation",)
    )
    space = grid.space
    base = np.asarray(space.factors(np.arange(0, space.grid_size, max(1, space.grid_size // 97))))
    for name, row, where, still in (("floor_hue", -1, "lowest", 0), ("wall_hue", 0, "highest", -1)):
        factor = space.names.index(name)
        moved = base.copy()
        moved[:, factor] = (moved[:, factor] + 1) % space.grid_sizes[factor]
        pair = [images[np.asarray(space.index(rows))].astype(int) for rows in (base, moved)]
        change = np.abs(pair[0] - pair[1])
        inspection.require(
            bool(change[:, row].any((1, 2)).all() and not change[:, still].any()),
            f"{name} to color the {where} row of pixels and not the opposite one",
            "images in which it does not",
        )
    require_distinct(inspection, images)
