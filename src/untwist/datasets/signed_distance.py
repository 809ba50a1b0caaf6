"""Signed distances of solids: negative inside, one point at a time, y up, all edges rounded.

Every function is 1-Lipschitz, so that a step by its value never passes the surface, and all but
the smooth union are convex, so that along a ray each falls once and rises once. Rounded edges keep
the normal, and with it the shaded image, continuous in everything that moves a solid.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from untwist.types import Scalar

TINY = 1e-8

Point = Float[Array, "3"]


def length(vector: Float[Array, " axis"]) -> Scalar:
    """Returns the Euclidean length, with a gradient at zero too."""
    return jnp.sqrt(jnp.sum(vector**2) + TINY)


def sphere(point: Point, radius: Scalar | float) -> Scalar:
    """Returns the distance to a ball around the origin."""
    return length(point) - radius


def box(point: Point, half: Float[Array, "3"], rounding: Scalar | float) -> Scalar:
    """Returns the distance to a box of these half sides, its edges rounded by a radius."""
    outside = jnp.abs(point) - half + rounding
    inside = larger(larger(outside[0], outside[1]), outside[2])
    return length(jax.nn.relu(outside)) - jax.nn.relu(-inside) - rounding


def cylinder(
    point: Point, radius: Scalar | float, half: Scalar | float, rounding: Scalar | float
) -> Scalar:
    """Returns the distance to an upright cylinder of this half height."""
    across = length(point[jnp.array([0, 2])]) - radius
    outside = jnp.stack([across, jnp.abs(point[1]) - half]) + rounding
    inside = larger(outside[0], outside[1])
    return length(jax.nn.relu(outside)) - jax.nn.relu(-inside) - rounding


def capsule(point: Point, start: Point, end: Point, radius: Scalar | float) -> Scalar:
    """Returns the distance to all points within a radius of a line from start to end."""
    line, offset = end - start, point - start
    share = jnp.clip(jnp.dot(offset, line) / (jnp.dot(line, line) + TINY), 0, 1)
    return length(offset - share * line) - radius


def cone(
    point: Point, radius: Scalar | float, half: Scalar | float, rounding: Scalar | float
) -> Scalar:
    """Returns the distance to an upright cone: its base at -half, its tip at half."""
    across = jnp.sqrt(point[0] ** 2 + point[2] ** 2 + rounding**2)
    norm = jnp.sqrt(radius**2 + (2 * half) ** 2)
    side = (2 * half * (across - radius) + radius * (point[1] + half)) / norm
    return smooth_maximum(side, -point[1] - half, rounding)


def prism(
    point: Point, radius: Scalar | float, half: Scalar | float, rounding: Scalar | float
) -> Scalar:
    """Returns the distance to an upright hexagonal prism; `radius` is that of its inner circle."""
    angles = jnp.arange(3) * (math.pi / 3)
    sides = jnp.abs(point[0] * jnp.cos(angles) + point[2] * jnp.sin(angles)) - radius
    around = smooth_maximum(smooth_maximum(sides[0], sides[1], rounding), sides[2], rounding)
    return smooth_maximum(around, jnp.abs(point[1]) - half, rounding)


def pyramid(
    point: Point, radius: Scalar | float, half: Scalar | float, rounding: Scalar | float
) -> Scalar:
    """Returns the distance to an upright pyramid on a square: its base at -half, its tip at half.

    `radius` is half the side of the square.
    """
    norm = jnp.sqrt(radius**2 + (2 * half) ** 2)
    slope = (2 * half * -radius + radius * (point[1] + half)) / norm
    x, z = (slope + 2 * half * jnp.sqrt(point[i] ** 2 + rounding**2) / norm for i in (0, 2))
    return smooth_maximum(smooth_maximum(x, z, rounding), -point[1] - half, rounding)


def ellipsoid(point: Point, axes: Float[Array, "3"]) -> Scalar:
    """Returns a bound of the distance to an ellipsoid: exact in sign, first order near it."""
    scaled = length(point / axes)
    return scaled * (scaled - 1) / length(point / axes**2)


def larger(first: Scalar, second: Scalar) -> Scalar:
    """Returns the larger of two, with the derivative of the one that is chosen.

    The derivative of `max` finds the chosen one by equality with the result. When a compiler
    computes the result once more with another rounding, none is equal, and it comes out as 0 / 0.
    """
    return jnp.where(first > second, first, second)


def smooth_maximum(first: Scalar, second: Scalar, width: Scalar | float) -> Scalar:
    """Returns the maximum, rounded up where the two are closer than `width`.

    >>> round(float(smooth_maximum(jnp.array(1.0), jnp.array(1.0), 0.4)), 6)
    1.1
    """
    near = jax.nn.relu(width - jnp.abs(first - second))
    return larger(first, second) + near**2 / (4 * width)


def smooth_minimum(first: Scalar, second: Scalar, width: Scalar | float) -> Scalar:
    """Returns the minimum, rounded down where the two are closer than `width`: a smooth union."""
    return -smooth_maximum(-first, -second, width)


def choose(which: Int[Array, ""] | int, distances: Sequence[Scalar]) -> Scalar:
    """Returns one of several distances; the others leave no trace in its derivative."""
    chosen = distances[-1]
    for number, one in enumerate(distances[:-1]):
        chosen = jnp.where(jnp.asarray(which) == number, one, chosen)
    return chosen
