"""Cars3D from its published archive, or from the folder it unpacks to."""

import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from untwist.datasets.cache import cache_directory
from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_drawn, require_neighbors
from untwist.datasets.found_file import Access, find_file, find_folder
from untwist.datasets.inspection import Inspection
from untwist.datasets.progress import progress_bar
from untwist.datasets.published_file import CARS3D_ARCHIVE, PublishedFile
from untwist.datasets.real_images import (
    GridLayout,
    grid_dataset,
    made_before,
    make_images,
    real_provenance,
)
from untwist.datasets.resize import check_size, resize_images

MESH = re.compile(r"car_\d+_mesh\.mat")
DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error)


@dataclass(frozen=True)
class CarLayout:
    """What the archive of Cars3D holds.

    Attributes:
        grid: The factors and the shape of a published image.
        file: The archive.
    """

    grid: GridLayout
    file: PublishedFile = CARS3D_ARCHIVE


LAYOUT = CarLayout(
    GridLayout(
        "cars3d",
        "Cars3D",
        ("elevation", "azimuth", "object_type"),
        (4, 24, 183),
        ("ordinal", "periodic", "categorical"),
        (128, 128, 3),
    )
)


def cars3d(
    *,
    size: int = 64,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns Cars3D, real files: 17,568 color renders of 183 cars.

    Elevation 4, azimuth 24, object type 183. The cars are numbered as in the archive's own
    list.txt, not in the order in which a file system lists them, so that the factor is the same on
    every machine. The archive is read once, without being unpacked, and the images are kept.

    Args:
        size: Height and width, 128 as published; smaller by Lanczos, as disentanglement_lib does.
        path: The .tar.gz, the directory that holds it, or the directory data/cars out of it.
        download: Fetch the archive where it is missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_cars3d(LAYOUT, Access(path, download, unverified), size=size)


def open_cars3d(layout: CarLayout, access: Access, *, size: int) -> Dataset:
    """Returns the dataset of this layout."""
    check_size("cars3d", size, layout.grid.shape[0])
    grid = replace(layout.grid, shape=(size, size, 3))
    folder = _mesh_folder(access)
    if folder is None:
        found = find_file(grid.name, layout.file, access)
    else:
        found = find_folder(grid.name, folder, "*")
    part = f"images{size}"
    images, checks = made_before(found, part, grid.array), found.checks
    if images is None:
        found.require_confirmed(access)
        inspection = Inspection(found.what)
        read = _archived if folder is None else _unpacked
        meshes = dict(read(found.path, layout, size, inspection))
        images = _assemble(meshes, grid, inspection)
        check = lambda look, array: _check_content(look, array, grid)  # noqa: E731
        images = make_images(found, inspection, images, grid.array, check=check, part=part)
        checks = inspection.passed
    provenance = real_provenance(grid.source, [found], checks) | {"size": size}
    return grid_dataset(grid, images, provenance)


def _mesh_folder(access: Access) -> Path | None:
    """The folder of .mat files, if the path or the cache holds it."""
    base = (
        Path(access.path).expanduser().absolute() if access.path else cache_directory() / "cars3d"
    )
    for folder in (base, base / "cars", base / "data/cars"):
        if (folder / "list.txt").is_file():
            return folder
    return None


def _unpacked(
    folder: Path, layout: CarLayout, size: int, inspection: Inspection
) -> Iterator[tuple[str, np.ndarray | str]]:
    """The list and the meshes of the folder that the archive unpacks to."""
    yield "list.txt", (folder / "list.txt").read_text(encoding="utf-8", errors="replace")
    for file in sorted(folder.glob("car_*_mesh.mat")):
        yield file.name, _mesh(file.read_bytes(), file.name, layout, size, inspection)


def _archived(
    path: Path, layout: CarLayout, size: int, inspection: Inspection
) -> Iterator[tuple[str, np.ndarray | str]]:
    """The list and the meshes of the archive, in one pass through it."""
    total = path.stat().st_size
    done = 0
    try:
        with (
            path.open("rb") as raw,
            tarfile.open(fileobj=raw, mode="r|*") as archive,
            progress_bar(f"reading {path.name}", total) as bar,
        ):
            for member in archive:
                name = Path(member.name).name
                if Path(member.name).parent.name != "cars" or not member.isfile():
                    continue
                if name != "list.txt" and not MESH.fullmatch(name):
                    continue
                data = archive.extractfile(member)
                content = data.read() if data else b""
                if name == "list.txt":
                    yield name, content.decode("utf-8", "replace")
                else:
                    yield name, _mesh(content, name, layout, size, inspection)
                bar(raw.tell() - done)
                done = raw.tell()
    except DAMAGE as error:
        raise inspection.refusal(f"it is not a whole .tar.gz archive ({error})") from error


def _mesh(
    content: bytes, name: str, layout: CarLayout, size: int, inspection: Inspection
) -> np.ndarray:
    """The images of one car: elevation × azimuth × height × width × channel."""
    from scipy.io import loadmat

    try:
        held = loadmat(io.BytesIO(content), variable_names=["im"])
    except Exception as error:  # What loadmat raises on damaged bytes is not documented.
        raise inspection.refusal(f"{name} is not a whole .mat file ({error})") from error
    if "im" not in held:
        raise inspection.refusal(f"expected an array named 'im' in {name}, but there is none")
    elevations, azimuths, _ = layout.grid.sizes
    shape = (*layout.grid.shape, azimuths, elevations)
    quiet = Inspection(f"{inspection.what}: {name}")
    quiet.array("im", held["im"], shape, "uint8")
    images = held["im"].transpose(4, 3, 0, 1, 2).reshape(-1, *layout.grid.shape)
    return resize_images(np.ascontiguousarray(images), size, "lanczos")


def _assemble(
    meshes: dict[str, np.ndarray | str], grid: GridLayout, inspection: Inspection
) -> Iterator[np.ndarray]:
    """Blocks of the images in grid order, the cars in the order of the list."""
    listed = meshes.pop("list.txt", None)
    if not isinstance(listed, str):
        raise inspection.refusal("expected the list of cars, cars/list.txt, but there is none")
    names = [f"{line.strip().removesuffix('.mat')}.mat" for line in listed.split()]
    elevations, azimuths, cars = grid.sizes
    inspection.require(
        len(names) == cars == len(set(names)),
        f"a list of {cars} cars",
        f"{len(names)}, {len(set(names))} of them different",
    )
    missing = [name for name in names if name not in meshes]
    inspection.require(
        not missing and len(meshes) == cars,
        "a .mat file of each car in the list",
        f"{len(meshes)} files, without {', '.join(missing[:3]) or 'any missing'}",
    )
    inspection.passed.append(f"{cars} arrays 'im' of {azimuths} × {elevations} views")
    stacked = np.stack([np.asarray(meshes[name]) for name in names], axis=1)
    stacked = stacked.reshape(elevations, azimuths, cars, *grid.shape)
    return iter(stacked.reshape(elevations, -1, *grid.shape))


def _check_content(inspection: Inspection, images: np.ndarray, grid: GridLayout) -> None:
    """Facts of the renders: none blank; each factor changes them, the azimuth gradually."""
    require_drawn(inspection, images)
    require_neighbors(
        inspection, images.__getitem__, grid.space, changing=grid.names, smooth=("azimuth",)
    )
