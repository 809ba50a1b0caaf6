"""Ray marching through solids that are not convex, so that one part may hide another softly.

Where a ray passes a nose before it meets the cheek, part of the pixel shows each. How much of a
pixel is still free at some depth is the sigmoid of the distance there, in pixels, wherever the ray
sinks deeper than before; so it falls towards every surface, and what a near miss has taken stays
taken. Nothing is searched for: steps, shares and depths are smooth in everything that moves the
solid, and so is the image, with the derivative that automatic differentiation finds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from untwist.datasets.sphere_tracing import SHARPNESS, Distance, Point, Ray
from untwist.types import Scalar

STRIDE = 0.5
"""The shortest step, in pixels: near a surface; away from it, the distance less one pixel."""

GROUP = 5
"""So many steps in a row are one layer, at their mean depth."""


class Layers(NamedTuple):
    """What a ray shows, from near to far.

    Attributes:
        share: How much of the pixel each stretch of the ray fills.
        depth: Where on the ray it is.
    """

    share: Float[Array, " layer"]
    depth: Float[Array, " layer"]


def march(
    distance: Distance, center: Point, radius: Scalar | float, *, ray: Ray, steps: int
) -> Layers:
    """Returns what a ray shows of a solid inside the ball of `radius` around `center`.

    Args:
        distance: The signed distance of the solid, or a bound of it.
        center: The center of a ball that holds the solid.
        radius: The radius of that ball.
        ray: One ray.
        steps: How many steps are made, a multiple of `GROUP`.
    """
    middle = jnp.dot(center - ray.origin, ray.direction)
    width = ray.width(middle)
    longest = jax.lax.stop_gradient(radius / width)

    def walk(depth: Scalar, _: None) -> tuple[Scalar, tuple[Scalar, Scalar]]:
        here = distance(ray.at(depth)) / width
        stride = STRIDE + jnp.clip(jnp.abs(here) - 1 - STRIDE, 0, longest)
        return depth + stride * width, (depth, jax.nn.log_sigmoid(SHARPNESS * here))

    _, (depths, free) = jax.lax.scan(walk, middle - radius, None, length=steps)
    falls = jax.nn.relu(jnp.concatenate([jnp.zeros(1), free[:-1]]) - free)
    left = jnp.exp(-jnp.cumsum(falls))
    share = jnp.concatenate([jnp.ones(1), left[:-1]]) - left
    halfway = (depths + jnp.concatenate([depths[:1], depths[:-1]])) / 2
    share, halfway = share.reshape(-1, GROUP), halfway.reshape(-1, GROUP)
    weight = share + 1e-6
    return Layers(share.sum(-1), (weight * halfway).sum(-1) / weight.sum(-1))
