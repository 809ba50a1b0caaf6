"""Checks of bhowal2024: overlapping posteriors and nearest neighbors in the data."""

import itertools
from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.draws import generator
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.gaussian import kl_to_prior
from untwist.theory.quadrature import gauss_average
from untwist.types import RandomKey


def _distance(means: tuple[ndarray, ndarray], variances: ndarray) -> float:
    """E||z_i - z_k||^2 = ||mu_i - mu_k||^2 + 2 sum s^2."""
    return float(np.sum((means[0] - means[1]) ** 2) + 2 * np.sum(variances))


def thm2(key: RandomKey, *, claim: Callable[..., float] = _distance) -> Evidence:
    """Expected distance of two sampled codes; it rises with s while the KL falls.

    So part (b), that a smaller KL brings neighbors closer, is false in general (erratum E20). Part
    (a) is lem13.
    """
    draw = generator(key)
    means = (draw.uniform(0.5, 1.5, 1), -draw.uniform(0.5, 1.5, 1))
    distances, costs, claims = [], [], []
    for spread in (0.05, 0.3, 0.6, 0.9):
        centers, root = np.concatenate(means), spread * np.eye(2)
        distances.append(gauss_average(lambda z: (z[:, 0] - z[:, 1]) ** 2, centers, root, nodes=3))
        variances = np.array([[spread**2]])
        costs.append(sum(kl_to_prior(m, variances) for m in means))
        claims.append(claim(means, np.array([spread**2])))
    return every(
        equal(distances, claims),
        at_most(np.diff(costs), -1e-3, 0.0),
        at_most(1e-3, np.diff(distances), 0.0),
        note="part (b) fails: growing s lowers the KL and raises the distance (erratum E20)",
    )


def _nearest(distances: ndarray, count: int) -> ndarray:
    return np.argsort(distances)[:count]


def lem13(key: RandomKey, *, claim: Callable[[ndarray, int], ndarray] = _nearest) -> Evidence:
    """Every subset of three distinct elements in turn against the nearest neighbors."""
    points = generator(key).standard_normal((9, 4))
    costs = np.sum((points[1:] - points[0]) ** 2, axis=1)
    best = min(np.sum(costs[list(s)]) for s in itertools.combinations(range(8), 3))
    return equal(best, np.sum(costs[claim(costs, 3)]), note="of distinct elements (erratum E25)")


def _perfect(points: ndarray) -> ndarray:
    return points


def prop6(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _perfect) -> Evidence:
    """Nearest data point of each perfect reconstruction, and the next among the rest."""
    points = generator(key).standard_normal((8, 3))
    between = np.linalg.norm(claim(points)[:, None] - points[None], axis=2)
    return every(
        equal(np.argmin(between, axis=1), np.arange(8)),
        equal(between, np.linalg.norm(points[:, None] - points[None], axis=2)),
    )


CHECKS = {"thm2": thm2, "lem13": lem13, "prop6": prop6}
