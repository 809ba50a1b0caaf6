"""The clustered circles of allen2024: what beta merges, it merges from the small to the large."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.datasets.dataset import Dataset
from untwist.datasets.sampling import check_positive, sample_factors
from untwist.factors import FactorSpace

CLUSTER_DISTANCE, CIRCLE_DISTANCE = 2.0, 0.75


def circles(
    *,
    clusters: int = 3,
    members: int = 3,
    radius: float = 0.25,
    samples: int = 50_000,
    seed: int = 0,
) -> Dataset:
    """Returns points on small circles that stand in clusters: three scales in two dimensions.

    With growing beta the reconstructions first average neighbors on a circle, then shrink each
    circle to its center, then each cluster, and at last all of it to one point. The factors are
    the cluster, the circle in the cluster, and the place on the circle as a fraction of a turn.

    The paper shows the points and states no numbers: here the centers of the clusters lie evenly
    on a circle of radius 2, the centers of the circles of one cluster on a circle of radius 0.75.

    Args:
        clusters: How many clusters.
        members: How many circles in each cluster.
        radius: The radius of a small circle.
        samples: How many points.
        seed: Seed of the factors.

    Reference:
        allen2024, figure 2, taken over there from Rezende and Viola 2018.
    """
    check_positive("circles", clusters=clusters, members=members, radius=radius)
    space = FactorSpace(
        ("cluster", "circle", "turn"),
        (clusters, members, None),
        ("categorical", "categorical", "continuous"),
    )
    factors = sample_factors("circles", space, samples, seed=seed)
    generate = jax.vmap(
        lambda one: generate_circles(one, clusters=clusters, members=members, radius=radius)
    )
    points = jax.jit(generate)(factors)
    provenance = {"source": "synthetic, allen2024", "twin": False, "version": 1}
    provenance |= {"seed": seed, "clusters": clusters, "members": members, "radius": radius}
    return Dataset("circles", np.asarray(points), factors, space, "gaussian", provenance, (2,))


def generate_circles(
    factors: Float[Array, "3"], *, clusters: int = 3, members: int = 3, radius: float = 0.25
) -> Float[Array, "2"]:
    """Returns the point that cluster, circle and turn generate."""
    cluster, circle, turn = factors
    return (
        _on_circle(CLUSTER_DISTANCE, cluster / clusters + 0.25)
        + _on_circle(CIRCLE_DISTANCE, circle / members + 0.25)
        + _on_circle(radius, turn)
    )


def _on_circle(radius: float, turn: Float[Array, ""]) -> Float[Array, "2"]:
    """The point at a fraction of a turn."""
    return radius * jnp.stack([jnp.cos(2 * math.pi * turn), jnp.sin(2 * math.pi * turn)])
