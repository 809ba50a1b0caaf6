"""Gaussian averages by Gauss-Hermite quadrature: exact where Monte Carlo would only be close."""

import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def gauss_points(
    size: int, nodes: int
) -> tuple[Float[ndarray, "point axis"], Float[ndarray, " point"]]:
    """Returns points and weights for averages over N(0, I), exact to degree `2 nodes - 1`.

    >>> points, weights = gauss_points(1, 3)
    >>> round(float(weights @ points[:, 0] ** 4), 12)
    3.0
    """
    line, mass = np.polynomial.hermite_e.hermegauss(nodes)
    points = np.array(list(itertools.product(line, repeat=size)))
    weights = np.array([np.prod(m) for m in itertools.product(mass, repeat=size)])
    return points, weights / np.sum(weights)


def gauss_average(
    function: Callable[[ndarray], ndarray],
    mean: Float[ndarray, " axis"],
    root: Float[ndarray, "axis axis"],
    *,
    nodes: int = 20,
) -> ndarray:
    """Returns E f(z) over z = mean + root * N(0, I).

    Args:
        function: Takes rows of points and gives one row (or number) a point.
        mean: Mean of z.
        root: A square root of the covariance of z: root root' is the covariance.
        nodes: Quadrature nodes an axis.
    """
    points, weights = gauss_points(len(mean), nodes)
    return np.tensordot(weights, function(mean + points @ root.T), axes=1)
