"""Facts of images on a grid of factors that a shuffled or a different file does not have."""

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from untwist.datasets.dataset import blocks
from untwist.datasets.inspection import Inspection
from untwist.factors import FactorSpace

SAMPLES = 512
ALIKE = 0.9
"""Neighbors differ by less than this share of what random pairs differ by; shuffled ones by 1."""


def require_neighbors(
    inspection: Inspection,
    images: Callable[[np.ndarray], np.ndarray],
    space: FactorSpace,
    *,
    changing: Iterable[str],
    smooth: Iterable[str],
) -> None:
    """Requires that each factor changes pixels, and that smooth ones change them little.

    Args:
        inspection: Notes and refuses.
        images: Gives the images of numbered grid points.
        space: The grid.
        changing: Factors of which a step changes most images.
        smooth: Ordered factors of which a step leaves an image more alike than a random other is.
    """
    random = np.random.default_rng(0)
    first = np.sort(random.integers(space.grid_size, size=SAMPLES))
    pixels = images(first).astype(np.float32)
    other = images(random.permutation(first)).astype(np.float32)
    apart = np.abs(pixels - other).mean()
    for name in dict.fromkeys((*changing, *smooth)):
        factor = space.names.index(name)
        size, stride = space.grid_sizes[factor], space.strides[factor]
        if size == 1:
            continue
        last = first // stride % size == size - 1
        step = np.abs(images(first + np.where(last, -stride, stride)) - pixels)
        moved = (step.reshape(SAMPLES, -1).max(1) > 0).mean()
        if name in changing:
            inspection.require(
                moved > 0.5,
                f"images that change with {name}",
                f"the same image for {1 - moved:.0%} of the steps of {name}",
            )
        if name in smooth:
            share = step.mean() / max(apart, 1e-9)
            inspection.require(
                share < ALIKE,
                f"images that change gradually with {name}",
                f"neighbors that differ like random images ({share:.2f} of it): they are shuffled",
            )


def require_distinct(inspection: Inspection, images: np.ndarray, *, repeats: int = 0) -> None:
    """Requires that no two images are the same, but for so many known repeats; reads them all."""
    digests = np.empty(len(images), np.uint64)
    for start, block in _scan(images):
        for i, image in enumerate(block):
            digest = hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=8).digest()
            digests[start + i] = int.from_bytes(digest, "little")
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
    pair = f"{order[same[0]]} and {order[same[0] + 1]}" if len(same) else ""
    inspection.require(
        len(same) <= repeats,
        f"{len(images):,} distinct images" + (f" but for {repeats:,} repeats" if repeats else ""),
        f"{len(same):,} that repeat another, such as images {pair}",
    )


def require_drawn(inspection: Inspection, images: np.ndarray) -> None:
    """Requires that no image is blank: all its bytes the same; reads them all."""
    for start, block in _scan(images):
        flat = block.reshape(len(block), -1)
        blank = np.flatnonzero(flat.min(1) == flat.max(1))
        if len(blank):
            raise inspection.refusal(f"image {start + blank[0]} is blank")
    inspection.passed.append("no blank image")


def _scan(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The blocks of an array, once; of a memory map, what was read is given back at once."""
    root = array
    while isinstance(root, np.ndarray):
        root = root.base
    for start, block in blocks(array):
        yield start, block
        del block
        if isinstance(root, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            root.madvise(mmap.MADV_DONTNEED)
