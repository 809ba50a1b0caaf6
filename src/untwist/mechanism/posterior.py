"""Posteriors as arrays: means, and standard deviations or Cholesky factors, from anywhere."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import checked_codes, stream
from untwist.types import AnyArray, InputError

Encode = Callable[[AnyArray], tuple[AnyArray, AnyArray | None]]


@dataclass(frozen=True)
class Posteriors:
    """Gaussian posteriors of items; a plain autoencoder's have no width.

    Attributes:
        mean: Posterior means, the codes.
        sigma: Standard deviations [item, latent], or lower Cholesky factors L of the covariance
            L L' [item, latent, latent], or None.
    """

    mean: Float[ndarray, "item latent"]
    sigma: Float[ndarray, "item latent"] | Float[ndarray, "item latent latent"] | None

    @property
    def diagonal(self) -> bool:
        """Whether there is a width for each latent alone."""
        return self.sigma is not None and self.sigma.ndim == 2

    @property
    def covariance(self) -> Float[ndarray, "item latent latent"]:
        """The covariances S, zero without a width."""
        items, latents = self.mean.shape
        if self.sigma is None:
            return np.zeros((items, latents, latents))
        factor = np.asarray(self.sigma, np.float64)
        if self.diagonal:
            return factor[:, :, None] ** 2 * np.eye(latents)
        return factor @ factor.transpose(0, 2, 1)

    @property
    def variance(self) -> Float[ndarray, "item latent"]:
        """The variance of each latent by itself."""
        return np.diagonal(self.covariance, 0, 1, 2).copy()

    def aggregate(self) -> Float[ndarray, "latent latent"]:
        """Returns the covariance of the aggregate posterior: that of the means plus the mean S.

        A width for each latent alone goes onto the diagonal.
        """
        mean = np.asarray(self.mean, np.float64)
        centered = mean - mean.mean(0)
        return centered.T @ centered / len(mean) + self.covariance.mean(0)


def scaled(noise: Array, sigma: AnyArray | None) -> Array:
    """Returns noise [item, draw, latent] with the posteriors' widths."""
    if sigma is None:
        return jnp.zeros_like(noise)
    if np.ndim(sigma) == 2:
        return noise * sigma[:, None]
    return jnp.einsum("ijk,ilk->ilj", sigma, noise)


def checked_posteriors(mean: AnyArray, sigma: AnyArray | None) -> Posteriors:
    """Returns the posteriors, or says what is wrong with the arrays; all-zero widths are none."""
    codes = checked_codes(mean, "means")
    if sigma is None or not np.any(sigma):
        return Posteriors(codes, None)
    width = np.asarray(sigma, codes.dtype)
    expected = (codes.shape, (*codes.shape, codes.shape[1]))
    if width.shape not in expected:
        raise InputError(
            f"sigma must have the shape {expected[0]}, one standard deviation a latent, or "
            f"{expected[1]}, one Cholesky factor an item, but got {width.shape}"
        )
    diagonal = width if width.ndim == 2 else np.diagonal(width, 0, 1, 2)
    if not np.isfinite(width).all() or not (diagonal > 0).all():
        raise InputError(
            "sigma must be standard deviations (not variances or log-variances): finite and above "
            f"0, but they reach from {np.min(diagonal)} to {np.max(diagonal)}"
        )
    return Posteriors(codes, width)


def posteriors_of(
    encode: Encode | tuple[AnyArray, AnyArray | None], x: AnyArray | None, *, chunk: int = 1024
) -> Posteriors:
    """Returns the posteriors of items: as given, or encoded chunk by chunk.

    Args:
        encode: `(mean, sigma)`, or a function from a batch of examples to them.
        x: The examples, for a function.
        chunk: Examples at a time.
    """
    if isinstance(encode, tuple):
        if len(encode) != 2:
            raise InputError(f"expected (mean, sigma), but got a tuple of {len(encode)}")
        return checked_posteriors(*encode)
    if x is None:
        raise InputError("an encoder needs examples: give x, or (mean, sigma) in its place")
    found = stream(encode, x, chunk=chunk)
    if not isinstance(found, tuple) or len(found) != 2:
        raise InputError("encode must return (mean, sigma) of a batch; sigma may be None")
    return checked_posteriors(*found)


def normal_noise(key: Array, items: int, draws: int, latents: int) -> Float[Array, "item draw _"]:
    """Returns standard normal noise whose mean over the draws is zero: each comes with its mirror.

    Odd terms of an expansion in the noise then cancel exactly.
    """
    half = jax.random.normal(key, (items, -(-draws // 2), latents))
    return jnp.concatenate([half, -half], axis=1)
