"""MPI3D from its published .npz files: toy, realistic and real, and real with complex shapes."""

from dataclasses import dataclass, replace

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_drawn, require_neighbors
from untwist.datasets.found_file import Access, find_file
from untwist.datasets.inspection import Inspection
from untwist.datasets.npz_file import open_npz
from untwist.datasets.published_file import MPI3D_COMPLEX, MPI3D_FILES, PublishedFile
from untwist.datasets.real_images import (
    GridLayout,
    grid_dataset,
    made_before,
    map_images,
    real_provenance,
)

COMPLEX_SIZES = (4, 4, 2, 3, 3, 40, 40)


@dataclass(frozen=True)
class RobotLayout:
    """What a file of MPI3D holds.

    Attributes:
        grid: The factors and the shape of an image.
        file: The file.
    """

    grid: GridLayout
    file: PublishedFile


TOY = RobotLayout(
    GridLayout(
        "mpi3d_toy",
        "MPI3D toy",
        (
            "object_color",
            "object_shape",
            "object_size",
            "camera_height",
            "background_color",
            "horizontal_axis",
            "vertical_axis",
        ),
        (6, 6, 2, 3, 3, 40, 40),
        ("categorical", "categorical", "ordinal", "ordinal", "categorical", "ordinal", "ordinal"),
        (64, 64, 3),
    ),
    MPI3D_FILES["toy"],
)
REALISTIC = RobotLayout(
    replace(TOY.grid, name="mpi3d_realistic", source="MPI3D realistic"), MPI3D_FILES["realistic"]
)
REAL = RobotLayout(replace(TOY.grid, name="mpi3d_real", source="MPI3D real"), MPI3D_FILES["real"])
COMPLEX = RobotLayout(
    replace(
        TOY.grid,
        name="mpi3d_real_complex",
        source="MPI3D real, complex shapes",
        sizes=COMPLEX_SIZES,
    ),
    MPI3D_COMPLEX,
)


def mpi3d_toy(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns MPI3D toy, real file: 1,036,800 simple renders of a robot arm that holds an object.

    Object color 6 (white, green, red, blue, brown, olive), shape 6 (cone, cube, cylinder,
    hexagonal, pyramid, sphere) and size 2, camera height 3, background color 3, horizontal and
    vertical axis 40 each. A compressed file is unpacked into the cache once (12.7 GB); a plain one
    is mapped where it lies. The file of the NeurIPS challenge has another grid and is not this one.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_mpi3d(TOY, Access(path, download, unverified))


def mpi3d_realistic(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns MPI3D realistic, real file: 1,036,800 realistic renders of the robot arm.

    The factors are those of `mpi3d_toy`.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_mpi3d(REALISTIC, Access(path, download, unverified))


def mpi3d_real(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns MPI3D real, real file: 1,036,800 photographs of the robot arm.

    The factors are those of `mpi3d_toy`.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_mpi3d(REAL, Access(path, download, unverified))


def mpi3d_real_complex(
    *, path: str | None = None, download: bool = False, unverified: bool = False
) -> Dataset:
    """Returns MPI3D real with complex shapes, real file: 460,800 photographs of everyday objects.

    Object color 4 (yellow, green, olive, red), shape 4 (coffee cup, tennis ball, croissant, beer
    cup) and size 2, camera height 3, background color 3, horizontal and vertical axis 40 each. No
    checksum is published: the first load records one, and later files must be the same.

    Args:
        path: The file, or the directory that holds it; the cache by default.
        download: Fetch the file where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_mpi3d(COMPLEX, Access(path, download, unverified))


def open_mpi3d(layout: RobotLayout, access: Access) -> Dataset:
    """Returns the dataset of this layout."""
    grid = layout.grid
    found = find_file(grid.name, layout.file, access)
    images, checks = made_before(found, "images", grid.array), found.checks
    if images is None:
        inspection = Inspection(found.what)
        with open_npz(found.path, inspection) as file:
            shape = file.facts("images").shape
            other = COMPLEX_SIZES if grid.sizes == TOY.grid.sizes else TOY.grid.sizes
            if shape[:1] == (np.prod(other),):
                sizes = "×".join(map(str, other))
                raise inspection.refusal(
                    f"expected {grid.array[0]:,} images, but got the {shape[0]:,} of the other "
                    f"variant of MPI3D, with the grid {sizes}"
                )
            inspection.array("images", file.facts("images"), grid.array, "uint8")
            check = lambda look, array: _check_content(look, array, grid)  # noqa: E731
            images = map_images(found, access, file, "images", check=check)
        checks = inspection.passed
    return grid_dataset(grid, images, real_provenance(grid.source, [found], checks))


def _check_content(inspection: Inspection, images: np.ndarray, grid: GridLayout) -> None:
    """Facts of the images: none blank; each factor changes them, the axes of the arm gradually."""
    require_drawn(inspection, images)
    changing = ("camera_height", "background_color", "horizontal_axis", "vertical_axis")
    smooth = ("horizontal_axis", "vertical_axis")
    require_neighbors(inspection, images.__getitem__, grid.space, changing=changing, smooth=smooth)
