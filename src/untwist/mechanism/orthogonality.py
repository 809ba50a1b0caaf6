"""How far the columns of a decoder's Jacobian are from orthogonal, from its Gram matrix alone."""

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped
from numpy import ndarray

from untwist.mechanism.assignment import MOST, assign, assign_by_sets
from untwist.mechanism.decoder import stream
from untwist.types import AnyArray

Grams = Float[AnyArray, "*batch latent latent"]

RANK = 1e-6
"""An eigenvalue of a Gram matrix below this share of the largest is zero: float32 ends there."""

BATCH = 2**16
"""Matrices at a time."""


@dataclass(frozen=True)
class Spectrum:
    """The right singular structure of Jacobians.

    Attributes:
        values: Singular values, descending.
        vectors: Right singular vectors V as columns; determined up to sign, and only where a value
            differs from the others.
    """

    values: Float[ndarray, "*batch latent"]
    vectors: Float[ndarray, "*batch latent latent"]

    @property
    def rank(self) -> Shaped[ndarray, "*batch"]:
        """How many singular values are not zero."""
        return np.asarray(np.sum(self.values > np.sqrt(RANK) * self.values[..., :1], axis=-1))


def spectrum(gram: Grams) -> Spectrum:
    """Returns singular values and right singular vectors of J out of J'J, in float64.

    An accelerator solves all matrices at a time, a CPU one after another.

    Args:
        gram: J'J, or the weighted D'A^2D.

    >>> spectrum(np.diag([1.0, 4.0])).values.tolist()
    [2.0, 1.0]
    """
    if jax.default_backend() == "cpu":
        values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
        return Spectrum(np.sqrt(np.maximum(values[..., ::-1], 0)), vectors[..., ::-1])
    flat = np.asarray(gram).reshape(-1, *np.shape(gram)[-2:])
    with jax.enable_x64(True):
        values, vectors = stream(_singular, flat, chunk=BATCH)
    return Spectrum(values.reshape(np.shape(gram)[:-1]), vectors.reshape(np.shape(gram)))


@jax.jit
def _singular(gram: Float[Array, "batch latent latent"]) -> tuple[Array, Array]:
    """Singular values and vectors, descending."""
    values, vectors = jnp.linalg.eigh(gram.astype(jnp.float64), symmetrize_input=False)
    return jnp.sqrt(jnp.maximum(values[..., ::-1], 0)), vectors[..., ::-1]


def distance_to_orthogonality(
    vectors: Float[AnyArray, "*batch latent latent"],
) -> Float[ndarray, "*batch"]:
    """Returns how far orthogonal matrices V are from the nearest signed permutations, exactly.

    `||V - P||_F` with P the signed permutation closest in entrywise L1. For orthogonal V that P is
    also closest in the Frobenius norm and maximizes sum |V_i,p(i)|: a linear assignment, for which
    no integer program is needed (erratum E15). Then `||V - P||^2 = 2 d - 2 sum |V_i,p(i)|`.
    Invariant to order and signs of the columns. Range 0 to a maximum that depends on d (1.0824 for
    d = 2).

    Args:
        vectors: Right singular vectors as columns, one orthogonal matrix each.

    Reference: rolinek2019, Eq. 29 and S72-S75.

    >>> turn = np.sqrt(0.5) * np.array([[1.0, 1.0], [-1.0, 1.0]])
    >>> round(float(distance_to_orthogonality(turn)), 4)
    1.0824
    """
    return _nearest(vectors)[0]


def nearest_axes(
    vectors: Float[AnyArray, "*batch latent latent"],
) -> Int[ndarray, "*batch latent"]:
    """Returns which axis each column of V goes with in the nearest signed permutation.

    >>> nearest_axes(np.array([[0.0, 1.0], [-1.0, 0.0]])).tolist()
    [1, 0]
    """
    return _nearest(vectors)[1]


def _nearest(vectors: AnyArray) -> tuple[ndarray, ndarray]:
    """Distances to the nearest signed permutations, and these as the axis of each column."""
    shape = np.shape(vectors)
    flat = np.asarray(vectors, np.float64).reshape(-1, *shape[-2:])
    if jax.default_backend() == "cpu" or not 0 < shape[-1] <= MOST:
        size = np.abs(flat).swapaxes(-1, -2)
        axes = assign(size)
        distances = stream(_distance, size, axes, chunk=BATCH)
    else:  # vectors are sent and distances fetched, and nothing in between
        with jax.enable_x64(True):
            distances, axes = stream(nearest_by_sets, flat, chunk=BATCH)
    return distances.reshape(shape[:-2]), axes.reshape(shape[:-1])


