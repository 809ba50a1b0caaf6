"""The renders of the Basel Face Model used with beta-TCVAE, from their published .pth file."""

from dataclasses import dataclass

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_drawn, require_neighbors
from untwist.datasets.found_file import Access, find_file
from untwist.datasets.inspection import Inspection
from untwist.datasets.published_file import FACES_PTH, PublishedFile
from untwist.datasets.real_images import GridLayout, grid_dataset, real_provenance
from untwist.datasets.torch_file import map_tensor


@dataclass(frozen=True)
class FaceLayout:
    """What the file of faces holds.

    Attributes:
        grid: The factors and the shape of an image.
        file: The file.
    """

    grid: GridLayout
    file: PublishedFile = FACES_PTH


LAYOUT = FaceLayout(
    GridLayout(
        "faces",
        "3D faces (Basel Face Model, chen2018)",
        ("identity", "azimuth", "elevation", "lighting"),
        (50, 21, 11, 11),
        ("categorical", "ordinal", "ordinal", "ordinal"),
        (64, 64, 1),
    )
)


def faces(*, path: str | None = None, download: bool = False, unverified: bool = False) -> Dataset:
    """Returns the 3D faces used with beta-TCVAE, real file: 127,050 gray renders of 50 heads.

    Identity 50, azimuth 21, elevation 11, lighting 11. The file, written by PyTorch, is mapped
    where it lies; what is pickled in it is read without being run. No checksum is published: the
    first load records one, and later files must be the same.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing; no address of it is known.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_faces(LAYOUT, Access(path, download, unverified))


def open_faces(layout: FaceLayout, access: Access) -> Dataset:
    """Returns the dataset of this layout."""
    grid = layout.grid
    found = find_file(grid.name, layout.file, access)
    inspection = Inspection(found.what)
    tensor = map_tensor(found.path, inspection)
    inspection.require(
        tensor.dtype == np.uint8, "numbers from 0 to 255 as bytes", f"{tensor.dtype}"
    )
    side = grid.shape[:2]
    inspection.require(
        tensor.size == np.prod(grid.array) and tensor.shape[-2:] == side,
        f"{grid.array[0]:,} images of {side[0]}×{side[1]}",
        f"a tensor of shape {tensor.shape}",
    )
    images = tensor.reshape(grid.array)
    found.require_confirmed(access)
    if not found.accepted:
        require_drawn(inspection, images)
        require_neighbors(
            inspection,
            images.__getitem__,
            grid.space,
            changing=grid.names,
            smooth=("azimuth", "elevation", "lighting"),
        )
    found.accept(inspection.passed if not found.accepted else list(found.checks))
    checks = found.checks if found.accepted else inspection.passed
    return grid_dataset(grid, images, real_provenance(grid.source, [found], checks))
