"""One sprite as a function of its factors: distances to three outlines, and a smooth image.

Every shape is a signed distance, negative inside, to an outline of area 1 around the origin, y up.
The image is smooth in scale, orientation and position, so the generator has a Jacobian; the binary
sets are this image cut at one half, which asks of each pixel whether its center is inside.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from untwist.types import Scalar

SHAPES = ("square", "ellipse", "heart")

SIDE = 23 / 64
"""The side of the square at scale 1, as a fraction of the frame; the other shapes equal its area.

The farthest point of any shape lies 16.3 of 64 pixels from its center.
"""

START = 16.35 / 64
SPAN = 31 / 64
"""A position moves the center from START over SPAN: one of 64 pixels a step on the full grid.

START lies off the lines of symmetry between pixels; on one, a small square would look the same
turned a little to the left and to the right. With these numbers all images of the full grid
differ, and no outline comes nearer to the center of a pixel than rounding could decide.
"""

LONG_AXIS = 0.70
SHORT_AXIS = 1 / (math.pi * LONG_AXIS)
HEART_SIDE = 1 / math.sqrt(0.5 + math.pi / 8)
HEART_CENTER = 0.5 / (1.5 - math.sqrt(0.5))
TINY = 1e-12

Field = Float[Array, "*point"]


def square_distance(x: Field, y: Field) -> Field:
    """Returns the distance to a square of side 1, measured along its axes."""
    return jnp.maximum(jnp.abs(x), jnp.abs(y)) - 0.5


def ellipse_distance(x: Field, y: Field) -> Field:
    """Returns the distance to an ellipse, to first order: f / |grad f| of its equation f = 0."""
    value = (x / LONG_AXIS) ** 2 + (y / SHORT_AXIS) ** 2 - 1
    return value / (2 * _length(x / LONG_AXIS**2, y / SHORT_AXIS**2))


def heart_distance(x: Field, y: Field) -> Field:
    """Returns the distance to a heart: a square on its tip with a half disc on each upper side.

    The tip is below, the lobes above, and the origin is the center of the smallest circle around.
    """
    x = jnp.abs(x) / HEART_SIDE
    y = y / HEART_SIDE + HEART_CENTER
    lobe = _length(x - 0.25, y - 0.75) - math.sqrt(2) / 4
    side = jnp.where(x + y > 0, (x - y) / math.sqrt(2), _length(x, y))
    body = jnp.maximum(side, -_length(x, y - 1))
    return HEART_SIDE * jnp.where(x + y > 1, lobe, body)


def sprite_distance(
    shape: Int[Array, ""] | int, size: Scalar, orientation: Scalar, x: Field, y: Field
) -> Field:
    """Returns the distance to the outline of a sprite at points relative to its center.

    Args:
        shape: 0, 1 or 2, an index into `SHAPES`.
        size: The side of the square of equal area, in the unit of the points.
        orientation: The angle in radians, counterclockwise as seen.
        x: Points to the right of the center.
        y: Points below the center.
    """
    cosine, sine = jnp.cos(orientation), jnp.sin(orientation)
    along = (cosine * x - sine * y) / size
    up = (-sine * x - cosine * y) / size
    distances = [f(along, up) for f in (square_distance, ellipse_distance, heart_distance)]
    return size * jnp.choose(jnp.asarray(shape), distances, mode="clip")


def draw_sprite(
    shape: Int[Array, ""] | int, pose: Float[Array, "4"], *, size: int = 64
) -> Float[Array, "height width 1"]:
    """Returns the anti-aliased image of one sprite, in (0, 1).

    A pixel is sigmoid(-4 d), d the distance of its center to the outline in pixels: one half on
    the outline, with the slope there that the covered area of a pixel has.

    Args:
        shape: 0, 1 or 2, an index into `SHAPES`.
        pose: Scale (0.5 to 1), orientation in radians (0 to 2 pi), position x and y (0 to 1, to
            the right and down).
        size: Height and width in pixels.
    """
    scale, orientation, position_x, position_y = pose
    pixels = (jnp.arange(size) + 0.5) / size
    x, y = jnp.meshgrid(
        pixels - (START + SPAN * position_x), pixels - (START + SPAN * position_y), indexing="xy"
    )
    distance = sprite_distance(shape, SIDE * scale, orientation, x, y)
    return jax.nn.sigmoid(-4 * size * distance)[..., None]


def _length(x: Field, y: Field) -> Field:
    """Euclidean length with a gradient at the origin too, where it is the square root of TINY."""
    return jnp.sqrt(x**2 + y**2 + TINY)
