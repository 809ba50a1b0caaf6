"""Nearest-neighbor mutual information of one latent with factors."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import KDTree
from scipy.special import digamma


def _radii(
    ordered: Float[ndarray, " item"],
    start: Int[ndarray, " item"],
    stop: Int[ndarray, " item"],
    k: int,
) -> Float[ndarray, " item"]:
    """Distance to the k-th neighbor inside each item's own run of the ordered values."""
    items = len(ordered)
    index = np.arange(items)
    best = np.full(items, np.inf)
    for below in range(k + 1):
        low, high = index - below, index - below + k
        inside = (low >= start) & (high < stop)
        reach = np.maximum(
            ordered - ordered[np.maximum(low, 0)], ordered[np.minimum(high, items - 1)] - ordered
        )
        np.minimum(best, reach, out=best, where=inside)
    return best


def _discrete_pair(
    column: Float[ndarray, " item"],
    order: Int[ndarray, " item"],
    level: Int[ndarray, " item"],
    k: int,
) -> float:
    """Ross 2014, equation 2, on values in ascending order; levels that occur once are left out."""
    counts = np.bincount(level)
    order = order[counts[level[order]] > 1]
    if len(order) == 0:
        return 0.0
    everything = column[order]
    by_level = order[
        np.argsort(
            level[order].astype(np.int16 if len(counts) < 2**15 else np.int64), kind="stable"
        )
    ]
    labels, values = level[by_level], column[by_level]
    kept = np.where(counts > 1, counts, 0)
    ends = np.cumsum(kept)
    start, stop = (ends - kept)[labels], ends[labels]
    radii = np.empty(len(values))
    effective = np.minimum(k, kept[labels] - 1)
    for used in np.unique(effective):
        chosen = effective == used
        radii[chosen] = _radii(values, start, stop, int(used))[chosen]
    tied = radii == 0
    radii = _inside(radii, values)
    around = np.searchsorted(everything, values + radii, side="right") - np.searchsorted(
        everything, values - radii, side="left"
    )
    own = effective.astype(np.float64)
    if tied.any():
        own[tied] = _ties(values, labels, len(everything))[tied]
    terms = digamma(own) - digamma(kept[labels]) - digamma(around)
    return max(0.0, float(digamma(len(values)) + terms.mean()))


def _ties(
    values: Float[ndarray, " item"], labels: Int[ndarray, " item"], items: int
) -> Int[ndarray, " item"]:
    """The number of items with the same value and level, itself included."""
    new = np.ones(items, dtype=bool)
    new[1:] = (np.diff(values) != 0) | (np.diff(labels) != 0)
    run = np.cumsum(new) - 1
    return np.bincount(run)[run]


def _inside(
    radii: Float[ndarray, " item"], values: Float[ndarray, " item"]
) -> Float[ndarray, " item"]:
    """Radii just small enough that rounding cannot pull in the neighbor that defines them."""
    return np.maximum(radii - 4 * np.spacing(np.abs(values) + radii), 0.0)


def discrete_information(
    column: Float[ndarray, " item"], levels: Int[ndarray, "item factor"], k: int
) -> Float[ndarray, " factor"]:
    """Returns the information of one latent with each discrete factor (Ross 2014).

    Agrees with `sklearn.feature_selection.mutual_info_classif` where values do not tie; where
    they do, a cluster of ties is the neighborhood (Gao 2017), so a latent that takes one value a
    level has the factor's entropy.
    """
    order = np.argsort(column, kind="stable")
    return np.array([_discrete_pair(column, order, level, k) for level in levels.T])


def continuous_information(
    first: Float[ndarray, " item"], second: Float[ndarray, " item"], k: int
) -> float:
    """Returns the information of two continuous variables (Kraskov 2004, first estimator).

    Agrees with `sklearn.feature_selection.mutual_info_regression` where values do not tie.
    """
    pair = np.stack([first / first.std(), second / second.std()], 1)
    radii = KDTree(pair).query(pair, k=k + 1, p=np.inf, workers=-1)[0][:, -1]
    tied = radii == 0
    counts = np.empty((len(pair), 2))
    for axis in range(2):
        ordered = np.sort(pair[:, axis])
        column = pair[:, axis]
        inner = _inside(radii, column)
        counts[:, axis] = np.searchsorted(ordered, column + inner, side="right")
        counts[:, axis] -= np.searchsorted(ordered, column - inner, side="left")
    own = np.full(len(pair), float(k))
    if tied.any():
        _, run, size = np.unique(pair, axis=0, return_inverse=True, return_counts=True)
        own[tied] = size[run.ravel()][tied]
    terms = digamma(own) - digamma(counts).sum(1)
    return max(0.0, float(digamma(len(pair)) + terms.mean()))
