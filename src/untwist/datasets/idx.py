"""Sets in the format of MNIST: MNIST, Fashion-MNIST and KMNIST, from gzipped or plain idx files."""

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.found_file import Access, FoundFile, find_file, is_here
from untwist.datasets.inspection import Inspection
from untwist.datasets.published_file import (
    FASHION_MNIST_FILES,
    KMNIST_FILES,
    MNIST_FILES,
    PublishedFile,
)
from untwist.datasets.real_images import real_provenance
from untwist.datasets.resize import check_size, resize_images
from untwist.factors import FactorSpace
from untwist.types import InputError, nearest

SPLITS = ("train", "test")
BYTES = 8
"""The type code of unsigned bytes in an idx file."""


@dataclass(frozen=True)
class DigitLayout:
    """What the files of a set like MNIST hold.

    Attributes:
        name: The name in the catalog.
        source: What the set is called.
        files: The file of each split and part.
        counts: How many examples of each class each split has.
        first: The first labels of each split, where they are known.
        side: Height and width of the images.
    """

    name: str
    source: str
    files: Mapping[tuple[str, str], PublishedFile]
    counts: Mapping[str, tuple[int, ...]]
    first: Mapping[str, tuple[int, ...]]
    side: int = 28


EVEN = {"train": (6000,) * 10, "test": (1000,) * 10}
MNIST = DigitLayout(
    "mnist",
    "MNIST",
    MNIST_FILES,
    {
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
    {"train": (5, 0, 4, 1, 9, 2, 1, 3), "test": (7, 2, 1, 0, 4, 1, 4, 9)},
)
FASHION_MNIST = DigitLayout(
    "fashion_mnist",
    "Fashion-MNIST",
    FASHION_MNIST_FILES,
    EVEN,
    {"train": (9, 0, 0, 3, 0, 2, 7, 2), "test": (9, 2, 1, 1, 6, 1, 4, 6)},
)
KMNIST = DigitLayout("kmnist", "KMNIST", KMNIST_FILES, EVEN, {})


def mnist(
    *,
    split: str = "train",
    size: int = 28,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns MNIST, real files: handwritten digits, 60,000 to train and 10,000 to test.

    The one factor is the label.

    Args:
        split: train, test, or both.
        size: Height and width; other than 28 resized bilinearly.
        path: The directory that holds the four files, .gz or unpacked; the cache by default.
        download: Fetch files that are missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_digits(MNIST, Access(path, download, unverified), split=split, size=size)


def fashion_mnist(
    *,
    split: str = "train",
    size: int = 28,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns Fashion-MNIST, real files: articles of clothing, 60,000 to train, 10,000 to test.

    The one factor is the label: T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker,
    bag, ankle boot.

    Args:
        split: train, test, or both.
        size: Height and width; other than 28 resized bilinearly.
        path: The directory that holds the four files, .gz or unpacked; the cache by default.
        download: Fetch files that are missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_digits(FASHION_MNIST, Access(path, download, unverified), split=split, size=size)


def kmnist(
    *,
    split: str = "train",
    size: int = 28,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns KMNIST, real files: cursive Japanese characters, 60,000 to train, 10,000 to test.

    The one factor is the label. Its files have the names of MNIST's and lie in a directory of
    their own.

    Args:
        split: train, test, or both.
        size: Height and width; other than 28 resized bilinearly.
        path: The directory that holds the four files, .gz or unpacked; the cache by default.
        download: Fetch files that are missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    return open_digits(KMNIST, Access(path, download, unverified), split=split, size=size)


def open_digits(layout: DigitLayout, access: Access, *, split: str, size: int) -> Dataset:
    """Returns the dataset of this layout."""
    if split not in (*SPLITS, "both"):
        raise nearest(f"split of {layout.name}", split, (*SPLITS, "both"))
    check_size(layout.name, size, 256)
    parts = [_split(layout, one, access) for one in (SPLITS if split == "both" else (split,))]
    images = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    provenance = real_provenance(
        layout.source,
        [found for part in parts for found in part[2]],
        [check for part in parts for check in part[3]],
    )
    classes = len(next(iter(layout.counts.values())))
    return Dataset(
        layout.name,
        resize_images(images, size, "bilinear"),
        labels.astype(np.int32)[:, None],
        FactorSpace(("label",), (classes,), ("categorical",)),
        "bernoulli",
        provenance | {"split": split, "size": size},
        (size, size, 1),
    )


def read_idx(data: bytes, dimensions: int, inspection: Inspection) -> np.ndarray:
    """Returns the array of bytes that an idx file holds, which must have so many dimensions."""
    header = 4 + 4 * dimensions
    magic = data[:4].hex()
    expected = bytes([0, 0, BYTES, dimensions]).hex()
    inspection.require(magic == expected, f"an idx file that begins with {expected}", magic)
    if len(data) < header:
        raise inspection.refusal(f"it ends within its header, after {len(data)} bytes")
    shape = tuple(np.frombuffer(data[4:header], ">u4").tolist())
    if len(data) - header != np.prod(shape, dtype=np.int64):
        raise inspection.refusal(
            f"expected {' × '.join(map(str, shape))} bytes behind the header, "
            f"but got {len(data) - header:,}"
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def unpack_gzip(found: FoundFile, inspection: Inspection) -> bytes:
    """Returns what a .gz file unpacks to, or what a plain file holds."""
    if found.path.suffix != ".gz":
        return found.path.read_bytes()
    try:
        return gzip.decompress(found.path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise inspection.refusal(f"it is not a whole gzip file ({error})") from error


def gzipped_or_plain(dataset: str, file: PublishedFile, access: Access) -> PublishedFile:
    """Returns the published .gz file, or its unpacked form where only that is there."""
    plain = replace(
        file,
        name=file.name.removesuffix(".gz"),
        size=0,
        sha256=file.content_sha256,
        md5="",
        content_sha256="",
    )
    if access.path is None:
        return plain if is_here(dataset, plain) and not is_here(dataset, file) else file
    folder = Path(access.path).expanduser()
    if folder.is_file():
        raise InputError(
            f"{dataset}: expected the directory that holds its files, but {folder} is a file: say "
            f"path={folder.parent}"
        )
    return plain if (folder / plain.name).exists() > (folder / file.name).exists() else file


def _split(
    layout: DigitLayout, split: str, access: Access
) -> tuple[np.ndarray, np.ndarray, list[FoundFile], list[str]]:
    """Images, labels, files and checks of one split."""
    images, first, looked = _part(layout, split, "images", access)
    labels, second, counted = _part(layout, split, "labels", access)
    checks = [f"{split}: {text}" for text in looked.passed + counted.passed]
    first.accept(looked.passed)
    second.accept(counted.passed)
    return images[..., None], labels, [first, second], checks


def _part(
    layout: DigitLayout, split: str, part: str, access: Access
) -> tuple[np.ndarray, FoundFile, Inspection]:
    """The array of one file, checked."""
    published = gzipped_or_plain(layout.name, layout.files[split, part], access)
    found = find_file(layout.name, published, access)
    inspection = Inspection(found.what)
    data = unpack_gzip(found, inspection)
    found = found.confirm_content(hashlib.sha256(data).hexdigest())
    counts = layout.counts[split]
    if part == "images":
        array = read_idx(data, 3, inspection)
        inspection.array("images", array, (sum(counts), layout.side, layout.side), "uint8")
        _check_images(array, inspection)
    else:
        array = read_idx(data, 1, inspection)
        inspection.array("labels", array, (sum(counts),), "uint8")
        inspection.counts(array, counts, "label")
        first = layout.first.get(split, ())
        got = tuple(array[: len(first)].tolist())
        inspection.require(got == first, f"labels that begin with {first}", f"{got}: shuffled")
    found.require_confirmed(access)
    return array, found, inspection


def _check_images(images: np.ndarray, inspection: Inspection) -> None:
    """Requires a dark frame, bright strokes and no blank image, as all these sets have."""
    brightest = images.reshape(len(images), -1).max(1)
    blank = int(np.argmin(brightest))
    inspection.require(bool(brightest[blank]), "no blank image", f"image {blank} without a stroke")
    corner = images[:, 0, 0].mean()
    inspection.require(
        bool(corner < images.mean()),
        "bright strokes on a dark ground",
        f"corners of mean {corner:.0f} in images of mean {images.mean():.0f}: inverted",
    )
