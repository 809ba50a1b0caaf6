"""The procedural twin of the Basel face renders: the same grid of factors, drawn by code."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from untwist.datasets.dataset import Dataset
from untwist.datasets.drawn import Report, drawn
from untwist.datasets.faces_scene import face_surface, identity_vector, light_face
from untwist.datasets.sphere_tracing import shrink
from untwist.datasets.twin import (
    check_counts,
    check_distinct,
    check_size,
    grid_values,
    in_batches,
)
from untwist.factors import FactorSpace
from untwist.types import InputError

VERSION = 2
"""Raised whenever a pixel changes."""

NAMES = ("identity", "azimuth", "elevation", "lighting")
KINDS = ("categorical", "ordinal", "ordinal", "ordinal")
AZIMUTHS, ELEVATIONS, LIGHTINGS = (-80.0, 80.0), (-30.0, 30.0), (-75.0, 75.0)
MIRROR = np.array([-1, 1, 1, 1], np.float32)
"""What becomes of a normal, and of the gray beside it, in a mirror."""


def faces_twin(
    *,
    size: int = 64,
    identities: int | None = None,
    azimuths: int | None = None,
    elevations: int | None = None,
    lightings: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Returns gray images of heads: the procedural twin of the Basel face renders (3D Faces).

    The factors, in the order of the renders used with beta-TCVAE, the last fastest: identity (the
    proportions of a head, drawn by a key), azimuth (the head turns, linear from -80 to 80 degrees),
    elevation (the viewer looks up or down on it, linear from -30 to 30) and lighting (the light
    moves around the viewer, linear from -75 to 75). By default 127,050 images of 64×64 pixels: 50
    identities, 21 azimuths, 11 elevations, 11 lightings. Smaller images get 30, 11, 7 and 7 by
    default (from 32 pixels), or 20, 9, 5 and 5.

    No head is that of a person, and no angle is known to be that of the originals, whose files come
    without them. Every two images differ. A set of more than 268 MB is drawn once, into the cache.

    Args:
        size: Height and width in pixels: 64, 32 or 16.
        identities: How many heads.
        azimuths: How many azimuths; one alone is 0.
        elevations: How many elevations; one alone is 0.
        lightings: How many lightings; one alone is 0.
        seed: Seed of the identities. The first heads of a seed are the same for any number.
    """
    check_size("faces_twin", size)
    if not 0 <= seed < 2**32:
        raise InputError(f"faces_twin: expected a seed from 0 to 2^32 - 1, but got {seed}")
    defaults = {64: (50, 21, 11, 11), 32: (30, 11, 7, 7), 16: (20, 9, 5, 5)}[size]
    asked = (identities, azimuths, elevations, lightings)
    sizes = tuple(d if a is None else a for a, d in zip(asked, defaults, strict=True))
    options = ("identities", "azimuths", "elevations", "lightings")
    check_counts("faces_twin", **dict(zip(options, sizes, strict=True)))
    space = FactorSpace(NAMES, sizes, KINDS)
    shape = (size, size, 1)
    grid = "x".join(map(str, sizes))
    data, stored = drawn(
        f"faces_twin-seed{seed}-{grid}",
        (space.grid_size, *shape),
        functools.partial(_fill, sizes=sizes, seed=seed),
        version=VERSION,
    )
    factors = np.asarray(space.factors(np.arange(space.grid_size, dtype=np.int32)))
    source = "procedural twin of the Basel face renders"
    provenance = {"source": source, "twin": True, "version": VERSION, "seed": seed} | stored
    return Dataset("faces_twin", data, factors, space, "bernoulli", provenance, shape)


def identity_vectors(count: int, *, seed: int = 0) -> Float[Array, "identity 13"]:
    """Returns the proportions of the first heads of a seed."""
    key = jax.random.key(seed)
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(count))
    return jax.vmap(lambda key: identity_vector(key=key))(keys)


def face_values(
    factors: Int[np.ndarray, "*batch 4"], space: FactorSpace
) -> Float[np.ndarray, "*batch 3"]:
    """Returns azimuth, elevation and lighting, the `values` of `draw_face`, of factor indices."""
    ends = (AZIMUTHS, ELEVATIONS, LIGHTINGS)
    columns = [
        grid_values(count, *end)[factors[..., i + 1]]
        for i, (count, end) in enumerate(zip(space.grid_sizes[1:], ends, strict=True))
    ]
    return np.stack(columns, -1)


def _fill(
    data: UInt8[np.ndarray, "grid size size 1"],
    report: Report,
    *,
    sizes: tuple[int, ...],
    seed: int,
) -> None:
    """Traces every head in every pose once, and lights it from every side.

    Heads are the same left and right, so one that looks left is the mirror image of one that looks
    right: half of the azimuths are traced.
    """
    identities, azimuths, elevations, lightings = sizes
    size = data.shape[1]
    lights = jnp.asarray(grid_values(lightings, *LIGHTINGS), jnp.float32)
    poses = np.meshgrid(
        np.arange(identities), np.arange(azimuths // 2, azimuths), np.arange(elevations),
        indexing="ij",
    )  # fmt: skip
    who, turn, rise = (numbers.ravel() for numbers in poses)
    azimuth = grid_values(azimuths, *AZIMUTHS).astype(np.float32)[turn]
    elevation = grid_values(elevations, *ELEVATIONS).astype(np.float32)[rise]
    images = data.reshape(*sizes, *data.shape[1:])
    draw = functools.partial(_draw, identity_vectors(identities, seed=seed))
    done = 0
    for batch in in_batches(draw, who, azimuth, elevation):
        rows = slice(done, done + len(batch))
        there, other = azimuths - 1 - turn[rows], batch[:, :, ::-1] * MIRROR
        images[who[rows], there, rise[rows]] = _light(other, lights, size)
        images[who[rows], turn[rows], rise[rows]] = _light(batch, lights, size)
        done += len(batch)
        report(done * len(data) // len(who), len(data))
    options = {
        "identity": None,
        "azimuth": "azimuths",
        "elevation": "elevations",
        "lighting": "lightings",
    }
    check_distinct("faces_twin", images, options)


@jax.jit
def _draw(
    vectors: Float[Array, "identity 13"],
    who: Int[Array, " batch"],
    azimuth: Float[Array, " batch"],
    elevation: Float[Array, " batch"],
) -> Float[Array, "batch 64 64 4"]:
    """Some heads in some poses."""
    return jax.vmap(face_surface)(vectors[who], azimuth, elevation)


@functools.partial(jax.jit, static_argnames="size")
def _light(
    surfaces: Float[Array, "batch 64 64 4"], lights: Float[Array, " light"], size: int
) -> UInt8[Array, "batch light size size 1"]:
    """The bytes of traced heads under every light."""

    def draw(surface: Float[Array, "64 64 4"], light: Float[Array, ""]) -> UInt8[Array, "s s 1"]:
        picture = shrink(light_face(surface, light), size)
        return jnp.floor(255 * picture + 0.5).astype(jnp.uint8)

    return jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None))(surfaces, lights)
