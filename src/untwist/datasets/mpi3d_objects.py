"""The objects of the twins of MPI3D: distances of solids of about radius 1, height along y."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from untwist.datasets import signed_distance as solid
from untwist.types import Scalar

Point = Float[Array, "3"]
ObjectDistance = Callable[[Point], Scalar]


def _mug(point: Point, radius: float, half: float, grip: float) -> Scalar:
    """A cup with a handle at its side."""
    body = solid.cylinder(point, radius, half, 0.15)
    across = point - jnp.array([radius, 0.0, 0.0])
    ring = solid.length(jnp.stack([solid.length(across[:2]) - grip, across[2]])) - 0.17
    return solid.smooth_minimum(body, ring, 0.2)


def _tennis_ball(point: Point) -> Scalar:
    """A ball with a groove along the seam of a tennis ball."""
    x, y, z = point / solid.length(point)
    seam = (x**2 - z**2) - 1.2 * y * (1.3 - y**2)
    return solid.sphere(point, 0.95) + 0.10 * jnp.exp(-((seam / 0.20) ** 2))


def _croissant(point: Point) -> Scalar:
    """A crescent, thick in the middle."""
    x, y, z = point
    bend = y + 0.55 * x**2 - 0.25
    thickness = 0.50 * solid.larger(1.05 - x**2, jnp.asarray(0.02))
    ridges = 0.03 * jnp.cos(9 * x)
    tube = jnp.sqrt(bend**2 + z**2 + 1e-12) - thickness - ridges
    return 0.55 * solid.smooth_maximum(tube, jnp.abs(x) - 1.0, 0.2)


TOY: dict[str, ObjectDistance] = {
    "cone": lambda p: solid.cone(p, 1.0, 1.0, 0.15),
    "cube": lambda p: solid.box(p, jnp.full(3, 0.78), 0.15),
    "cylinder": lambda p: solid.cylinder(p, 0.62, 0.95, 0.15),
    "hexagonal": lambda p: solid.prism(p, 0.85, 0.60, 0.15),
    "pyramid": lambda p: solid.pyramid(p, 0.95, 0.95, 0.15),
    "sphere": lambda p: solid.sphere(p, 0.95),
}

COMPLEX: dict[str, ObjectDistance] = {
    "coffee-cup": lambda p: _mug(p, 0.62, 0.55, 0.36),
    "tennis-ball": _tennis_ball,
    "croissant": _croissant,
    "beer-cup": lambda p: _mug(p, 0.52, 0.98, 0.50),
}
