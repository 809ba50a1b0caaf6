"""Codes under interventions: what the interventional metrics draw from.

A sampler maps grid indices of any shape to codes with one more axis. Where the codes of the whole
grid are at hand, `grid_sampler` makes one; where they are not, a sampler renders and encodes the
points it is asked for, never more than a chunk at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.record import NotApplicable
from untwist.metrics.sample import RawCodes, RawFactors, sample
from untwist.types import AnyArray, InputError

# As many images as a pass of an encoder takes at once: no metric holds ten thousand of them.
CHUNK = 8192
Sampler = Callable[[Int[ndarray, "*batch"]], Float[AnyArray, "*batch latent"]]


def grid_rows(factors: RawFactors, space: FactorSpace) -> Int[ndarray, " grid"]:
    """Returns the row of each grid point, or raises where some point is missing."""
    rows = np.full(space.grid_size, -1)
    index = np.asarray(space.index(np.asarray(factors)))
    rows[index] = np.arange(len(index))
    missing = int((rows < 0).sum())
    if missing:
        raise NotApplicable(
            f"interventions need the whole grid of {space.grid_size} points, but the items lack "
            f"{missing} of them: pass a sampler"
        )
    return rows


def grid_sampler(codes: RawCodes, factors: RawFactors, space: FactorSpace) -> Sampler:
    """Returns a sampler from the codes of a whole grid, its items in any order.

    >>> space = FactorSpace(("a", "b"), (2, 3), ("ordinal", "ordinal"))
    >>> sampler = grid_sampler(np.arange(6.0)[:, None], space.factors(np.arange(6)), space)
    >>> sampler(np.array([[5, 0]])).tolist()
    [[[5.0], [0.0]]]
    """
    data = sample(codes, factors, space)
    rows = grid_rows(factors, space)
    table = np.ascontiguousarray(data.raw[rows])
    return lambda index: np.take(table, index, axis=0)


@dataclass(frozen=True)
class Interventions:
    """Draws of grid points with one factor held fixed, and their codes, chunk by chunk.

    Attributes:
        sampler: from grid indices to codes.
        space: the factors; those with a single value are never held fixed.
        chunk: the most codes that the sampler is asked for at once.
    """

    sampler: Sampler
    space: FactorSpace
    chunk: int = CHUNK

    @property
    def factors(self) -> Int[ndarray, " factor"]:
        """The factors that can be held fixed; an error where fewer than two can."""
        if not self.space.has_grid:
            raise NotApplicable("interventions need a grid, but some factors are continuous")
        kept = np.flatnonzero(np.array(self.space.grid_sizes) > 1)
        if len(kept) < 2:
            raise NotApplicable("telling held factors apart needs two factors that vary")
        return kept

    def codes(self, index: Int[ndarray, "*batch"]) -> Float[ndarray, "*batch latent"]:
        """Returns the codes of grid points, checked."""
        codes = np.asarray(self.sampler(index))
        if codes.shape[:-1] != index.shape or codes.ndim != index.ndim + 1:
            raise InputError(
                f"a sampler must give codes of shape {index.shape} and one axis more for the "
                f"latents, but gave {codes.shape}"
            )
        if codes.dtype.kind != "f":
            codes = codes.astype(np.float64)  # differences of small integers would wrap around
        if not np.isfinite(codes).all():
            raise InputError("the sampler gave codes that are NaN or infinite")
        return codes

    def moments(
        self, count: int, rng: np.random.Generator
    ) -> tuple[Float[ndarray, " latent"], Float[ndarray, " latent"], Float[ndarray, " latent"]]:
        """Returns mean, variance (ddof 1) and range of codes at uniform points, streamed."""
        total = squares = shift = np.zeros(1)
        low, high = np.full(1, np.inf), np.full(1, -np.inf)
        for start in range(0, count, self.chunk):
            size = min(self.chunk, count - start)
            codes = self.codes(rng.integers(self.space.grid_size, size=size)).astype(np.float64)
            shift = codes.mean(0) if start == 0 else shift
            low, high = np.minimum(low, codes.min(0)), np.maximum(high, codes.max(0))
            total = total + (codes - shift).sum(0)
            squares = squares + ((codes - shift) ** 2).sum(0)
        variance = np.maximum(squares - total**2 / count, 0.0) / (count - 1)
        return shift + total / count, variance, high - low

    def _grid(self) -> tuple[int, Int[ndarray, " factor"], Int[ndarray, " factor"]]:
        """The size of the grid, and sizes and strides of its factors, in the narrowest integers."""
        dtype = np.int32 if self.space.grid_size < 2**31 else np.int64
        sizes, strides = self.space.grid_sizes, self.space.strides
        return self.space.grid_size, np.array(sizes, dtype), np.array(strides, dtype)

    def groups(
        self, count: int, width: int, rng: np.random.Generator
    ) -> Iterator[tuple[Int[ndarray, " group"], Int[ndarray, "group width"]]]:
        """Yields the held factor and the grid points of groups that share its value."""
        kept, step = self.factors, max(1, self.chunk // width)
        whole, sizes, strides = self._grid()
        for start in range(0, count, step):
            held = kept[rng.integers(len(kept), size=min(step, count - start))]
            index = rng.integers(whole, size=(len(held), width), dtype=sizes.dtype)
            stride, size = strides[held][:, None], sizes[held][:, None]
            value = rng.integers(size, dtype=sizes.dtype)
            yield held, index + (value - index // stride % size) * stride

    def pairs(
        self, count: int, width: int, rng: np.random.Generator
    ) -> Iterator[tuple[Int[ndarray, " group"], Int[ndarray, "2 group width"]]]:
        """Yields the held factor and pairs of grid points, each pair with a value of its own."""
        kept, step = self.factors, max(1, self.chunk // (2 * width))
        whole, sizes, strides = self._grid()
        for start in range(0, count, step):
            held = kept[rng.integers(len(kept), size=min(step, count - start))]
            first, second = rng.integers(whole, size=(2, len(held), width), dtype=sizes.dtype)
            stride, size = strides[held][:, None], sizes[held][:, None]
            second = second + (first // stride % size - second // stride % size) * stride
            yield held, np.stack([first, second])
