"""CelebA from its published zip archive, or from the folder of pictures it unpacks to."""

import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from untwist.datasets.cache import cache_directory
from untwist.datasets.dataset import Dataset
from untwist.datasets.found_file import Access, FoundFile, find_file, find_folder
from untwist.datasets.inspection import Inspection
from untwist.datasets.published_file import CELEBA_ARCHIVE, CELEBA_ATTRIBUTES, PublishedFile
from untwist.datasets.real_images import made_before, make_images, real_provenance
from untwist.datasets.resize import check_size
from untwist.factors import FactorSpace
from untwist.types import InputError

BLOCK = 256


@dataclass(frozen=True)
class PortraitLayout:
    """What the files of CelebA hold.

    Attributes:
        count: How many pictures.
        shape: Height and width of each.
        attributes: How many labels each has.
        archive: The pictures.
        labels: The labels.
    """

    count: int = 202_599
    shape: tuple[int, int] = (218, 178)
    attributes: int = 40
    archive: PublishedFile = CELEBA_ARCHIVE
    labels: PublishedFile = CELEBA_ATTRIBUTES


LAYOUT = PortraitLayout()


def celeba(
    *,
    size: int = 64,
    crop: int = 148,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns CelebA, real files: 202,599 color portraits with 40 labels of yes and no each.

    The field cuts out a central square and resizes it, with squares of several sides: 148 is the
    most usual, 140 and 108 are others, and 0 takes the whole picture and squeezes it. Resized
    bilinearly. The pictures are decoded once and kept in the cache (2.5 GB at 64 pixels). Without
    list_attr_celeba.txt beside them they have no labels, and the one factor says nothing.

    Args:
        size: Height and width.
        crop: The side of the central square in pixels of the published 178×218; 0 for all of it.
        path: The zip archive, the folder of pictures, or a directory that holds either.
        download: Fetch files that are missing; no address serves them to a program.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_celeba(LAYOUT, Access(path, download, unverified), size=size, crop=crop)


def open_celeba(layout: PortraitLayout, access: Access, *, size: int, crop: int) -> Dataset:
    """Returns the dataset of this layout."""
    check_size("celeba", size, min(layout.shape))
    if crop and not size <= crop <= min(layout.shape):
        raise InputError(
            f"celeba: expected crop=0 for the whole picture, or a square from {size} to "
            f"{min(layout.shape)} pixels, but got crop={crop}"
        )
    folder = _picture_folder(access)
    shape = (layout.count, size, size, 3)
    part = f"images{size}-crop{crop}"
    found = _find_pictures(layout, folder, access)
    inspection = Inspection(found.what)
    images, checks = made_before(found, part, shape), list(found.checks)
    if images is None:
        found.require_confirmed(access)
        blocks = _decode(layout, found, size, crop, inspection)
        images = make_images(
            found, inspection, blocks, shape, check=lambda look, array: None, part=part
        )
        checks = inspection.passed
    labels = _labels(layout, access)
    factors, space, files = labels or _no_labels(layout)
    provenance = real_provenance("CelebA", [found, *files], checks)
    provenance |= {"size": size, "crop": crop}
    return Dataset("celeba", images, factors, space, "bernoulli", provenance, shape[1:])


def _picture_folder(access: Access) -> Path | None:
    """The folder of pictures, if the path or the cache holds one and not the archive."""
    base = Path(access.path).expanduser() if access.path else cache_directory() / "celeba"
    for folder in (base, base / "img_align_celeba"):
        if (folder / "000001.jpg").is_file():
            return folder.absolute()
    return None


def _find_pictures(layout: PortraitLayout, folder: Path | None, access: Access) -> FoundFile:
    """The archive; or the folder, known by the names, sizes and times of its pictures."""
    if folder is None:
        return find_file("celeba", layout.archive, access)
    return find_folder("celeba", folder, "*.jpg")


@contextmanager
def _pictures(found: FoundFile, inspection: Inspection) -> Iterator[tuple[list[str], Callable]]:
    """Yields the names of the pictures in order, and the function that reads one."""
    if found.path.is_dir():
        names = sorted(file.name for file in found.path.glob("*.jpg"))
        yield names, lambda name: (found.path / name).read_bytes()
        return
    try:
        archive = zipfile.ZipFile(found.path)
    except (zipfile.BadZipFile, EOFError) as error:
        raise inspection.refusal(f"it is not a whole zip archive ({error})") from error
    with archive:
        places = {
            Path(name).name: name
            for name in archive.namelist()
            if name.endswith(".jpg") and "__MACOSX" not in name
        }
        yield sorted(places), lambda name: archive.read(places[name])


def _decode(
    layout: PortraitLayout, found: FoundFile, size: int, crop: int, inspection: Inspection
) -> Iterator[np.ndarray]:
    """Blocks of pictures, cut out and resized; refuses what is not the known number and size."""
    with _pictures(found, inspection) as (names, read):
        expected = [f"{number:06d}.jpg" for number in range(1, layout.count + 1)]
        missing = sorted(set(expected) - set(names))
        inspection.require(
            names == expected,
            f"{layout.count:,} pictures, {expected[0]} to {expected[-1]}",
            f"{len(names):,}" + (f", without {missing[0]}" if missing else ", some unknown"),
        )
        for start in range(0, layout.count, BLOCK):
            block = names[start : start + BLOCK]
            yield np.stack([_picture(layout, read, n, size, crop, inspection) for n in block])
        inspection.passed.append(f"pictures of {layout.shape[1]}×{layout.shape[0]} in color")


def _picture(
    layout: PortraitLayout,
    read: Callable[[str], bytes],
    name: str,
    size: int,
    crop: int,
    inspection: Inspection,
) -> np.ndarray:
    """One picture, cut out and resized."""
    try:
        picture = Image.open(io.BytesIO(read(name)))
        picture.load()
    except (UnidentifiedImageError, OSError, zipfile.BadZipFile, ValueError) as error:
        raise inspection.refusal(f"{name} is not a whole picture ({error})") from error
    height, width = layout.shape
    if picture.size != (width, height) or picture.mode != "RGB":
        raise inspection.refusal(
            f"expected {name} in color with {width}×{height} pixels, but got {picture.mode} with "
            f"{picture.width}×{picture.height}"
        )
    lowest, highest = np.asarray(picture.getextrema()).T
    if (lowest == highest).all():
        raise inspection.refusal(f"{name} is blank")
    left, top = (width - crop) // 2, (height - crop) // 2
    box = (left, top, left + crop, top + crop) if crop else None
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR, box=box))


