"""Factorized support: how far the codes are from filling the product of their marginals."""

import itertools

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial import KDTree

from untwist.metrics.record import NotApplicable, Score, check_counts
from untwist.metrics.sample import RawCodes, checked_codes, live_latents


def _marginal(column: Float[ndarray, " item"], points: int) -> Float[ndarray, " point"]:
    """At most `points` values of a latent, its extremes among them, evenly spaced by rank."""
    values = np.unique(column)
    if len(values) <= points:
        return values
    return values[np.linspace(0, len(values) - 1, points).round().astype(int)]


def factorized_support(codes: RawCodes, *, points: int = 64, reference: bool = False) -> Score:
    """Returns the mean Hausdorff distance of pairs of latents from the product of their supports.

    For two latents, each scaled to the unit interval, the distance is the largest, over points
    (a, b) with a and b values that the latents take, of the distance to the nearest pair that
    occurs. Independent supports have small distance even where the factors are correlated.

    Range 0 to 1, lower is better. Invariant to order, sign, shift and scale of latents; dead
    latents do not enter, and with one that varies the support is a product, distance 0.

    Args:
        codes: one row an item.
        points: values of each latent that enter the product; all where a latent takes no more.
        reference: squared distances of unscaled codes, summed over pairs, as the authors'
            implementation has it; it grows with the number and the scale of the latents.

    Returns:
        The mean over pairs; `parts["distances"]` has the pairs' own.

    Reference: Roth et al. 2023, Disentanglement of Correlated Factors via Hausdorff Factorized
    Support, section 4.

    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> factorized_support(codes).value
    0.0
    >>> factorized_support(codes[[0, 3]]).value
    1.0
    """
    check_counts(2, points=points)
    array = checked_codes(codes).astype(np.float64)
    if array.shape[1] < 2:
        raise NotApplicable("factorized support compares latents, but the code has one")
    live = [int(i) for i in np.flatnonzero(live_latents(array))]
    if not reference:
        low, extent = array[:, live].min(0), np.ptp(array[:, live], axis=0)
        array[:, live] = (array[:, live] - low) / extent
    distances = np.zeros((array.shape[1], array.shape[1]))
    values = {i: _marginal(array[:, i], points) for i in live}
    for i, j in itertools.combinations(live, 2):
        corners = np.stack(np.meshgrid(values[i], values[j], indexing="ij"), -1).reshape(-1, 2)
        farthest = KDTree(array[:, [i, j]]).query(corners, workers=-1)[0].max()
        distances[i, j] = distances[j, i] = farthest
    pairs = distances[np.triu_indices(len(distances), 1)]
    held = distances[np.ix_(live, live)][np.triu_indices(len(live), 1)]
    value = (pairs**2).sum() if reference else (held.mean() if len(held) else 0.0)
    return Score(
        float(value),
        f"Hausdorff distance, {points} points a latent",
        {"points": points, "reference": reference},
        parts={"distances": distances},
    )
