"""Which datasets can be had on this machine: drawn, or out of files that are here."""

from collections.abc import Mapping
from pathlib import Path

from untwist.datasets.cache import cache_directory
from untwist.datasets.derived_sets import DERIVED
from untwist.datasets.found_file import Access, is_here
from untwist.datasets.idx import gzipped_or_plain
from untwist.datasets.published_file import (
    CARS3D_ARCHIVE,
    CELEBA_ARCHIVE,
    CELEBA_ATTRIBUTES,
    DSPRITES_HDF5,
    DSPRITES_NPZ,
    FACES_PTH,
    FASHION_MNIST_FILES,
    KMNIST_FILES,
    MNIST_FILES,
    MPI3D_COMPLEX,
    MPI3D_FILES,
    SHAPES3D_H5,
    SMALLNORB_FILES,
    PublishedFile,
)

REAL_FILES: Mapping[str, tuple[PublishedFile, ...]] = {
    "cars3d": (CARS3D_ARCHIVE,),
    "celeba": (CELEBA_ARCHIVE, CELEBA_ATTRIBUTES),
    "dsprites": (DSPRITES_HDF5, DSPRITES_NPZ),
    "faces": (FACES_PTH,),
    "fashion_mnist": tuple(FASHION_MNIST_FILES.values()),
    "kmnist": tuple(KMNIST_FILES.values()),
    "mnist": tuple(MNIST_FILES.values()),
    "mpi3d_real": (MPI3D_FILES["real"],),
    "mpi3d_real_complex": (MPI3D_COMPLEX,),
    "mpi3d_realistic": (MPI3D_FILES["realistic"],),
    "mpi3d_toy": (MPI3D_FILES["toy"],),
    "shapes3d": (SHAPES3D_H5,),
    "smallnorb": tuple(SMALLNORB_FILES.values()),
}
"""The published files of every dataset that is read from files."""

FOLDERS = {"celeba": "img_align_celeba", "cars3d": "data/cars"}
"""What the archive of a dataset unpacks to, which serves as well."""


def availability(name: str) -> str:
    """Returns how a dataset can be had: "drawn", "derived", "twin, drawn", "real, here" or not."""
    if name in DERIVED:
        return "derived"
    if name not in REAL_FILES:
        return "twin, drawn" if name == "sprites" or name.endswith("_twin") else "drawn"
    here = [_here(name, file) for file in REAL_FILES[name]]
    if all(here) or (name == "dsprites" and any(here)) or (name == "celeba" and here[0]):
        return "real, here"
    return "real, in part" if any(here) else "real, missing"


def name_of_file(path: Path) -> list[str]:
    """Returns the datasets that publish a file of this name."""
    return [
        name
        for name, files in REAL_FILES.items()
        if any(path.name in (file.name, file.name.removesuffix(".gz")) for file in files)
    ]


def _here(name: str, file: PublishedFile) -> bool:
    """Whether a file is here, as published, unpacked, or as the folder that it unpacks to."""
    folder = FOLDERS.get(name)
    if folder and file.name.endswith(("zip", "tar.gz")):
        if (cache_directory() / name / folder).is_dir():
            return True
    return is_here(name, gzipped_or_plain(name, file, Access()))
