"""What is checked of a file: each check either passes and is noted, or refuses the file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Num

from untwist.factors import FactorSpace
from untwist.types import InputError


@dataclass(frozen=True)
class ArrayFacts:
    """Shape and dtype of an array that is not read yet, and whether its columns lie together."""

    shape: tuple[int, ...]
    dtype: np.dtype
    by_columns: bool = False

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class Inspection:
    """The checks of one file.

    Attributes:
        what: The dataset and the file, the beginning of every refusal.
        remedy: The end of every refusal: what to do.
        passed: What was verified, in words.
    """

    what: str
    remedy: str = "it is damaged, altered or another file; get it anew"
    passed: list[str] = field(default_factory=list)

    def require(self, holds: bool | np.bool, expected: str, got: str) -> None:
        """Notes what was expected where it holds, else refuses the file."""
        if not holds:
            raise self.refusal(f"expected {expected}, but got {got}")
        self.passed.append(expected)

    def refusal(self, reason: str) -> InputError:
        """Returns the error that refuses the file for this reason."""
        return InputError(f"{self.what}: {reason}: {self.remedy}")

    def array(
        self, name: str, array: np.ndarray | ArrayFacts, shape: tuple[int, ...], dtype: str
    ) -> None:
        """Requires a shape and a dtype, the number of rows first, since it tells most."""
        if len(array.shape) == len(shape):
            self.require(
                array.shape[0] == shape[0],
                f"{shape[0]:,} rows of {name!r}",
                f"{array.shape[0]:,}" + _how_many(array.shape[0], shape[0]),
            )
        self.require(array.shape == shape, f"{name!r} of shape {shape}", f"{array.shape}")
        kinds = [np.dtype(kind) for kind in dtype.split("|")]
        names = " or ".join(str(kind) for kind in kinds)
        self.require(array.dtype in kinds, f"{name!r} as {names}", f"{array.dtype}")

    def levels(
        self, columns: Num[np.ndarray, "item factor"], names: Sequence[str], sizes: Sequence[int]
    ) -> np.ndarray:
        """Returns each value's rank among its column's values; requires so many in each column."""
        ranks = []
        for column, name, size in zip(columns.T, names, sizes, strict=True):
            self.require(
                bool(np.isfinite(column).all()), f"finite {name}", f"NaN or infinity in {name}"
            )
            values, rank = np.unique(column, return_inverse=True)
            span = f"{len(values)} from {values[0]:g} to {values[-1]:g}"
            self.require(len(values) == size, f"{size} values of {name}", span)
            ranks.append(rank.reshape(-1))
        return np.stack(ranks, -1)

    def grid_order(self, levels: np.ndarray, space: FactorSpace) -> None:
        """Requires the rows to be the whole grid, each once, in order, the last factor fastest."""
        index = np.asarray(space.index(levels.astype(np.int64)))
        places = np.arange(space.grid_size)
        if len(index) == len(places) and not np.array_equal(index, places):
            raise self.refusal(_disorder(levels, index, space))
        sizes = "×".join(map(str, space.grid_sizes))
        self.require(
            len(index) == len(places), f"each of the {sizes} factor rows once, in grid order", ""
        )

    def counts(self, labels: np.ndarray, expected: Sequence[int], name: str) -> None:
        """Requires labels from 0 and so many of each."""
        top = len(expected) - 1
        low, high = int(labels.min()), int(labels.max())
        self.require(
            low == 0 and high == top, f"{name} from 0 to {top}", f"values from {low} to {high}"
        )
        found = np.bincount(labels.reshape(-1), minlength=len(expected))
        worst = int(np.argmax(found != np.asarray(expected)))
        self.require(
            np.array_equal(found, expected),
            f"the known number of examples of each {name}",
            f"{found[worst]} of {name} {worst} instead of {expected[worst]}",
        )


def _how_many(got: int, expected: int) -> str:
    """Why a count may be wrong."""
    return ", so some are missing" if got < expected else ", so some are too many"


def _disorder(levels: np.ndarray, index: np.ndarray, space: FactorSpace) -> str:
    """How rows that should be the grid in order are not."""
    first = int(np.argmax(index != np.arange(len(index))))
    seen = np.bincount(index, minlength=space.grid_size)
    if seen.max() > 1:
        twice = np.flatnonzero(index == int(np.argmax(seen)))
        return f"expected distinct factor rows, but rows {twice[0]} and {twice[1]} are the same"
    right = np.asarray(space.factors(np.arange(len(index))))
    wrong = [i for i in range(len(space)) if not np.array_equal(levels[:, i], right[:, i])]
    swapped = len(wrong) == 2 and np.array_equal(levels[:, wrong], right[:, wrong[::-1]])
    if swapped:
        return f"the factors {space.names[wrong[0]]} and {space.names[wrong[1]]} are swapped"
    return (
        f"expected rows in grid order, but they are shuffled: row {first} holds factors "
        f"{levels[first].tolist()} instead of {right[first].tolist()}"
    )
