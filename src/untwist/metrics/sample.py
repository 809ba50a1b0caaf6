"""The checked input of every metric: codes, and factors in the encodings that metrics use."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray

from untwist.factors import FactorSpace, Kind
from untwist.metrics.record import NotApplicable
from untwist.types import AnyArray, InputError

# Checked by `sample` with a sentence for each mistake, so the annotation admits every array.
RawCodes = Shaped[AnyArray, "..."]
RawFactors = Shaped[AnyArray, "..."]

DEAD_RANGE = 1e-6
# Beyond these single precision, in which trees and lines are fitted, overflows or vanishes.
LARGEST, LEAST_RANGE = 1e30, 1e-30
CONTINUOUS_BINS = 20


@dataclass(frozen=True)
class Sample:
    """Codes with the factors that vary, one row an item.

    Attributes:
        codes: the codes in double precision.
        raw: the codes in the precision in which they came.
        live: whether a latent varies by more than 1e-6 of its largest magnitude.
        names: names of the factors that vary.
        kinds: their kinds.
        sizes: the number of levels of each that occur here.
        levels: the rank of each item's level among those that occur; a continuous factor is cut
            into 20 bins of equal width.
        values: the factor values as they came, in double precision.
        declared: the declared sizes, `None` where continuous.
    """

    codes: Float[ndarray, "item latent"]
    raw: Float[ndarray, "item latent"]
    live: Bool[ndarray, " latent"]
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]
    levels: Int[ndarray, "item factor"]
    values: Float[ndarray, "item factor"]
    declared: tuple[int | None, ...]

    def rows(self, index: Int[ndarray, " row"]) -> "Sample":
        """Returns the items at `index`, with levels and sizes as they are here."""
        return Sample(
            self.codes[index],
            self.raw[index],
            self.live,
            self.names,
            self.kinds,
            self.sizes,
            self.levels[index],
            self.values[index],
            self.declared,
        )

    def columns(self, factor: int) -> Float[ndarray, "item column"]:
        """Returns a factor as the columns that linear methods see.

        Ordinal and continuous factors are one column, periodic ones the cosine and sine of their
        angle, categorical ones an indicator for each level that occurs.
        """
        kind, values, size = self.kinds[factor], self.values[:, factor], self.declared[factor]
        if kind == "categorical":
            return np.eye(self.sizes[factor])[self.levels[:, factor]]
        if kind == "periodic" and size is not None and self.sizes[factor] > 2:
            angle = 2 * np.pi * values / size
            return np.stack([np.cos(angle), np.sin(angle)], 1)
        return values[:, None]


def checked_codes(codes: RawCodes) -> Float[ndarray, "item latent"]:
    """Returns the codes as floating point numbers, or raises with a sentence."""
    array = np.asarray(codes)
    if array.ndim != 2:
        raise InputError(
            f"codes must have one row an item and one column a latent, but got shape {array.shape}"
        )
    if array.shape[1] == 0:
        raise InputError("codes have no latents: give at least one column")
    if array.shape[0] < 2:
        raise InputError(
            f"a metric compares items, but codes hold {array.shape[0]}: give two items or more"
        )
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise InputError(f"codes must be real numbers, but got {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array).all(1))
        raise InputError(
            f"codes must be finite, but {len(bad)} of {len(array)} items hold NaN or infinities, "
            f"the first at row {bad[0]}: leave such a model or item out"
        )
    if max(abs(float(array.min())), abs(float(array.max()))) > LARGEST:
        raise InputError(f"codes must lie within {LARGEST:g} of zero: rescale or leave them out")
    return array


def live_latents(codes: Float[ndarray, "item latent"]) -> Bool[ndarray, " latent"]:
    """Returns which latents vary: range above 1e-6 of the largest magnitude."""
    low, high = codes.min(0), codes.max(0)
    return high - low > DEAD_RANGE * np.maximum(np.abs(low), np.abs(high)) + LEAST_RANGE


def _checked_factors(
    factors: RawFactors, space: FactorSpace, items: int
) -> Float[ndarray, "item factor"]:
    array = np.asarray(factors)
    if array.ndim == 2 and len(array) != items:
        raise InputError(
            f"codes and factors must have one row an item each, but got {items} rows of codes "
            f"and {len(array)} of factors"
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"factors must be numbers, but got {array.dtype}")
    if not np.isfinite(array).all():
        raise InputError("factors must be finite, but some are NaN or infinite")
    space.check(array)
    for name, size, column in zip(space.names, space.sizes, array.T, strict=True):
        if size is not None and (column != np.round(column)).any():
            raise InputError(f"factor {name!r} takes integers, but some values have fractions")
    return array.astype(np.float64)


def ranked(values: Float[ndarray, " item"], size: int | None) -> Int[ndarray, " item"]:
    """Returns the rank of each value among the levels that occur, or its bin if continuous."""
    if size is None:
        moved = values - values.min()  # however far from zero, twenty bins fit
        edges = np.histogram_bin_edges(moved, CONTINUOUS_BINS)
        index = np.searchsorted(edges[1:-1], moved, side="right")
    else:
        index = values.astype(np.int64)
    present = np.bincount(index) > 0
    return (np.cumsum(present) - 1)[index]


def sample(codes: RawCodes, factors: RawFactors, space: FactorSpace) -> Sample:
    """Returns codes and factors checked and encoded; factors that do not vary are left out.

    Raises:
        InputError: an input is malformed.
        NotApplicable: no factor varies.
    """
    raw = checked_codes(codes)
    values = _checked_factors(factors, space, len(raw))
    live = live_latents(raw)
    varies = np.ptp(values, axis=0) > 0
    if not varies.any() and not live.any():
        raise InputError(f"all {len(raw)} items are equal: give items that differ")
    if not varies.any():
        raise NotApplicable("no factor varies in these items, so there is nothing to find")
    kept = [int(i) for i in np.flatnonzero(varies)]
    levels = np.stack([ranked(values[:, i], space.sizes[i]) for i in kept], 1)
    return Sample(
        codes=raw.astype(np.float64),
        raw=raw,
        live=live,
        names=tuple(space.names[i] for i in kept),
        kinds=tuple(space.kinds[i] for i in kept),
        sizes=tuple(int(column.max()) + 1 for column in levels.T),
        levels=levels,
        values=values[:, kept],
        declared=tuple(space.sizes[i] for i in kept),
    )
