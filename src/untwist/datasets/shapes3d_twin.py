"""The procedural twin of Shapes3D: the same grid of factors, drawn instead of downloaded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from untwist.datasets.dataset import Dataset
from untwist.datasets.drawn import Report, drawn
from untwist.datasets.shapes3d_scene import SHAPES, shapes3d_light
from untwist.datasets.sphere_tracing import hue_color, shrink
from untwist.datasets.twin import (
    check_counts,
    check_distinct,
    check_size,
    color,
    grid_values,
    in_batches,
)
from untwist.factors import FactorSpace

VERSION = 2
"""Raised whenever a pixel changes."""

NAMES = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
KINDS = ("periodic", "periodic", "periodic", "ordinal", "categorical", "ordinal")
SCALES, ORIENTATIONS = (0.75, 1.25), (-30.0, 30.0)


def shapes3d_twin(
    *,
    size: int = 64,
    hues: int | None = None,
    scales: int | None = None,
    orientations: int | None = None,
) -> Dataset:
    """Returns color images of a solid in a room: the procedural twin of Shapes3D.

    The factors, in Shapes3D's own order and names, the last fastest: floor_hue, wall_hue,
    object_hue (evenly round the color circle, so that the last lies next to the first), scale
    (linear from 0.75 to 1.25), shape (cube, cylinder, sphere, capsule) and orientation (the camera
    goes round the room, linear from -30 to 30 degrees). By default 480,000 images of 64×64 pixels:
    10 hues, 8 scales, 15 orientations. Smaller images get 6, 4 and 7 by default (from 32 pixels),
    or 4, 3 and 5.

    The pixels are not those of Shapes3D: room, solids, camera, light and the ten colors are our
    own. Every two images differ; a grid too fine for its image size is refused. A set of more than
    268 MB is drawn once, into the cache.

    Args:
        size: Height and width in pixels: 64, 32 or 16.
        hues: How many hues of floor, walls and solid; one alone is red.
        scales: How many scales; one alone is scale 1.
        orientations: How many orientations; one alone is 0.
    """
    check_size("shapes3d_twin", size)
    defaults = (10, 8, 15) if size == 64 else (6, 4, 7) if size == 32 else (4, 3, 5)
    hues, scales, orientations = (
        default if given is None else given
        for given, default in zip((hues, scales, orientations), defaults, strict=True)
    )
    check_counts("shapes3d_twin", hues=hues, scales=scales, orientations=orientations)
    sizes = (hues, hues, hues, scales, len(SHAPES), orientations)
    space = FactorSpace(NAMES, sizes, KINDS)
    light = _lights(space, size)
    options = {"scale": "scales", "shape": None, "orientation": "orientations"}
    check_distinct("shapes3d_twin", np.floor(255 * light + 0.5).astype(np.uint8), options)
    shape = (size, size, 3)
    data, stored = drawn(
        "shapes3d_twin",
        (space.grid_size, *shape),
        functools.partial(_fill, light=light.reshape(-1, *shape), hues=hues),
        version=VERSION,
    )
    factors = np.asarray(space.factors(np.arange(space.grid_size, dtype=np.int32)))
    provenance = {"source": "procedural twin of Shapes3D", "twin": True, "version": VERSION}
    return Dataset("shapes3d_twin", data, factors, space, "bernoulli", provenance | stored, shape)


def shapes3d_values(
    factors: Int[np.ndarray, "*batch 6"], space: FactorSpace
) -> Float[np.ndarray, "*batch 5"]:
    """Returns hues, scale and orientation, the `values` of `draw_shapes3d`, of factor indices."""
    sizes = space.grid_sizes
    hues = factors[..., :3] / np.array(sizes[:3])
    scale = grid_values(sizes[3], *SCALES)[factors[..., 3]]
    orientation = grid_values(sizes[5], *ORIENTATIONS)[factors[..., 5]]
    return np.concatenate([hues, scale[..., None], orientation[..., None]], -1)


def _lights(space: FactorSpace, size: int) -> Float[np.ndarray, "scale shape turn size size 3"]:
    """The light in each pixel for every scale, shape and orientation."""
    scales, shapes, orientations = space.grid_sizes[3:]
    values = np.meshgrid(
        grid_values(scales, *SCALES),
        np.arange(shapes),
        grid_values(orientations, *ORIENTATIONS),
        indexing="ij",
    )
    scale, shape, turn = (value.ravel() for value in values)
    lights = [
        np.asarray(_shrink(light, size))
        for light in in_batches(_light, shape, scale.astype(np.float32), turn.astype(np.float32))
    ]
    return np.concatenate(lights).reshape(scales, shapes, orientations, size, size, 3)


@jax.jit
def _light(
    shape: Int[Array, " batch"], scale: Float[Array, " batch"], turn: Float[Array, " batch"]
) -> Float[Array, "batch 64 64 3"]:
    """The light in each pixel of some geometries."""
    return jax.vmap(shapes3d_light)(shape, scale, turn)


@functools.partial(jax.jit, static_argnames="size")
def _shrink(light: Float[Array, "batch 64 64 3"], size: int) -> Float[Array, "batch size size 3"]:
    """The light in each pixel of smaller pictures."""
    return jax.vmap(lambda picture: shrink(picture, size))(light)


def _fill(
    data: UInt8[np.ndarray, "grid size size 3"],
    report: Report,
    *,
    light: Float[np.ndarray, "geometry size size 3"],
    hues: int,
) -> None:
    """Colors all geometries in all combinations of hues."""
    colors = jax.vmap(hue_color)(jnp.arange(hues, dtype=jnp.float32) / hues)
    planes = data.reshape(hues**3, len(light), *light.shape[1:])
    on_device = jnp.asarray(light)
    for number, (floor, wall, solid) in enumerate(np.ndindex(hues, hues, hues)):
        chosen = jnp.stack([colors[floor], colors[wall], colors[solid]])
        planes[number] = color(on_device, chosen[None])[0]
        report(number + 1, len(planes))
