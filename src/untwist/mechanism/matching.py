"""Which latent encodes which factor, by linear assignment."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from untwist.types import AnyArray, InputError

BINS = 20


@dataclass(frozen=True)
class Matching:
    """One latent for each factor, as far as there are latents.

    Attributes:
        correlation: |Spearman's rank correlation| of each latent and factor.
        information: Their mutual information over the factor's entropy, from 20 bins.
        by_correlation: The latent of each factor that maximizes the sum of correlations; -1 for a
            factor that is left without one.
        by_information: The same by information, which sees periodic and categorical factors.
        varies: Whether each factor takes more than one value; the others have no latent.
    """

    correlation: Float[ndarray, "latent factor"]
    information: Float[ndarray, "latent factor"]
    by_correlation: Int[ndarray, " factor"]
    by_information: Int[ndarray, " factor"]
    varies: Bool[ndarray, " factor"]


def match_factors(
    codes: AnyArray, factors: AnyArray, *, active: AnyArray | None = None
) -> Matching:
    """Returns which latent encodes which factor, by rank correlation and by mutual information.

    Args:
        codes: One row an item.
        factors: One row an item and one column a factor.
        active: A mask of the latents that may be chosen; all by default.

    >>> factors = np.random.default_rng(0).integers(0, 5, (500, 2))
    >>> match_factors(factors[:, ::-1] * 1.0, factors).by_information.tolist()
    [1, 0]
    """
    codes, factors = np.asarray(codes, np.float64), np.asarray(factors)
    if factors.ndim != 2 or len(factors) != len(codes):
        raise InputError(
            f"factors must have one row for each of {len(codes)} items and one column a factor, "
            f"but got an array of shape {factors.shape}"
        )
    correlation, information = _correlations(codes, factors), _information(codes, factors)
    allowed = np.ones(codes.shape[1], bool) if active is None else np.asarray(active, bool)
    return Matching(
        correlation,
        information,
        _assign(correlation, allowed),
        _assign(information, allowed),
        (factors != factors[:1]).any(0),
    )


def _assign(scores: Float[ndarray, "latent factor"], allowed: ndarray) -> Int[ndarray, " factor"]:
    """The latent of each factor, -1 for those left over and those that no latent knows."""
    found = np.full(scores.shape[1], -1)
    usable = np.flatnonzero(allowed)
    latents, factors = linear_sum_assignment(-scores[usable])
    known = scores[usable[latents], factors] > 0
    found[factors[known]] = usable[latents[known]]
    return found


def _correlations(codes: ndarray, factors: ndarray) -> Float[ndarray, "latent factor"]:
    """|Spearman|; 0 for a constant."""
    left, right = (_standardized(rankdata(side, axis=0)) for side in (codes, factors))
    return np.minimum(np.abs(left.T @ right) / len(codes), 1.0)


def _standardized(columns: ndarray) -> ndarray:
    centered = columns - columns.mean(0)
    spread = centered.std(0)
    return centered / np.where(spread > 0, spread, np.inf)


def _information(codes: ndarray, factors: ndarray) -> Float[ndarray, "latent factor"]:
    """I(z_j; w_k) / H(w_k), 0 for a constant factor."""
    left = [_levels(column, binned=True) for column in codes.T]
    right = [_levels(column, binned=np.unique(column).size > BINS) for column in factors.T]
    found = np.zeros((len(left), len(right)))
    for j, code in enumerate(left):
        for k, factor in enumerate(right):
            joint = np.bincount(code * (factor.max() + 1) + factor) / len(code)
            parts = [np.bincount(side) / len(side) for side in (code, factor)]
            entropy = _entropy(parts[1])
            if entropy > 0:
                found[j, k] = max(_entropy(parts[0]) + entropy - _entropy(joint), 0.0) / entropy
    return np.where(found > 1e-12, found, 0.0)


def _levels(column: ndarray, *, binned: bool) -> Int[ndarray, " item"]:
    """Levels 0, 1, ... of a column, in bins of equal width or by value."""
    if not binned:
        return np.unique(column, return_inverse=True)[1]
    low, high = column.min(), column.max()
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return np.zeros(len(column), int)
    scaled = (column - low) / (high - low) * BINS
    return np.minimum(scaled.astype(int), BINS - 1)


def _entropy(shares: ndarray) -> float:
    used = shares[shares > 0]
    return float(-np.sum(used * np.log(used)))
