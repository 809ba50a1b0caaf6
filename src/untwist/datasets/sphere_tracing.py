"""A small differentiable sphere tracer: cameras, rays, surfaces, shadows, and their composition.

A scene is a handful of convex solids (`ray_march` has the others). Each is traced alone along each
ray, by its signed distance, and covers a pixel softly: by a sigmoid of how deep the ray dips below
its surface, in pixels. Layers are laid over each other softly too, by their depths. A solid is
shaded a little above its surface, by normals that are differences over a pixel, so that shading
turns around an edge, and ends at a silhouette, within a pixel and not at once. So the image is
smooth, at the scale of a pixel, in everything that moves a solid, the camera or the light.

What is searched for (where a ray comes closest, where it enters) carries no derivative; the value
at what was found does: the closest approach by the envelope theorem, the entry by implicit
differentiation.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from untwist.types import Scalar

GOLDEN = (math.sqrt(5) - 1) / 2
SEARCH, MARCH = 24, 32
SHARPNESS = 4.0
"""A pixel is covered by sigmoid(-4 depth): the slope at the edge that its covered area has."""

SKIN = 1.25
"""A solid is shaded so many pixels above its surface.

There edges are rounded by as much, and where a ray only grazes, so that the shade would change
without bound, the solid covers no more than sigmoid(-5) of the pixel.
"""

ASIDE = 0.03
"""How far from the closest approach its derivative is taken, in pixels."""

GRAZING = 0.002
"""Added to the squared slope of entry, so that its derivative stays finite where a ray grazes."""

Point = Float[Array, "3"]
Distance = Callable[[Point], Scalar]


class Ray(NamedTuple):
    """A ray through the center of a pixel.

    Attributes:
        origin: Where it starts.
        direction: Where it goes, of length 1.
        pixel: The width of the pixel on the unit distance, or everywhere if parallel.
        parallel: 1 where all rays of the camera are parallel, else 0.
    """

    origin: Point
    direction: Point
    pixel: Scalar
    parallel: Scalar

    def at(self, depth: Scalar) -> Point:
        """Returns the point at this depth."""
        return self.origin + depth * self.direction

    def width(self, depth: Scalar) -> Scalar:
        """Returns how wide the pixel is at this depth."""
        return self.pixel * jnp.where(self.parallel > 0, 1.0, depth)


class Surface(NamedTuple):
    """What a ray finds of a solid.

    Attributes:
        cover: How much of the pixel the solid covers, 0 to 1.
        depth: Where the ray enters its skin, or comes closest where it misses.
        point: The point there.
        normal: The unit normal there.
    """

    cover: Scalar
    depth: Scalar
    point: Point
    normal: Point


class Camera(NamedTuple):
    """Where a camera is, the axes of its picture, and its half width.

    Attributes:
        origin: The eye.
        right: To the right in the picture.
        up: Upwards in the picture.
        forward: Into the picture.
        half: Half the width of the picture at distance 1, or everywhere if orthographic.
        parallel: Whether it is orthographic.
    """

    origin: Point
    right: Point
    up: Point
    forward: Point
    half: Scalar
    parallel: bool

    def rays(self, size: int) -> Ray:
        """Returns the rays of a square picture, row by row from the top: axes height, width."""
        places = self.half * ((2 * jnp.arange(size) + 1) / size - 1)
        x, y = jnp.meshgrid(places, -places, indexing="xy")
        aside = x[..., None] * self.right + y[..., None] * self.up
        width = jnp.full((size, size), 2 * self.half / size)
        if self.parallel:
            forward = jnp.broadcast_to(self.forward, aside.shape)
            return Ray(self.origin + aside, forward, width, jnp.ones_like(width))
        direction = self.forward + aside
        norm = jnp.linalg.norm(direction, axis=-1)
        origin = jnp.broadcast_to(self.origin, aside.shape)
        return Ray(origin, direction / norm[..., None], width / norm, jnp.zeros_like(width))


def look_at(
    origin: Point, target: Point, half: Scalar | float, *, parallel: bool = False
) -> Camera:
    """Returns the upright camera at `origin` with `target` in the middle of its picture."""
    forward = _unit(target - origin)
    right = _unit(jnp.cross(forward, jnp.array([0.0, 1.0, 0.0])))
    return Camera(
        origin, right, jnp.cross(right, forward), forward, jnp.asarray(half, jnp.float32), parallel
    )


def trace(distance: Distance, center: Point, radius: Scalar | float, *, ray: Ray) -> Surface:
    """Returns what a ray finds of a convex solid inside the ball of `radius` around `center`.

    Args:
        distance: The signed distance of the solid.
        center: The center of a ball that holds the solid.
        radius: The radius of that ball.
        ray: One ray.
    """
    middle = jnp.dot(center - ray.origin, ray.direction)
    near, far = jnp.maximum(middle - radius, 0), middle + radius
    closest = _closest(distance, ray, near, far)
    width = ray.width(closest)
    cover = jax.nn.sigmoid(-SHARPNESS * _least(distance, ray, closest, ASIDE * width) / width)

    def over_skin(depth: Scalar) -> Scalar:
        return distance(ray.at(depth)) - SKIN * width

    def step(_: Int[Array, ""] | int, depth: Scalar) -> Scalar:
        moved = depth + jax.lax.stop_gradient(over_skin(depth))
        return jnp.minimum(moved, closest)

    first = jnp.maximum(near - SKIN * width, 0)
    entry = jax.lax.fori_loop(0, MARCH, step, jax.lax.stop_gradient(first))
    start, direction = jax.lax.stop_gradient((ray.at(entry), ray.direction))
    _, slope = jax.jvp(distance, (start,), (direction,))
    slope, value = jax.lax.stop_gradient(slope), over_skin(entry)
    moved = value - jax.lax.stop_gradient(value)
    depth = entry - moved * slope / (slope**2 + GRAZING)  # implicit differentiation
    point = ray.at(depth)
    return Surface(cover, depth, point, blurred_normal(distance, point, width))


def blurred_normal(distance: Distance, point: Point, width: Scalar) -> Point:
    """Returns the unit normal by differences over a pixel, so that an edge is turned within one."""
    away = width / 2 * jnp.eye(3)
    ahead, behind = (jax.vmap(distance)(point + sign * away) for sign in (1, -1))
    return _unit((ahead - behind) / width)


def light_reaching(
    distance: Distance,
    center: Point,
    radius: Scalar | float,
    point: Point,
    light: Point,
    *,
    softness: float = 0.12,
) -> Scalar:
    """Returns how much of a directional light a convex solid lets pass to a point, 0 to 1.

    The shadow is a sigmoid of how deep the ray to the light dips into the solid, over `softness`.
    """
    ray = Ray(point, light, jnp.array(0.0), jnp.array(1.0))
    middle = jnp.dot(center - point, light)
    near, far = jnp.maximum(middle - radius, 0), jnp.maximum(middle + radius, 0)
    closest = _closest(distance, ray, near, far)
    return jax.nn.sigmoid(SHARPNESS * _least(distance, ray, closest, ASIDE * softness) / softness)


def on_floor(ray: Ray) -> Point:
    """Returns where a ray meets the floor at height 0, or a place far away if it rises."""
    falls = jnp.where(ray.direction[1] < -0.01, ray.direction[1], -0.01)
    return ray.origin - ray.direction * ray.origin[1] / falls


def lambert(normal: Point, light: Point) -> Scalar:
    """Returns the cosine between a normal and the direction to the light, 0 where it is behind."""
    return jax.nn.relu(jnp.dot(normal, light))


def visibility(
    covers: Float[Array, " layer"], depths: Float[Array, " layer"], blur: Scalar
) -> Float[Array, " layer"]:
    """Returns how much of a pixel each layer fills when all lie over each other.

    A layer hides another by its cover times a sigmoid of the difference of their depths over
    `blur`. The layers together fill what they cover: 1 - product(1 - cover).
    """
    behind = jax.nn.sigmoid((depths[:, None] - depths) / blur)
    hidden = (covers * behind).at[jnp.diag_indices(len(covers))].set(0)
    seen = covers * jnp.prod(1 - hidden, axis=1)
    return seen * (1 - jnp.prod(1 - covers)) / (jnp.sum(seen) + 1e-6)


def shrink(
    picture: Float[Array, "height width *channel"], size: int
) -> Float[Array, "size size *channel"]:
    """Returns a smaller picture: the means of square blocks."""
    times = len(picture) // size
    blocks = picture.reshape(size, times, size, times, *picture.shape[2:])
    return blocks.mean((1, 3))


def hue_color(hue: Scalar) -> Float[Array, "3"]:
    """Returns the color of a hue on a smooth color circle: 0 red, 1/3 green, 2/3 blue, 1 red."""
    angles = 2 * math.pi * (hue - jnp.arange(3) / 3)
    return jax.nn.sigmoid(4 * jnp.cos(angles))


def _least(distance: Distance, ray: Ray, closest: Scalar, aside: Scalar | float) -> Scalar:
    """The distance where it is least, with the derivative of that minimum.

    Where the distance is smooth along the ray, that is its derivative at a fixed depth. At a kink,
    as inside a box, it is the mixture of both sides' whose slopes along the ray cancel.
    """

    def side(depth: Scalar) -> tuple[Scalar, Scalar]:
        place, direction = jax.lax.stop_gradient((ray.at(depth), ray.direction))
        slope = jax.lax.stop_gradient(jax.jvp(distance, (place,), (direction,))[1])
        return distance(ray.at(depth)), slope

    (before, falling), (after, rising) = side(closest - aside), side(closest + aside)
    falling, rising = jax.nn.relu(-falling) + 1e-5, jax.nn.relu(rising) + 1e-5
    share = rising / (falling + rising)
    mixture = share * before + (1 - share) * after
    value = jax.lax.stop_gradient(distance(ray.at(closest)))
    return value + mixture - jax.lax.stop_gradient(mixture)


def _closest(distance: Distance, ray: Ray, near: Scalar, far: Scalar) -> Scalar:
    """The depth at which the distance is least, by golden sections.

    It carries no derivative, and neither does anything on the way to it.
    """
    near, far = jax.lax.stop_gradient((near, far))

    def value_at(depth: Scalar) -> Scalar:
        return jax.lax.stop_gradient(distance(ray.at(depth)))

    span = far - near
    low, high = far - GOLDEN * span, near + GOLDEN * span
    state = (near, far, low, high, value_at(low), value_at(high))

    def cut(_: Int[Array, ""] | int, state: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        near, far, low, high, at_low, at_high = state
        left = at_low < at_high
        near, far = jnp.where(left, near, low), jnp.where(left, high, far)
        fresh = jnp.where(left, far - GOLDEN * (far - near), near + GOLDEN * (far - near))
        value = value_at(fresh)
        return (
            near,
            far,
            jnp.where(left, fresh, high),
            jnp.where(left, low, fresh),
            jnp.where(left, value, at_high),
            jnp.where(left, at_low, value),
        )

    near, far, *_ = jax.lax.fori_loop(0, SEARCH, cut, state)
    return (near + far) / 2


def _unit(vector: Point) -> Point:
    """The vector at length 1."""
    return vector / jnp.sqrt(jnp.sum(vector**2) + 1e-8)
