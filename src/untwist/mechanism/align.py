"""Axes for any latent space: what the VAE's objective would have chosen, also for a plain AE."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Decode
from untwist.mechanism.geometry import local_geometry
from untwist.mechanism.likelihood import Likelihood
from untwist.mechanism.orthogonality import distance_to_orthogonality, spectrum
from untwist.mechanism.posterior import Encode, posteriors_of
from untwist.types import AnyArray, InputError, RandomKey

RESTARTS = 8
SWEEPS = 100
TURNS = 24
SUPPORT = 1e-6
"""A direction in which the codes vary by less than this share of the most is none."""


@dataclass(frozen=True)
class Alignment:
    """An affine map of the latents, `aligned = to_aligned @ (code - center)`, and its inverse.

    Attributes:
        center: Mean code.
        to_aligned: From centered codes to aligned ones, of unit variance and uncorrelated.
        from_aligned: Back; its product with `to_aligned` is the identity on the codes' span.
        rotation: The orthogonal part of `from_aligned`, after whitening.
        objective: Mean over items of the log product of column norms, in nats, at the end.
        start: The same after whitening alone.
        found: What each restart reached; how many agree says how sure the minimum is.
        distance: Mean distance to orthogonality of the decoder in the aligned latents.
        start_distance: The same in the codes as they came.
        lengths: Root mean square length of each aligned latent's column; the most important latent
            comes first.
    """

    center: Float[ndarray, " latent"]
    to_aligned: Float[ndarray, "axis latent"]
    from_aligned: Float[ndarray, "latent axis"]
    rotation: Float[ndarray, "axis axis"]
    objective: float
    start: float
    found: Float[ndarray, " restart"]
    distance: float
    start_distance: float
    lengths: Float[ndarray, " axis"]

    def align(self, codes: Float[AnyArray, "*item latent"]) -> Float[AnyArray, "*item axis"]:
        """Returns aligned codes."""
        return (codes - self._like(codes, self.center)) @ self._like(codes, self.to_aligned).T

    def restore(self, aligned: Float[AnyArray, "*item axis"]) -> Float[AnyArray, "*item latent"]:
        """Returns the codes that aligned codes stand for."""
        back = aligned @ self._like(aligned, self.from_aligned).T
        return back + self._like(aligned, self.center)

    def decode(self, decode: Decode) -> Decode:
        """Returns the decoder of aligned codes: the same reconstructions."""
        return lambda aligned: decode(jnp.asarray(self.restore(aligned)))

    def encode(
        self, encode: Callable[[AnyArray], tuple[AnyArray, AnyArray | None]]
    ) -> Callable[[AnyArray], tuple[AnyArray, AnyArray | None]]:
        """Returns the encoder to aligned codes; widths become Cholesky factors."""

        def aligned(x: AnyArray) -> tuple[AnyArray, AnyArray | None]:
            mean, sigma = encode(x)
            if sigma is None:
                return self.align(mean), None
            factor = jnp.asarray(sigma)
            factor = factor[:, :, None] * jnp.eye(factor.shape[-1]) if factor.ndim == 2 else factor
            turned = jnp.asarray(self.to_aligned, factor.dtype) @ factor
            covariance = turned @ jnp.swapaxes(turned, 1, 2)
            return self.align(mean), jnp.linalg.cholesky(covariance)

        return aligned

    @staticmethod
    def _like(codes: AnyArray, matrix: ndarray) -> AnyArray:
        """The matrix in the kind and precision of the codes."""
        return jnp.asarray(matrix, codes.dtype) if isinstance(codes, Array) else matrix


def align(
    decode: Decode | AbstractDecoder | AnyArray,
    codes: Encode | tuple[AnyArray, AnyArray | None] | AnyArray,
    x: AnyArray | None = None,
    *,
    key: RandomKey,
    likelihood: str | Likelihood = "squared_error",
    floor: float = 0.0,
    restarts: int = RESTARTS,
    items: int = 2000,
    chunk: int | None = None,
) -> Alignment:
    """Returns the axes that the VAE's objective would have given this latent space.

    First the codes are whitened, with the posterior's widths if there are any: a VAE's active
    latents have unit variance, and without this step the rotation finds the decoder's axes, not
    the data's. Then `mean_i log prod_j ||J_i W q_j||` is minimized over orthogonal Q (rolinek2019,
    Eq. 27), by sweeps of plane rotations, each to its minimum, from the identity and from random
    rotations. Nothing is trained: reconstructions stay what they were. The aligned latents come
    with the most important first; signs make each latent's largest loading positive.

    Args:
        decode: From one code to outputs; or Jacobians at the codes.
        codes: Codes, `(mean, sigma)`, or a function from a batch of examples to them.
        x: The examples, for a function.
        key: Chooses the items and the starts.
        likelihood: Its curvature weighs the outputs; a squared error weighs them equally.
        floor: Squared column norm below which a latent costs nothing: beta, for a VAE's axes.
            Without one, directions that the decoder ignores come first in importance.
        restarts: How many random starts, besides the identity.
        items: At most how many items' Jacobians to use; the whitening uses all.
        chunk: Items at a time.

    Reference: rolinek2019, Eq. 27.

    >>> codes = np.random.default_rng(0).standard_normal((500, 2))
    >>> mix = np.array([[2.0, 1.0], [0.0, 1.0]])
    >>> found = align(lambda z: jnp.asarray(mix) @ z, codes, key=jax.random.key(0))
    >>> round(found.distance, 6)
    0.0
    """
    given = codes if isinstance(codes, tuple) or callable(codes) else (codes, None)
    posteriors = posteriors_of(given, x)
    whiten, unwhiten = _whitening(posteriors.aggregate())
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
    rows = np.arange(len(posteriors.mean))
    if len(rows) > items:
        rows = np.sort(generator.choice(rows, items, replace=False))
    matrices = decode[rows] if isinstance(decode, np.ndarray | Array) else decode
    geometry = local_geometry(matrices, posteriors.mean[rows], likelihood=likelihood, chunk=chunk)
    raw = np.asarray(geometry.gram, np.float64)
    gram = unwhiten.T @ np.asarray(geometry.information, np.float64) @ unwhiten
    level = max(floor, float(np.finfo(np.float32).eps * np.trace(gram, axis1=1, axis2=2).mean()))
    ends = [_descend(gram, turn, level) for turn in _starts(len(whiten), restarts, generator)]
    losses = np.array([_loss(gram, turn, level) for turn in ends])
    rotation = _ordered(gram, ends[int(losses.argmin())], unwhiten)
    back = unwhiten @ rotation
    turned = back.T @ raw @ back
    return Alignment(
        posteriors.mean.astype(np.float64).mean(0),
        rotation.T @ whiten,
        back,
        rotation,
        float(losses.min()),
        _loss(gram, np.eye(len(whiten)), level),
        losses,
        float(distance_to_orthogonality(spectrum(turned).vectors).mean()),
        float(distance_to_orthogonality(spectrum(raw).vectors).mean()),
        np.sqrt(np.diagonal(turned, 0, 1, 2).mean(0)),
    )


def _whitening(covariance: Float[ndarray, "latent latent"]) -> tuple[ndarray, ndarray]:
    """W and its inverse on the span of the codes: W covariance W' = I."""
    values, axes = np.linalg.eigh(covariance)
    kept = values > SUPPORT * max(values[-1], np.finfo(float).tiny)
    if not kept.any():
        raise InputError("all codes are the same, so there is no direction to align")
    roots, axes = np.sqrt(values[kept]), axes[:, kept]
    if kept.all():  # the symmetric root turns nothing that is white already
        return axes @ (axes / roots).T, axes @ (axes * roots).T
    return (axes / roots).T, axes * roots


