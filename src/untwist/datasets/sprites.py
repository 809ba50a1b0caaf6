"""The procedural twin of dSprites: the same grid of factors, drawn instead of downloaded."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt64

from untwist.datasets.dataset import Dataset
from untwist.datasets.sprite_drawing import SHAPES, SIDE, SPAN, START, sprite_distance
from untwist.factors import FactorSpace
from untwist.types import InputError, Scalar

VERSION = 1
"""Raised whenever a pixel of any set changes."""

SYMMETRY = {"square": 4, "ellipse": 2, "heart": 1}
"""How often a full turn maps a shape onto itself."""


def sprites(
    *,
    size: int = 64,
    scales: int | None = None,
    orientations: int | None = None,
    positions: int | None = None,
    bits: bool = True,
) -> Dataset:
    """Returns binary images of a square, an ellipse and a heart: the procedural twin of dSprites.

    The factors, in dSprites' own order and names, the last fastest: shape (square, ellipse,
    heart), scale (linear from 0.5 to 1), orientation (linear from 0 to 2 pi with both ends, so that
    the last value draws what the first draws, as in dSprites), posX and posY (linear from 0 to 1,
    to the right and down). dSprites' constant first factor, color, is left out, as metrics do.
    By default 737,280 images of 64×64 pixels, each pixel 0 or 1: 6 scales, 40 orientations, 32×32
    positions, of which every two but the first and last orientation differ. Smaller images get 4,
    17 and 16×16 by default (from 32 pixels), or 2, 9 and 8×8.

    What dSprites leaves unsaid and is chosen here: the three shapes have the same area at the same
    scale (529 pixels at scale 1), lie inside the frame everywhere, turn counterclockwise, and at 64
    pixels a step of position is one pixel. One step of any factor changes pixels, except where a
    shape is symmetric; a grid too fine for its image size is refused.

    Args:
        size: Height and width in pixels, a multiple of 8 from 16.
        scales: How many scales; one alone is scale 1.
        orientations: How many orientations, both ends counted; one alone is upright.
        positions: How many positions along each side; one alone is the middle.
        bits: Keep one bit a pixel (377 MB for the full set) instead of one byte (3 GB).
    """
    defaults = (6, 40, 32) if size >= 64 else (4, 17, 16) if size >= 32 else (2, 9, 8)
    scales, orientations, positions = (
        default if given is None else given
        for given, default in zip((scales, orientations, positions), defaults, strict=True)
    )
    _check_request(size, scales, orientations, positions)
    kinds = ("categorical", "ordinal", "periodic", "ordinal", "ordinal")
    sizes = (len(SHAPES), scales, orientations, positions, positions)
    space = FactorSpace(("shape", "scale", "orientation", "posX", "posY"), sizes, kinds)
    packed = _draw_grid(space, size)
    _check_distinct(packed.reshape(*sizes, -1), size)
    shape = (size, size, 1)
    data = packed if bits else np.unpackbits(packed, axis=-1).reshape(-1, *shape)
    factors = np.asarray(space.factors(np.arange(space.grid_size, dtype=np.int32)))
    provenance = {"source": "procedural twin of dSprites", "twin": True, "version": VERSION}
    return Dataset("sprites", data, factors, space, "bernoulli", provenance, shape, 1, bits)


def sprite_values(
    factors: Int[np.ndarray, "*batch 5"], space: FactorSpace
) -> Float[np.ndarray, "*batch 4"]:
    """Returns scale, orientation and positions, the `pose` of `draw_sprite`, of factor indices."""
    ends = ((0.5, 1.0, 1.0), (0.0, 2 * math.pi, 0.0), (0.0, 1.0, 0.5), (0.0, 1.0, 0.5))
    columns = [
        _grid_values(count, *end)[factors[..., i + 1]]
        for i, (count, end) in enumerate(zip(space.grid_sizes[1:], ends, strict=True))
    ]
    return np.stack(columns, -1)


def _grid_values(
    count: int, first: float, last: float, alone: float
) -> Float[np.ndarray, " value"]:
    """The values of a factor: evenly spaced with both ends, or the one that stands alone."""
    return np.linspace(first, last, count) if count > 1 else np.array([alone])


def _draw_grid(space: FactorSpace, size: int) -> UInt8[np.ndarray, "grid byte"]:
    """Packed images of the whole grid.

    Moving a sprite only moves the points at which its distance is asked for, so each one is
    evaluated once on all points that any position asks for (95×95 of them on the full grid).
    """
    _, scales, orientations, positions, _ = space.grid_sizes
    points, columns = _offsets(size, positions)
    angles = jnp.asarray(_grid_values(orientations, 0.0, 2 * math.pi, 0.0), jnp.float32)
    packed = np.empty((*space.grid_sizes, size, size // 8), np.uint8)
    for shape in range(len(SHAPES)):
        for i, scale in enumerate(_grid_values(scales, 0.5, 1.0, 1.0)):
            masks = np.asarray(_inside(shape, jnp.float32(SIDE * scale), angles, points))
            for j, mask in enumerate(masks):
                rows = np.packbits(mask[:, columns], axis=-1)
                packed[shape, i, j] = rows[columns].transpose(2, 0, 1, 3)
    return packed.reshape(space.grid_size, -1)


@functools.partial(jax.jit, static_argnames="shape")
def _inside(
    shape: int, size: Scalar, angles: Float[Array, " angle"], points: Float[Array, " point"]
) -> Bool[Array, "angle point point"]:
    """Whether each point (row below, column right of the center) is inside, for each angle."""
    x, y = jnp.meshgrid(points, points, indexing="xy")
    return jax.vmap(lambda angle: sprite_distance(shape, size, angle, x, y) < 0)(angles)


def _offsets(
    size: int, positions: int
) -> tuple[Float[Array, " point"], Int[np.ndarray, "position pixel"]]:
    """All distinct pixel centers relative to a sprite, and which of them each position sees."""
    places = START + SPAN * _grid_values(positions, 0.0, 1.0, 0.5)
    offsets = (np.arange(size) + 0.5) / size - places[:, None]
    points, index = np.unique(np.round(offsets, 9), return_inverse=True)
    return jnp.asarray(points, jnp.float32), index.reshape(offsets.shape)


def _check_request(size: int, scales: int, orientations: int, positions: int) -> None:
    """Raises where the request cannot give a set of distinct images."""
    if size < 16 or size % 8:
        raise InputError(
            f"sprites: size must be a multiple of 8 from 16 (16, 24, 32, ...), but got {size}"
        )
    if min(scales, orientations, positions) < 1:
        raise InputError(
            "sprites: the grid is empty: expected at least one value of each factor, but got "
            f"scales={scales}, orientations={orientations}, positions={positions}"
        )
    if orientations == 2:
        raise InputError(
            "sprites: 2 orientations are 0 and 2 pi, which draw the same image: "
            "expected 1 or at least 3"
        )
    most = int(SPAN * size) + 1
    if positions > most:
        raise InputError(
            f"sprites: {positions} positions of {size} pixels lie less than a pixel apart: "
            f"expected at most {most}, or a larger `size`"
        )


def _check_distinct(
    images: UInt8[np.ndarray, "shape scale orientation x y byte"], size: int
) -> None:
    """Raises where one step of scale or orientation changes no pixel and no symmetry excuses it."""
    orientations = images.shape[2]
    words = images.view(np.uint64)
    for shape, name in enumerate(SHAPES):
        if _any_equal(words[shape, :-1], words[shape, 1:]):
            _refuse(name, "scale", "scales", size)
        symmetric = SYMMETRY[name] % max(1, orientations - 1) == 0
        if not symmetric and _any_equal(words[shape, :, :-1], words[shape, :, 1:]):
            _refuse(name, "orientation", "orientations", size)


def _any_equal(
    first: UInt64[np.ndarray, "step *rest word"], second: UInt64[np.ndarray, "step *rest word"]
) -> bool:
    """Whether any image equals its neighbor, one scale or orientation at a time."""
    return any((a == b).all(-1).any() for a, b in zip(first, second, strict=True))


def _refuse(shape: str, factor: str, option: str, size: int) -> None:
    raise InputError(
        f"sprites: at {size} pixels neighboring values of {factor} draw the same {shape}: "
        f"expected fewer `{option}`, or a larger `size`"
    )
