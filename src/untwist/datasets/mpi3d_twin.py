"""The procedural twins of MPI3D: the same grids of factors, drawn instead of downloaded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from untwist.datasets.dataset import Dataset
from untwist.datasets.drawn import Report, drawn
from untwist.datasets.mpi3d_objects import COMPLEX, TOY
from untwist.datasets.mpi3d_scene import (
    BACKGROUNDS,
    COMPLEX_COLORS,
    ELEVATIONS,
    GRAY,
    OBJECT_COLORS,
    RADII,
    Robot,
    add_object,
    mpi3d_robot,
    object_distance,
)
from untwist.datasets.sphere_tracing import shrink
from untwist.datasets.twin import (
    check_counts,
    check_distinct,
    check_size,
    color,
    grid_values,
    in_batches,
)
from untwist.factors import FactorSpace, Kind

VERSION = 2
"""Raised whenever a pixel changes."""

NAMES = (
    "object_color",
    "object_shape",
    "object_size",
    "camera_height",
    "background_color",
    "horizontal_axis",
    "vertical_axis",
)
KINDS: tuple[Kind, ...] = (
    "categorical",
    "categorical",
    "ordinal",
    "ordinal",
    "categorical",
    "ordinal",
    "ordinal",
)
HORIZONTAL, VERTICAL = (-90.0, 90.0), (-15.0, 75.0)


def mpi3d_twin(*, size: int = 64, axes: int | None = None) -> Dataset:
    """Returns color images of a robot arm that holds an object: the procedural twin of MPI3D.

    The factors, in MPI3D's own order and names, the last fastest: object_color (white, green, red,
    blue, brown, olive), object_shape (cone, cube, cylinder, hexagonal, pyramid, sphere),
    object_size (small, large), camera_height (top, center, bottom), background_color (purple, sea
    green, salmon), horizontal_axis (the arm turns, linear from -90 to 90 degrees around the
    viewer's side) and vertical_axis (it rises, linear from -15 to 75 degrees). By default 1,036,800
    images of 64×64 pixels: 40 values of each axis. Smaller images get 10 by default (from 32
    pixels), or 5.

    The pixels are not those of any of the three MPI3D sets: robot, scene, colors and angles are
    our own. Every two images differ. A set of more than 268 MB is drawn once, into the cache: the
    full one takes 12.7 GB there.

    Args:
        size: Height and width in pixels: 64, 32 or 16.
        axes: How many values of each of the two axes; one alone is the middle.
    """
    return _twin("mpi3d_twin", "MPI3D", size, axes, complicated=False)


def mpi3d_complex_twin(*, size: int = 64, axes: int | None = None) -> Dataset:
    """Returns color images of a robot arm with everyday objects: the twin of MPI3D real complex.

    The factors and their order are those of `mpi3d_twin`, but for object_color (yellow, green,
    olive, red) and object_shape (coffee-cup, tennis-ball, croissant, beer-cup). By default 460,800
    images of 64×64 pixels: 40 values of each axis. Smaller images get 10 by default (from 32
    pixels), or 5.

    The pixels are not those of MPI3D real complex: all of it is our own. Every two images differ. A
    set of more than 268 MB is drawn once, into the cache: the full one takes 5.7 GB there.

    Args:
        size: Height and width in pixels: 64, 32 or 16.
        axes: How many values of each of the two axes; one alone is the middle.
    """
    return _twin("mpi3d_complex_twin", "MPI3D real complex", size, axes, complicated=True)


def mpi3d_values(
    factors: Int[np.ndarray, "*batch 7"], space: FactorSpace
) -> Float[np.ndarray, "*batch 10"]:
    """Returns colors, radius and angles, the `values` of `draw_mpi3d`, of factor indices."""
    complicated = space.grid_sizes[0] == len(COMPLEX_COLORS)
    tables = [
        np.array(list((COMPLEX_COLORS if complicated else OBJECT_COLORS).values())),
        np.array(list(BACKGROUNDS.values())),
        np.array(RADII)[:, None],
        np.array(ELEVATIONS)[:, None],
        grid_values(space.grid_sizes[5], *HORIZONTAL)[:, None],
        grid_values(space.grid_sizes[6], *VERTICAL)[:, None],
    ]
    columns = (0, 4, 2, 3, 5, 6)
    parts = [table[factors[..., i]] for table, i in zip(tables, columns, strict=True)]
    return np.concatenate(parts, -1)


def _twin(name: str, original: str, size: int, axes: int | None, *, complicated: bool) -> Dataset:
    """One of the two twins."""
    check_size(name, size)
    axes = (40 if size == 64 else 10 if size == 32 else 5) if axes is None else axes
    check_counts(name, axes=axes)
    colors, kinds = (COMPLEX_COLORS, COMPLEX) if complicated else (OBJECT_COLORS, TOY)
    sizes = (len(colors), len(kinds), len(RADII), len(ELEVATIONS), len(BACKGROUNDS), axes, axes)
    space = FactorSpace(NAMES, sizes, KINDS)
    shape = (size, size, 3)
    fill = functools.partial(_fill, name=name, sizes=sizes, complicated=complicated)
    data, stored = drawn(name, (space.grid_size, *shape), fill, version=VERSION)
    factors = np.asarray(space.factors(np.arange(space.grid_size, dtype=np.int32)))
    provenance = {"source": f"procedural twin of {original}", "twin": True, "version": VERSION}
    return Dataset(name, data, factors, space, "bernoulli", provenance | stored, shape)


def _fill(
    data: UInt8[np.ndarray, "grid size size 3"],
    report: Report,
    *,
    name: str,
    sizes: tuple[int, ...],
    complicated: bool,
) -> None:
    """Draws all geometries of one camera height after the other, in all colors."""
    colors, kinds, radii, cameras, backgrounds, axes, _ = sizes
    size = data.shape[1]
    grid = data.reshape(colors, kinds, radii, cameras, backgrounds, axes**2, *data.shape[1:])
    table = _colors(complicated)
    kind, radius, pose = (
        index.ravel() for index in np.indices((kinds, radii, axes**2), dtype=np.int32)
    )
    done = 0
    for camera in range(cameras):
        robots, angles = _robots(ELEVATIONS[camera], axes)
        add = functools.partial(_add, robots, angles, ELEVATIONS[camera], complicated, size)
        start = 0
        for light in in_batches(add, kind, radius, pose):
            piece = slice(start, start + len(light))
            images = np.asarray(color(light, table)).reshape(colors, backgrounds, *light.shape)
            rows = kind[piece], radius[piece], camera
            for i, j in np.ndindex(colors, backgrounds):
                grid[(i, *rows, j, pose[piece])] = images[i, j]
            start, done = piece.stop, done + len(light)
            report(done * colors * backgrounds, len(data))
    for plane in np.ndindex(kinds, radii, cameras):
        images = grid[(0, *plane, 0)].reshape(axes, axes, *data.shape[1:])
        check_distinct(name, images, {"horizontal_axis": "axes", "vertical_axis": "axes"})


def _colors(complicated: bool) -> Float[np.ndarray, "combination 3 channel"]:
    """The colors of object, strip and gray in all combinations."""
    objects = (COMPLEX_COLORS if complicated else OBJECT_COLORS).values()
    rows = [[one, behind, GRAY] for one in objects for behind in BACKGROUNDS.values()]
    return np.array(rows, np.float32)


def _robots(elevation: float, axes: int) -> tuple[Robot, Float[Array, "pose 2"]]:
    """The robot in all poses under one camera, and the angles of each."""
    angles = np.meshgrid(
        grid_values(axes, *HORIZONTAL), grid_values(axes, *VERTICAL), indexing="ij"
    )
    horizontal, vertical = (angle.ravel().astype(np.float32) for angle in angles)
    draw = functools.partial(_robot, jnp.float32(elevation))
    parts = list(in_batches(draw, horizontal, vertical))
    robots = jax.tree.map(lambda *some: jnp.concatenate(some), *parts)
    return robots, jnp.stack([jnp.asarray(horizontal), jnp.asarray(vertical)], -1)


@jax.jit
def _robot(
    elevation: Float[Array, ""],
    horizontal: Float[Array, " batch"],
    vertical: Float[Array, " batch"],
) -> Robot:
    """The robot in some poses."""
    return jax.vmap(mpi3d_robot, in_axes=(None, 0, 0))(elevation, horizontal, vertical)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _add(
    robots: Robot,
    angles: Float[Array, "pose 2"],
    elevation: float | Float[Array, ""],
    complicated: bool,
    size: int,
    kind: Int[Array, " batch"],
    radius: Int[Array, " batch"],
    pose: Int[Array, " batch"],
) -> Float[Array, "batch size size 3"]:
    """The light in each pixel of some geometries."""

    def draw(
        robot: Robot, angle: Float[Array, "2"], kind: Int[Array, ""], radius: Float[Array, ""]
    ) -> Float[Array, "size size 3"]:
        distance = object_distance(kind, complicated)
        pose = (jnp.float32(elevation), *angle)
        light = add_object(robot, distance, radius, *pose, convex=not complicated)
        return shrink(light, size)

    chosen = jax.tree.map(lambda part: part[pose], robots)
    return jax.vmap(draw)(chosen, angles[pose], kind, jnp.array(RADII)[radius])
