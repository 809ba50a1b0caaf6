"""SmallNORB from its published files: photographs of toys, both splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.facts import require_drawn, require_neighbors
from untwist.datasets.found_file import Access, FoundFile, find_file
from untwist.datasets.idx import gzipped_or_plain, unpack_gzip
from untwist.datasets.inspection import Inspection
from untwist.datasets.published_file import SMALLNORB_FILES, PublishedFile
from untwist.datasets.real_images import real_provenance
from untwist.datasets.resize import check_size, resize_images
from untwist.datasets.unpack import open_made, unpack
from untwist.factors import FactorSpace, Kind
from untwist.types import InputError, nearest

SPLITS = ("train", "test")
CAMERAS = ("left", "right")
TYPES = {0x1E3D4C55: "uint8", 0x1E3D4C54: "<i4"}


@dataclass(frozen=True)
class ToyLayout:
    """What the files of SmallNORB hold.

    Attributes:
        sizes: Category, instance of a split, elevation, azimuth, lighting.
        side: Height and width of an image.
        files: The file of each split and part.
        instances: The instances of each split.
    """

    sizes: tuple[int, int, int, int, int] = (5, 5, 9, 18, 6)
    side: int = 96
    files: Mapping[tuple[str, str], PublishedFile] = field(default_factory=lambda: SMALLNORB_FILES)
    instances: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {"train": (4, 6, 7, 8, 9), "test": (0, 1, 2, 3, 5)}
    )

    @property
    def space(self) -> FactorSpace:
        """The factors of one split."""
        names = ("category", "instance", "elevation", "azimuth", "lighting")
        kinds: tuple[Kind, ...] = (
            "categorical",
            "categorical",
            "ordinal",
            "periodic",
            "categorical",
        )
        return FactorSpace(names, self.sizes, kinds)


LAYOUT = ToyLayout()


def smallnorb(
    *,
    split: str = "both",
    camera: str = "left",
    size: int = 64,
    path: str | None = None,
    download: bool = False,
    unverified: bool = False,
) -> Dataset:
    """Returns SmallNORB, real files: gray photographs of 50 toys, 24,300 in each of two splits.

    Category 5, instance 5 in a split (others in each, 10 in all), elevation 9, azimuth 18,
    lighting 6, in grid order. The split "merged" is that of disentanglement_lib: both, with the
    instance left out of the factors, so that ten images share each factor row.

    Args:
        split: train, test, both (10 instances), or merged (no instance).
        camera: left or right, the two of a stereo pair.
        size: Height and width, 96 as published; smaller by Lanczos, as disentanglement_lib does.
        path: The directory that holds the six files, .gz or unpacked; the cache by default.
        download: Fetch files that are missing.
        unverified: Accept a file by its content, though its checksum is not the published one.
    """
    access = Access(path, download, unverified)
    return open_smallnorb(LAYOUT, access, split=split, camera=camera, size=size)


def open_smallnorb(
    layout: ToyLayout, access: Access, *, split: str, camera: str, size: int
) -> Dataset:
    """Returns the dataset of this layout."""
    if split not in (*SPLITS, "both", "merged"):
        raise nearest("split of smallnorb", split, (*SPLITS, "both", "merged"))
    if camera not in CAMERAS:
        raise nearest("camera of smallnorb", camera, CAMERAS)
    check_size("smallnorb", size, layout.side)
    chosen = (split,) if split in SPLITS else SPLITS
    parts = [_split(layout, one, access) for one in chosen]
    images = np.concatenate([part[0][:, CAMERAS.index(camera)] for part in parts])[..., None]
    rows = np.concatenate([part[1] for part in parts])
    factors, space = _arrange(layout, rows, split)
    order = np.lexsort(factors.T[::-1])
    provenance = real_provenance(
        "SmallNORB",
        [found for part in parts for found in part[2]],
        [check for part in parts for check in part[3]],
    )
    return Dataset(
        "smallnorb",
        resize_images(images[order], size, "lanczos"),
        factors[order].astype(np.int32),
        space,
        "bernoulli",
        provenance | {"split": split, "camera": camera, "size": size},
        (size, size, 1),
    )


def read_matrix(data: bytes, inspection: Inspection) -> np.ndarray:
    """Returns the array of a file in the binary format of NORB: magic, dimensions, values."""
    magic, dimensions = (np.frombuffer(data[:8].ljust(8, b"\0"), "<u4")).tolist()
    known = " or ".join(f"{kind:#x}" for kind in TYPES)
    inspection.require(magic in TYPES, f"a file that begins with {known}", f"{magic:#x}")
    inspection.require(1 <= dimensions <= 4, "1 to 4 dimensions", str(dimensions))
    header = 8 + 4 * max(3, dimensions)
    if len(data) < header:
        raise inspection.refusal(f"it ends within its header, after {len(data)} bytes")
    shape = tuple(np.frombuffer(data[8:header], "<i4").tolist())[:dimensions]
    dtype = np.dtype(TYPES[magic])
    expected = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) - header != expected:
        raise inspection.refusal(
            f"expected {expected:,} bytes behind the header for shape {shape}, "
            f"but got {max(0, len(data) - header):,}"
        )
    return np.frombuffer(data, dtype, offset=header).reshape(shape)


def _split(
    layout: ToyLayout, split: str, access: Access
) -> tuple[np.ndarray, np.ndarray, list[FoundFile], list[str]]:
    """Image pairs, factor rows, files and checks of one split."""
    files = {part: _find(layout, split, part, access) for part in ("dat", "cat", "info")}
    looks = {part: Inspection(found.what) for part, found in files.items()}
    rows = _rows(layout, split, files, looks)
    shape = (layout.space.grid_size, 2, layout.side, layout.side)
    target = files["dat"].made(f"{split}-pairs")
    if files["dat"].accepted and target.exists():
        images = open_made(target, shape)
    else:
        images = read_matrix(unpack_gzip(files["dat"], looks["dat"]), looks["dat"])
        looks["dat"].array("dat", images, shape, "uint8")
        for found in files.values():
            found.require_confirmed(access)
        if not files["dat"].certain:
            _check_content(images, rows, layout, looks["dat"])
        images = unpack(target, [images], shape)
    for part, found in files.items():
        found.accept(looks[part].passed or list(found.checks))
    checks = [f"{split}: {text}" for part in files for text in looks[part].passed]
    return images, rows, list(files.values()), checks


def _find(layout: ToyLayout, split: str, part: str, access: Access) -> FoundFile:
    """One file, or its unpacked form."""
    published = gzipped_or_plain("smallnorb", layout.files[split, part], access)
    return find_file("smallnorb", published, access)


def _rows(
    layout: ToyLayout, split: str, files: dict[str, FoundFile], looks: dict[str, Inspection]
) -> np.ndarray:
    """Category, instance (as numbered on the toys), elevation, azimuth, lighting of each image."""
    arrays = {
        part: read_matrix(unpack_gzip(files[part], looks[part]), looks[part])
        for part in ("cat", "info")
    }
    count = layout.space.grid_size
    looks["cat"].array("cat", arrays["cat"].reshape(-1), (count,), "int32")
    looks["info"].array("info", arrays["info"], (count, 4), "int32")
    rows = np.column_stack([arrays["cat"].reshape(-1), arrays["info"]]).astype(np.int64)
    instances = tuple(np.unique(rows[:, 1]).tolist())
    looks["info"].require(
        instances == layout.instances[split],
        f"the instances {layout.instances[split]} of the {split} split",
        f"{instances}",
    )
    ranks = looks["info"].levels(rows, layout.space.names, layout.space.grid_sizes)
    for factor, step in ((0, 1), (2, 1), (3, 2), (4, 1)):
        look = looks["cat" if factor == 0 else "info"]
        name = layout.space.names[factor]
        look.require(
            np.array_equal(rows[:, factor], ranks[:, factor] * step),
            f"{name} that counts from 0 in steps of {step}",
            f"values from {rows[:, factor].min()} to {rows[:, factor].max()}",
        )
    seen = np.bincount(np.asarray(layout.space.index(ranks)), minlength=count)
    looks["info"].require(
        bool((seen == 1).all()),
        "each combination of factors once",
        f"{(seen == 0).sum()} that are missing and {(seen > 1).sum()} that repeat",
    )
    rows[:, 3] = ranks[:, 3]
    return rows


def _check_content(
    images: np.ndarray, rows: np.ndarray, layout: ToyLayout, inspection: Inspection
) -> None:
    """Facts of the photographs: none blank; elevation and azimuth change them gradually."""
    require_drawn(inspection, images)
    ranks = rows.copy()
    ranks[:, 1] = np.unique(rows[:, 1], return_inverse=True)[1]
    place = np.argsort(np.asarray(layout.space.index(ranks)))
    names = ("category", "elevation", "azimuth", "lighting")
    require_neighbors(
        inspection,
        lambda index: images[place[index]],
        layout.space,
        changing=names,
        smooth=("elevation", "azimuth"),
    )


def _arrange(layout: ToyLayout, rows: np.ndarray, split: str) -> tuple[np.ndarray, FactorSpace]:
    """The factors of the chosen split and their space."""
    space = layout.space
    if split == "merged":
        keep = [0, 2, 3, 4]
        parts = list(zip(space.names, layout.sizes, space.kinds, strict=True))
        names, sizes, kinds = zip(*(parts[i] for i in keep), strict=True)
        return rows[:, keep], FactorSpace(names, sizes, kinds)
    values, ranks = np.unique(rows[:, 1], return_inverse=True)
    expected = layout.sizes[1] * (2 if split == "both" else 1)
    if len(values) != expected:
        raise InputError(
            f"smallnorb: expected {expected} instances in the split {split!r}, but the files hold "
            f"{len(values)}: are they both of the same split?"
        )
    factors = rows.copy()
    factors[:, 1] = ranks.reshape(-1)
    sizes = (layout.sizes[0], expected, *layout.sizes[2:])
    return factors, FactorSpace(space.names, sizes, space.kinds)
