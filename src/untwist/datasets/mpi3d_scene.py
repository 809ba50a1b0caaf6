"""The scene of the twins of MPI3D: a robot arm on a base with an object at its tip.

As in the room of Shapes3D, the geometry is drawn apart from the colors: how much light of the
object, of the strip behind and of everything gray comes into each pixel. The robot and what is
behind it are the same for every object, so they are drawn apart from it too.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from untwist.datasets import signed_distance as solid
from untwist.datasets.mpi3d_objects import COMPLEX, TOY, ObjectDistance
from untwist.datasets.ray_march import march
from untwist.datasets.sphere_tracing import (
    SHARPNESS,
    Camera,
    Distance,
    Ray,
    blurred_normal,
    lambert,
    light_reaching,
    look_at,
    on_floor,
    shrink,
    trace,
    visibility,
)
from untwist.types import Scalar

DRAWN = 64
OBJECT_COLORS = {
    "white": (0.95, 0.95, 0.95),
    "green": (0.10, 0.75, 0.20),
    "red": (0.90, 0.12, 0.10),
    "blue": (0.12, 0.25, 0.95),
    "brown": (0.50, 0.28, 0.12),
    "olive": (0.55, 0.58, 0.12),
}
COMPLEX_COLORS = {
    "yellow": (0.95, 0.85, 0.10),
    "green": (0.10, 0.75, 0.20),
    "olive": (0.55, 0.58, 0.12),
    "red": (0.90, 0.12, 0.10),
}
BACKGROUNDS = {
    "purple": (0.45, 0.15, 0.60),
    "sea green": (0.15, 0.60, 0.45),
    "salmon": (0.95, 0.50, 0.42),
}
GRAY = (0.94, 0.97, 1.00)
"""The tint of everything that is gray."""

RADII = (0.17, 0.26)
"""The radius of a small and of a large object."""

ELEVATIONS = (42.0, 27.0, 12.0)
"""How high the camera stands, in degrees: top, center, bottom."""

EYE_DISTANCE, LOOK_HEIGHT, VIEW = 3.3, 0.62, 0.42
SHOULDER, ARM, REACH = 0.72, 0.60, 0.66
WALL, STRIP = 1.5, 0.55
COLUMNS = ((0.10, 0.46, 0.10, 0.24), (0.40, 0.17, 0.30, 0.45))
"""Base and column: height of the center, radius, half height, how bright the gray."""

LINKS = (
    (0.0, 0.001, 0.19, 0.60),
    (0.0, ARM, 0.075, 0.90),
    (-0.34, -0.18, 0.11, 0.36),
    (ARM - 0.06, REACH - 0.02, 0.11, 0.34),
)
"""Shoulder, arm, counterweight, grip: start and end along the arm, radius, how bright the gray."""

WINDOW = 32
"""The object is traced only in this many pixels around its center."""

STEPS = 30
"""Steps of a ray through an object that is not convex."""

AMBIENT, LIGHT = 0.35, (-0.45, 0.80, 0.40)


Solid = tuple[Callable[[Float[Array, "3"]], Scalar], Float[Array, "3"], Scalar]


class Robot(NamedTuple):
    """What is seen without the object: the robot as one layer, and what is behind it."""

    cover: Float[Array, "height width"]
    depth: Float[Array, "height width"]
    light: Float[Array, "height width"]
    behind: Float[Array, "height width 3"]


def mpi3d_robot(elevation: Scalar, horizontal: Scalar, vertical: Scalar) -> Robot:
    """Returns what is seen of the robot and behind it; angles in degrees."""
    camera, light = _camera(elevation), _light()
    along = arm_direction(horizontal, vertical)

    def pixel(ray: Ray) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        columns = jax.vmap(lambda part: trace(*_column(part), ray=ray))(jnp.array(COLUMNS))
        links = jax.vmap(lambda part: trace(*_link(part, along), ray=ray))(jnp.array(LINKS))
        found = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), columns, links)
        grays = jnp.array([part[-1] for part in (*COLUMNS, *LINKS)])
        shades = grays * jax.vmap(lambda normal: _shade(normal, light))(found.normal)
        seen = visibility(found.cover, found.depth, ray.width(found.depth.min()))
        whole = seen.sum() + 1e-9
        depth, shade = jnp.dot(seen, found.depth) / whole, jnp.dot(seen, shades) / whole
        return seen.sum(), depth, shade, light_on_table(ray)

    def light_on_table(ray: Ray) -> Scalar:
        ground = on_floor(ray)
        arm = _link(jnp.array(LINKS[1]), along)
        base = _column(jnp.array(COLUMNS[0]))
        return jnp.prod(jnp.stack([light_reaching(*part, ground, light) for part in (arm, base)]))

    rays = camera.rays(DRAWN)
    cover, depth, shade, lit = jax.vmap(jax.vmap(pixel))(rays)
    return Robot(cover, depth, shade, _behind(camera, rays, lit))


def add_object(
    robot: Robot,
    distance: ObjectDistance,
    radius: Scalar,
    elevation: Scalar,
    horizontal: Scalar,
    vertical: Scalar,
    *,
    convex: bool,
) -> Float[Array, "64 64 3"]:
    """Returns how much light of object, strip and gray each pixel shows."""
    camera, light = _camera(elevation), _light()
    along = arm_direction(horizontal, vertical)
    center = jnp.array([0.0, SHOULDER, 0.0]) + (REACH + radius) * along
    axes = _frame(along)

    def placed(point: Float[Array, "3"]) -> Scalar:
        return radius * distance(axes @ (point - center) / radius)

    rays = camera.rays(DRAWN)
    corner = _corner(camera, center)
    window = jax.tree.map(lambda part: _cut(part, corner), rays)
    look = functools.partial(_convex if convex else _folded, placed, center, 1.5 * radius, light)
    cover, depth, shade = jax.vmap(jax.vmap(look))(window)
    width = jax.vmap(jax.vmap(Ray.width))(window, depth)
    before = jax.nn.sigmoid((_cut(robot.depth, corner) - depth) / width)
    cover = cover * (1 - _cut(robot.cover, corner) * (1 - before))
    empty = jnp.zeros((DRAWN, DRAWN))
    cover = jax.lax.dynamic_update_slice(empty, cover, corner)
    shade = jax.lax.dynamic_update_slice(empty, shade, corner)
    return _compose(robot, cover, shade)


def mpi3d_light(
    kind: Int[Array, ""] | int,
    radius: Scalar,
    elevation: Scalar,
    horizontal: Scalar,
    vertical: Scalar,
    *,
    complicated: bool = False,
) -> Float[Array, "64 64 3"]:
    """Returns how much light of object, strip and gray each pixel shows.

    Args:
        kind: Which object, an index into the names of `mpi3d_objects`.
        radius: The size of the object.
        elevation: Degrees of the camera over the horizon.
        horizontal: Degrees of the arm's turn to the right.
        vertical: Degrees by which the arm is raised.
        complicated: Whether the objects are those of MPI3D real complex.
    """
    robot = mpi3d_robot(elevation, horizontal, vertical)
    pose = (elevation, horizontal, vertical)
    distance = object_distance(kind, complicated)
    return add_object(robot, distance, radius, *pose, convex=not complicated)


def draw_mpi3d(
    kind: Int[Array, ""] | int,
    values: Float[Array, "10"],
    *,
    size: int = DRAWN,
    complicated: bool = False,
) -> Float[Array, "height width 3"]:
    """Returns the smooth picture of one combination of factors, in [0, 1].

    Args:
        kind: Which object.
        values: The color of the object and of the strip (red, green, blue each), then the radius
            of the object and the angles of camera and arm in degrees.
        size: Height and width in pixels, a divisor of 64.
        complicated: Whether the objects are those of MPI3D real complex.
    """
    light = mpi3d_light(kind, *values[6:], complicated=complicated)
    return shrink(light, size) @ jnp.stack([values[:3], values[3:6], jnp.array(GRAY)])


def object_distance(kind: Int[Array, ""] | int, complicated: bool) -> ObjectDistance:
    """Returns the distance to one of the objects, of radius 1 around the origin."""
    solids = tuple((COMPLEX if complicated else TOY).values())

    def distance(point: Float[Array, "3"]) -> Scalar:
        return solid.choose(kind, [one(point) for one in solids])

    return distance


def arm_direction(horizontal: Scalar, vertical: Scalar) -> Float[Array, "3"]:
    """Returns where the arm points: at 0 and 0 towards the viewer, level."""
    turn, rise = jnp.deg2rad(horizontal), jnp.deg2rad(vertical)
    flat = jnp.cos(rise)
    return jnp.stack([flat * jnp.sin(turn), jnp.sin(rise), flat * jnp.cos(turn)])


def _camera(elevation: Scalar) -> Camera:
    """The camera at this elevation."""
    angle = jnp.deg2rad(elevation)
    away = jnp.stack([jnp.zeros_like(angle), jnp.sin(angle), jnp.cos(angle)])
    target = jnp.array([0.0, LOOK_HEIGHT, 0.0])
    return look_at(target + EYE_DISTANCE * away, target, VIEW)


def _light() -> Float[Array, "3"]:
    """The direction to the light."""
    return jnp.array(LIGHT) / math.hypot(*LIGHT)


def _shade(normal: Float[Array, "3"], light: Float[Array, "3"]) -> Scalar:
    """How bright a surface is."""
    return AMBIENT + (1 - AMBIENT) * lambert(normal, light)


def _convex(
    distance: Distance,
    center: Float[Array, "3"],
    radius: Scalar,
    light: Float[Array, "3"],
    ray: Ray,
) -> tuple[Scalar, Scalar, Scalar]:
    """How much of a pixel a convex object covers, how far away, and how bright it is."""
    surface = trace(distance, center, radius, ray=ray)
    return surface.cover, surface.depth, _shade(surface.normal, light)


def _folded(
    distance: Distance,
    center: Float[Array, "3"],
    radius: Scalar,
    light: Float[Array, "3"],
    ray: Ray,
) -> tuple[Scalar, Scalar, Scalar]:
    """The same of an object that may hide a part of itself."""
    layers = march(distance, center, radius, ray=ray, steps=STEPS)

    def shade(depth: Scalar) -> Scalar:
        normal = blurred_normal(distance, ray.at(depth), ray.width(depth))
        return _shade(normal, light)

    weight = layers.share + 1e-6
    cover, shades = layers.share.sum(), jax.vmap(shade)(layers.depth)
    return cover, weight @ layers.depth / weight.sum(), weight @ shades / weight.sum()


def _column(part: Float[Array, "4"]) -> Solid:
    """An upright cylinder of the robot: its distance and a ball that holds it."""
    height, radius, half, _ = part
    center = jnp.stack([jnp.zeros_like(height), height, jnp.zeros_like(height)])
    reach = solid.length(jnp.stack([radius, half]))
    return lambda point: solid.cylinder(point - center, radius, half, 0.03), center, reach


def _link(part: Float[Array, "4"], along: Float[Array, "3"]) -> Solid:
    """A link of the arm: its distance and a ball that holds it."""
    start, end, radius, _ = part
    shoulder = jnp.array([0.0, SHOULDER, 0.0])
    first, last = shoulder + start * along, shoulder + end * along
    ball = (first + last) / 2, (end - start) / 2 + radius
    return lambda point: solid.capsule(point, first, last, radius), *ball


def _behind(
    camera: Camera, rays: Ray, lit: Float[Array, "height width"]
) -> Float[Array, "height width 3"]:
    """The light of what is behind the robot: a dark table, a dark wall with a colored strip."""
    ahead = rays.direction / (rays.direction @ camera.forward)[..., None]
    planes = jnp.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
    offsets = jnp.array([0.0, WALL])
    inverse = planes / (offsets - planes @ camera.origin)[:, None]
    apart = inverse[0] - inverse[1]
    pixel = 2 * camera.half / DRAWN
    slope = jnp.sqrt((apart @ camera.right) ** 2 + (apart @ camera.up) ** 2) * pixel
    table = jax.nn.sigmoid(SHARPNESS * (ahead @ apart) / slope)
    depth = 1 / (ahead @ inverse[1])
    height = camera.origin[1] + depth * ahead[..., 1]
    width = pixel * depth
    strip = jax.nn.sigmoid(SHARPNESS * (STRIP - height) / width)
    gray = table * (0.12 + 0.16 * lit) + (1 - table) * (1 - strip) * 0.09
    color = (1 - table) * strip * 0.9
    return jnp.stack([jnp.zeros_like(gray), color, gray], -1)


def _compose(
    robot: Robot, cover: Float[Array, "height width"], shade: Float[Array, "height width"]
) -> Float[Array, "height width 3"]:
    """The object over the robot over what is behind."""
    zero = jnp.zeros_like(cover)
    body = robot.cover[..., None] * jnp.stack([zero, zero, robot.light], -1)
    rest = body + (1 - robot.cover)[..., None] * robot.behind
    top = jnp.stack([shade, zero, zero], -1)
    return cover[..., None] * top + (1 - cover)[..., None] * rest


def _frame(along: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Rows: the axes of the object in the world; its second, its height, is the arm's direction."""
    side = jnp.cross(along, jnp.array([0.0, 1.0, 0.0]))
    side = side / solid.length(side)
    return jnp.stack([side, along, jnp.cross(side, along)])


def _corner(camera: Camera, center: Float[Array, "3"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The first row and column of the window around the object."""
    offset = jax.lax.stop_gradient(center - camera.origin)
    scale = DRAWN / 2 / jax.lax.stop_gradient(camera.half * jnp.dot(offset, camera.forward))
    x, y = jnp.dot(offset, camera.right) * scale, -jnp.dot(offset, camera.up) * scale
    first = [jnp.round(jax.lax.stop_gradient(part)) + (DRAWN - WINDOW) // 2 for part in (y, x)]
    row, column = (jnp.clip(part, 0, DRAWN - WINDOW).astype(jnp.int32) for part in first)
    return row, column


def _cut(
    picture: Float[Array, "height width *rest"], corner: tuple[Int[Array, ""], Int[Array, ""]]
) -> Float[Array, "window window *rest"]:
    """The window of a picture."""
    rest = picture.shape[2:]
    start = (*corner, *(jnp.int32(0) for _ in rest))
    return jax.lax.dynamic_slice(picture, start, (WINDOW, WINDOW, *rest))