def _labels(
    layout: PortraitLayout, access: Access
) -> tuple[np.ndarray, FactorSpace, list[FoundFile]] | None:
    """The labels, their names and their file; None where the file is not there."""
    base = Path(access.path).expanduser() if access.path else cache_directory() / "celeba"
    places = (base, base.parent) if access.path else (base,)
    folder = next((p for p in places if (p / layout.labels.name).is_file()), None)
    if folder is None:
        return None
    found = find_file("celeba", layout.labels, replace(access, path=str(folder)))
    inspection = Inspection(found.what)
    lines = found.path.read_text(encoding="utf-8", errors="replace").splitlines()
    count, names = (lines[0].strip(), lines[1].split()) if len(lines) > 1 else ("", [])
    inspection.require(count == str(layout.count), f"{layout.count} in the first line", repr(count))
    inspection.require(
        len(names) == layout.attributes, f"{layout.attributes} names of labels", f"{len(names)}"
    )
    inspection.require(
        len(lines) == layout.count + 2, f"{layout.count:,} rows", f"{len(lines) - 2:,}"
    )
    factors = np.empty((layout.count, layout.attributes), np.int32)
    for number, line in enumerate(lines[2:]):
        picture, *values = line.split()
        signs = set(values)
        if picture != f"{number + 1:06d}.jpg" or len(values) != len(names) or signs - {"1", "-1"}:
            raise inspection.refusal(
                f"expected {number + 1:06d}.jpg and {len(names)} times 1 or -1 in row "
                f"{number + 1}, but got {line[:40]!r}"
            )
        factors[number] = [value == "1" for value in values]
    found.require_confirmed(access)
    found.accept(inspection.passed)
    kinds = ("categorical",) * len(names)
    return factors, FactorSpace(tuple(names), (2,) * len(names), kinds), [found]


def _no_labels(layout: PortraitLayout) -> tuple[np.ndarray, FactorSpace, list[FoundFile]]:
    """A factor of one value, which says nothing."""
    space = FactorSpace(("unlabeled",), (1,), ("categorical",))
    return np.zeros((layout.count, 1), np.int32), space, []