@jax.jit
def nearest_by_sets(
    vectors: Float[Array, "batch latent latent"],
) -> tuple[Float[Array, " batch"], Int[Array, "batch latent"]]:
    """Returns distances and axes by going through all sets of axes, for the whole batch at once."""
    size = jnp.abs(vectors).swapaxes(-1, -2)
    axes = assign_by_sets(size)
    return _distance(size, axes), axes


def _distance(size: Any, axes: Any) -> Any:
    """How far entries are from 1 where they are assigned and from 0 elsewhere."""
    xp = jnp if isinstance(size, Array) else np
    chosen = axes[:, :, None] == xp.arange(size.shape[-1])
    return xp.sqrt(xp.sum(xp.where(chosen, 1 - size, size) ** 2, axis=(-2, -1)))


def cosines(gram: Grams) -> Float[ndarray, "*batch latent latent"]:
    """Returns the cosine of the angle between each pair of columns; a zero column has none: 0.

    >>> cosines(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    gram = np.asarray(gram, np.float64)
    norms = column_norms(gram)
    scale = np.where(_live(norms), norms, np.inf)
    found = gram / (scale[..., :, None] * scale[..., None, :])
    diagonal = np.arange(gram.shape[-1])
    found[..., diagonal, diagonal] = 1.0
    return found


def column_norms(gram: Grams) -> Float[ndarray, "*batch latent"]:
    """Returns ||c_j||, the length of each column of the Jacobian."""
    return np.sqrt(np.maximum(np.diagonal(np.asarray(gram, np.float64), 0, -2, -1), 0))


def polar_distance(gram: Grams) -> Float[ndarray, "*batch"]:
    """Returns how far the normalized columns are from the nearest orthonormal ones.

    With `C` the columns over their norms, `||C - C (C'C)^(-1/2)||_F`, the polar factor being the
    nearest matrix with orthonormal columns: the root of `sum_i (sv_i(C) - 1)^2`. Zero exactly
    where the columns are orthogonal. Unlike the distance to orthogonality it needs no V, so it is
    determined where singular values coincide, too.

    Reference: bhowal2024, Prop. 7 with the exponent -1/2 (erratum E1).

    >>> round(float(polar_distance(np.array([[1.0, 0.5], [0.5, 1.0]]))), 6)
    0.369184
    """
    values = np.linalg.eigvalsh(cosines(gram))
    return np.asarray(np.sqrt(np.sum((np.sqrt(np.maximum(values, 0)) - 1) ** 2, axis=-1)))


def hadamard_gap(gram: Grams) -> Float[ndarray, "*batch"]:
    """Returns the log of the product of column norms over the volume, in nats: the IMA contrast.

    `sum_j log||c_j|| - log det(J'J)/2 = -log det(C'C)/2`, with C the normalized columns. At least
    0, and 0 exactly when orthogonal. Columns that are zero are left out; infinite where others are
    linearly dependent.

    Reference: rolinek2019, Eq. 27-28 and Prop. S6; independent mechanism analysis (Gresele 2021).

    >>> round(float(hadamard_gap(np.array([[1.0, 0.5], [0.5, 1.0]]))), 6)
    0.143841
    """
    found = cosines(gram)
    values = np.linalg.eigvalsh(found)
    dependent = values[..., 0] < RANK
    logs = np.log(np.where(dependent[..., None], 1.0, values))
    return np.where(dependent, np.inf, np.maximum(-0.5 * logs.sum(-1), 0))


def _live(norms: ndarray) -> ndarray:
    """Columns that are not zero beside the longest."""
    return norms > RANK * norms.max(-1, keepdims=True)


@functools.cache
def haar_distance(latents: int, draws: int = 20_000) -> float:
    """Returns the mean distance to orthogonality of a random rotation: what no alignment gives.

    It is the baseline of a decoder without any preferred axes: 0.55, 1.63 and 1.91 for 2, 5 and 6
    latents. The mean is over `draws` fixed draws from Haar's measure.

    >>> round(haar_distance(6), 1), haar_distance(1)
    (1.9, 0.0)
    """
    matrices = np.random.default_rng(0).standard_normal((draws, latents, latents))
    frames, corners = np.linalg.qr(matrices)
    signs = np.sign(np.diagonal(corners, 0, -2, -1))
    return float(distance_to_orthogonality(frames * signs[:, None, :]).mean())


@functools.cache
def published_random_distances() -> dict[str, float]:
    """Returns rolinek2019's distances of untrained decoders, by dataset.

    They lie above those of random rotations and depend on an initialization that is not stated
    (erratum E16).

    >>> published_random_distances()["dSprites"]
    1.86
    """
    text = resources.files("untwist.published").joinpath("rolinek2019.toml").read_text("utf-8")
    tables = {table["id"]: table for table in tomllib.loads(text)["tables"]}
    rows = [row for row in tables["table2"]["rows"] if row["metric"] == "DtO"]
    return {row["dataset"]: row["values"]["random_decoder"]["mean"] for row in rows}
