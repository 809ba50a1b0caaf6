"""The scene of the twin of Shapes3D: a solid in the middle of a room, as a function of its factors.

The geometry is drawn apart from the colors: how much light of the floor, of the walls and of the
solid comes into each pixel. A picture is that, times three colors.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from untwist.datasets import signed_distance as solid
from untwist.datasets.sphere_tracing import (
    SHARPNESS,
    Camera,
    Ray,
    hue_color,
    lambert,
    light_reaching,
    look_at,
    on_floor,
    shrink,
    trace,
)
from untwist.types import Scalar

SHAPES = ("cube", "cylinder", "sphere", "capsule")

DRAWN = 64
"""Pictures are drawn at this size; smaller ones are means over blocks of pixels."""

HALF = 0.80
"""Half the side of the cube, and the radius of the sphere, at scale 1."""

EYE_DISTANCE, EYE_HEIGHT, LOOK_HEIGHT, VIEW = 5.0, 2.4, 0.90, 0.45
WALL = 5.2
AMBIENT, FLOOR_AMBIENT = 0.35, 0.50
LIGHT = (-0.45, 0.85, 0.40)


def shapes3d_light(
    shape: Int[Array, ""] | int, scale: Scalar, orientation: Scalar
) -> Float[Array, "64 64 3"]:
    """Returns how much light of floor, walls and solid each pixel shows.

    Args:
        shape: 0 to 3, an index into `SHAPES`.
        scale: The size of the solid, 0.75 to 1.25.
        orientation: Degrees by which the camera goes round the room, -30 to 30.
    """
    angle = jnp.deg2rad(orientation)
    eye = jnp.array([0.0, EYE_HEIGHT, 0.0]) + EYE_DISTANCE * jnp.stack(
        [jnp.sin(angle), jnp.zeros_like(angle), jnp.cos(angle)]
    )
    camera = look_at(eye, jnp.array([0.0, LOOK_HEIGHT, 0.0]), VIEW)
    rays = camera.rays(DRAWN)
    light = jnp.array(LIGHT) / math.hypot(*LIGHT)

    def distance(point: Float[Array, "3"]) -> Scalar:
        return _distance(shape, scale, point)

    def pixel(ray: Ray, parts: Float[Array, " plane"]) -> Float[Array, "3"]:
        center, radius = jnp.array([0.0, 1.0, 0.0]) * HALF * scale, 1.8 * HALF * scale
        surface = trace(distance, center, radius, ray=ray)
        shaded = AMBIENT + (1 - AMBIENT) * lambert(surface.normal, light)
        ground = on_floor(ray)
        lit = light_reaching(distance, center, radius, ground, light)
        floor = FLOOR_AMBIENT + (1 - FLOOR_AMBIENT) * light[1] * lit
        walls = jnp.dot(parts[1:], _wall_light(light))
        behind = jnp.stack([parts[0] * floor, walls, jnp.zeros_like(scale)])
        return (1 - surface.cover) * behind + surface.cover * jnp.stack(
            [jnp.zeros_like(scale), jnp.zeros_like(scale), shaded]
        )

    return jax.vmap(jax.vmap(pixel))(rays, _room(camera, rays))


def draw_shapes3d(
    shape: Int[Array, ""] | int, values: Float[Array, "5"], *, size: int = DRAWN
) -> Float[Array, "height width 3"]:
    """Returns the smooth picture of one combination of factors, in [0, 1].

    Args:
        shape: 0 to 3, an index into `SHAPES`.
        values: Hue of the floor, of the walls and of the solid (0 to 1, a circle), scale (0.75 to
            1.25) and orientation in degrees (-30 to 30).
        size: Height and width in pixels, a divisor of 64.
    """
    colors = jax.vmap(hue_color)(values[:3])
    return shrink(shapes3d_light(shape, values[3], values[4]), size) @ colors


def _distance(shape: Int[Array, ""] | int, scale: Scalar, point: Float[Array, "3"]) -> Scalar:
    """The distance to the solid, which stands on the floor."""
    size = HALF * scale
    moved = point - jnp.array([0.0, 1.0, 0.0]) * size
    tip = jnp.array([0.0, 0.5, 0.0]) * size
    distances = [
        solid.box(moved, jnp.full(3, 0.92) * size, 0.06 * size),
        solid.cylinder(moved, 0.85 * size, size, 0.06 * size),
        solid.sphere(moved, size),
        solid.capsule(moved, -tip, tip, 0.5 * size),
    ]
    return solid.choose(shape, distances)


def _planes() -> Float[Array, "plane 4"]:
    """Floor and four walls as outward normal and offset; a corner lies behind the solid."""
    half = math.sqrt(0.5)
    walls = [[x * half, 0.0, z * half, WALL] for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return jnp.array([[0.0, -1.0, 0.0, 0.0], *walls])


def _wall_light(light: Float[Array, "3"]) -> Float[Array, "4"]:
    """How bright the walls are: inward normals, lit from within."""
    facing = -_planes()[1:, :3] @ light
    return 0.72 + 0.25 * facing


def _room(camera: Camera, rays: Ray) -> Float[Array, "height width plane"]:
    """How much of each plane a pixel shows, if nothing stands in the room.

    The inverse depth of a plane is affine in the place of the pixel, and the nearest plane has the
    largest; so seams are straight, and softened over exactly one pixel.
    """
    planes = _planes()
    inverse = planes[:, :3] / (planes[:, 3:] - planes[:, :3] @ camera.origin[:, None])
    apart = inverse[:, None] - inverse
    pixel = 2 * camera.half / len(rays.pixel)
    slope = jnp.sqrt((apart @ camera.right) ** 2 + (apart @ camera.up) ** 2 + 1e-12) * pixel
    forward = rays.direction @ camera.forward
    ahead = rays.direction / forward[..., None]
    nearer = jnp.einsum("ijc,hwc->hwij", apart, ahead) / slope
    other = 1 - jnp.eye(len(planes))
    share = jnp.prod(jnp.where(other > 0, jax.nn.sigmoid(SHARPNESS * nearer), 1.0), axis=-1)
    return share / jnp.sum(share, axis=-1, keepdims=True)
