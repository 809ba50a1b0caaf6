"""The linear synthetic set of rolinek2019: a stretched square, turned into three dimensions."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.datasets.dataset import Dataset
from untwist.datasets.sampling import check_positive, sample_factors
from untwist.factors import FactorSpace

SPACE = FactorSpace(("w1", "w2"), (None, None), ("continuous", "continuous"))


def linear(*, ratio: float = 2.0, samples: int = 50_000, seed: int = 0) -> Dataset:
    """Returns points of a stretched square in three dimensions: x = R E diag(ratio, 1) w.

    w is uniform on the unit square, E sets the third coordinate to 0, and R turns by 45 degrees
    about the axis (1, -1, 1). The covariance has the eigenvalues ratio² / 12, 1 / 12 and 0, so at
    a ratio of 1 the principal directions are undetermined.

    Which coordinate is stretched and the sense of the turn (right-handed here) are not stated; no
    score depends on them. The ratio replaces the published stretch of 2.

    Args:
        ratio: The scale of the first factor over that of the second.
        samples: How many points.
        seed: Seed of the factors.

    Reference:
        rolinek2019, sections 8.5 and 9.2.
    """
    check_positive("linear", ratio=ratio)
    factors = sample_factors("linear", SPACE, samples, seed=seed)
    data = factors @ linear_mixing(ratio).T.astype(np.float32)
    provenance = {"source": "synthetic, rolinek2019", "twin": False, "version": 1}
    provenance |= {"seed": seed, "ratio": ratio}
    return Dataset("linear", data, factors, SPACE, "squared_error", provenance, (3,))


def linear_mixing(ratio: float = 2.0) -> Float[np.ndarray, "3 2"]:
    """Returns the matrix R E diag(ratio, 1), in float64.

    >>> linear_mixing(2.0).round(6).tolist()
    [[1.609476, -0.505879], [0.621234, 0.804738], [1.011759, 0.310617]]
    """
    axis = np.array([1.0, -1.0, 1.0]) / math.sqrt(3)
    cross = np.cross(np.eye(3), axis)
    angle = math.pi / 4
    rotation = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
    return rotation[:, :2] * np.array([ratio, 1.0])


def generate_linear(factors: Float[Array, "2"], *, ratio: float = 2.0) -> Float[Array, "3"]:
    """Returns the point that two factors generate, for derivatives of the true generator."""
    return jnp.asarray(linear_mixing(ratio), factors.dtype) @ factors
