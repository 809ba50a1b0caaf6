"""The microstructured square of zietlow2021: long as a whole, turned in the small."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.datasets.dataset import Dataset
from untwist.datasets.sampling import check_positive, sample_factors
from untwist.factors import FactorSpace

ROWS = 4
LONG_SIDE, SHORT_SIDE = 0.75, 0.5


def square(
    *, ratio: float = 2.0, angle: float = 45.0, samples: int = 50_000, seed: int = 0
) -> Dataset:
    """Returns a long cloud of small uniform clusters whose own axes are turned: two PCAs disagree.

    The centers of the clusters form a grid of 4 rows and 4 · ratio columns, a step of 1 apart, so
    the cloud is `ratio` times as wide as high and its principal directions are the coordinate
    axes. Each cluster is a uniform rectangle of 0.75 by 0.5 turned by `angle`, so the principal
    directions of every neighborhood are turned by that angle. A linear VAE finds the first, a
    nonlinear one the second. The factors are column and row of the cluster and the place inside it
    along its long and its short side, from 0 to 1.

    The paper shows the cloud and states no numbers: all of these are chosen here, such that the
    clusters do not touch at any angle.

    Args:
        ratio: Width of the cloud over its height; the number of columns is rounded.
        angle: Degrees by which the clusters are turned counterclockwise.
        samples: How many points.
        seed: Seed of the factors.

    Reference:
        zietlow2021, figure 1.
    """
    check_positive("square", ratio=ratio)
    columns = max(1, round(ROWS * ratio))
    space = FactorSpace(
        ("column", "row", "along", "across"),
        (columns, ROWS, None, None),
        ("ordinal", "ordinal", "continuous", "continuous"),
    )
    factors = sample_factors("square", space, samples, seed=seed)
    generate = jax.vmap(lambda one: generate_square(one, columns=columns, angle=angle))
    points = jax.jit(generate)(factors)
    provenance = {"source": "synthetic, zietlow2021", "twin": False, "version": 1}
    provenance |= {"seed": seed, "ratio": ratio, "angle": angle}
    return Dataset("square", np.asarray(points), factors, space, "squared_error", provenance, (2,))


def generate_square(
    factors: Float[Array, "4"], *, columns: int = 8, angle: float = 45.0
) -> Float[Array, "2"]:
    """Returns the point that column, row, along and across generate."""
    turn = math.radians(angle)
    cosine, sine = math.cos(turn), math.sin(turn)
    center = factors[:2] - jnp.array([columns - 1, ROWS - 1], factors.dtype) / 2
    local = (factors[2:] - 0.5) * jnp.array([LONG_SIDE, SHORT_SIDE], factors.dtype)
    return center + jnp.array([[cosine, -sine], [sine, cosine]], factors.dtype) @ local