def _starts(size: int, restarts: int, generator: np.random.Generator) -> list[ndarray]:
    """The identity, and random rotations."""
    draws = [np.linalg.qr(generator.standard_normal((size, size)))[0] for _ in range(restarts)]
    return [np.eye(size), *(draws if size > 1 else [])]


def _loss(gram: ndarray, rotation: ndarray, floor: float) -> float:
    """Mean log product of column norms."""
    norms = np.sum(rotation * (gram @ rotation), axis=1)
    return float(0.5 * np.log(floor + np.maximum(norms, 0)).sum(1).mean())


def _descend(gram: ndarray, start: ndarray, floor: float) -> ndarray:
    """Sweeps over all planes, in each of which the rotation goes to its minimum."""
    rotation, turned, size = start, start.T @ gram @ start, len(start)
    for _ in range(SWEEPS):
        largest = 0.0
        for i in range(size):
            for j in range(i + 1, size):
                angle = _best_turn(turned[:, [i, j]][:, :, [i, j]], floor)
                if abs(angle) > 1e-12:
                    turn = _plane(size, i, j, angle)
                    rotation, turned = rotation @ turn, turn.T @ turned @ turn
                    largest = max(largest, abs(angle))
        if largest < 1e-9:
            break
    return rotation


def _best_turn(pair: Float[ndarray, "item 2 2"], floor: float) -> float:
    """The angle in (-pi/4, pi/4] that minimizes the pair's log product: a grid, then Newton."""
    half = (pair[:, 0, 0] + pair[:, 1, 1]) / 2 + floor
    difference, cross = (pair[:, 0, 0] - pair[:, 1, 1]) / 2, pair[:, 0, 1]
    turns = np.linspace(-np.pi / 4, np.pi / 4, TURNS, endpoint=False)
    # The product of the two norms is half^2 - swing^2, the swing being a wave of the double angle.
    swings = np.outer(np.cos(2 * turns), difference) + np.outer(np.sin(2 * turns), cross)
    costs = np.log(np.maximum(half**2 - swings**2, np.finfo(float).tiny)).mean(1)
    angle, cost = 0.0, float(np.log(np.maximum(half**2 - difference**2, 1e-300)).mean())
    if costs.min() < cost - 1e-13 * max(abs(cost), 1.0):
        angle, cost = float(turns[costs.argmin()]), float(costs.min())
    for _ in range(20):
        swing = np.cos(2 * angle) * difference + np.sin(2 * angle) * cross
        slope = 2 * (np.cos(2 * angle) * cross - np.sin(2 * angle) * difference)
        product = np.maximum(half**2 - swing**2, np.finfo(float).tiny)
        first = np.mean(-2 * swing * slope / product)
        second = np.mean(
            (-2 * slope**2 + 8 * swing**2) / product - (2 * swing * slope / product) ** 2
        )
        if second <= 0 or abs(first) < 1e-15:
            break
        step = np.clip(first / second, -np.pi / TURNS, np.pi / TURNS)
        angle -= step
        if abs(step) < 1e-12:
            break
    return float((angle + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def _plane(size: int, i: int, j: int, angle: float) -> ndarray:
    """The rotation by an angle in the plane of two axes."""
    turn = np.eye(size)
    turn[[i, j], [i, j]] = np.cos(angle)
    turn[i, j], turn[j, i] = -np.sin(angle), np.sin(angle)
    return turn


def _ordered(gram: ndarray, rotation: ndarray, unwhiten: ndarray) -> ndarray:
    """The rotation with the longest columns first, each with its largest loading positive."""
    lengths = np.sum(rotation * (gram @ rotation), axis=1).mean(0)
    rotation = rotation[:, np.argsort(-lengths, kind="stable")]
    loadings = unwhiten @ rotation
    largest = np.take_along_axis(loadings, np.abs(loadings).argmax(0)[None], axis=0)[0]
    return rotation * np.where(largest < 0, -1.0, 1.0)
