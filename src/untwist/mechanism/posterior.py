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
        sigma: Standard deviations [*member, item, latent], or lower Cholesky factors L of the
            covariance L L' [*member, item, latent, latent], or None.
    """

    mean: Float[ndarray, "*member item latent"]
    sigma: (
        Float[ndarray, "*member item latent"] | Float[ndarray, "*member item latent latent"] | None
    )

    @property
    def diagonal(self) -> bool:
        """Whether there is a width for each latent alone."""
        return self.sigma is not None and self.sigma.ndim == self.mean.ndim

    @property
    def covariance(self) -> Float[ndarray, "*member item latent latent"]:
        """The covariances S, zero without a width."""
        latents = self.mean.shape[-1]
        if self.sigma is None:
            return np.zeros((*self.mean.shape, latents))
        factor = np.asarray(self.sigma, np.float64)
        if self.diagonal:
            return factor[..., None] ** 2 * np.eye(latents)
        return factor @ factor.swapaxes(-1, -2)

    @property
    def variance(self) -> Float[ndarray, "*member item latent"]:
        """The variance of each latent by itself."""
        return np.diagonal(self.covariance, 0, -2, -1).copy()

    def of(self, member: int | None) -> "Posteriors":
        """Returns one member's posteriors; of a single model, themselves."""
        if member is None:
            return self
        return Posteriors(self.mean[member], None if self.sigma is None else self.sigma[member])

    def at(self, rows: AnyArray) -> "Posteriors":
        """Returns the posteriors of chosen items."""
        axis = self.mean.ndim - 2
        sigma = None if self.sigma is None else np.take(self.sigma, rows, axis)
        return Posteriors(np.take(self.mean, rows, axis), sigma)

    def aggregate(self) -> Float[ndarray, "*member latent latent"]:
        """Returns the covariance of the aggregate posterior: that of the means plus the mean S.

        A width for each latent alone goes onto the diagonal.
        """
        mean = np.asarray(self.mean, np.float64)
        centered = mean - mean.mean(-2, keepdims=True)
        products = centered.swapaxes(-1, -2) @ centered / mean.shape[-2]
        return products + self.covariance.mean(-3)


def scaled(noise: Float[Array, "draw latent"], sigma: AnyArray) -> Float[Array, "draw latent"]:
    """Returns one item's noise with its posterior's width."""
    return noise * sigma if np.ndim(sigma) == 1 else noise @ sigma.T


def checked_posteriors(mean: AnyArray, sigma: AnyArray | None) -> Posteriors:
    """Returns the posteriors, or says what is wrong with the arrays; all-zero widths are none."""
    codes = checked_codes(mean, "means")
    if sigma is None or not np.any(sigma):
        return Posteriors(codes, None)
    width = np.asarray(sigma, codes.dtype)
    expected = (codes.shape, (*codes.shape, codes.shape[-1]))
    if width.shape not in expected:
        raise InputError(
            f"sigma must have the shape {expected[0]}, one standard deviation a latent, or "
            f"{expected[1]}, one Cholesky factor an item, but got {width.shape}"
        )
    diagonal = width if width.ndim == codes.ndim else np.diagonal(width, 0, -2, -1)
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
        encode: `(mean, sigma)`, or a function from a batch of examples to them; those of a
            population have a leading member axis.
        x: The examples, for a function.
        chunk: Examples at a time.
    """
    if isinstance(encode, tuple):
        if len(encode) != 2:
            raise InputError(f"expected (mean, sigma), but got a tuple of {len(encode)}")
        return checked_posteriors(*encode)
    if x is None or not len(x):
        raise InputError("an encoder needs examples: give x, or (mean, sigma) in its place")
    members = []

    def items_first(batch: AnyArray) -> tuple[AnyArray, AnyArray | None]:
        found = encode(batch)
        if not isinstance(found, tuple) or len(found) != 2:
            raise InputError("encode must return (mean, sigma) of a batch; sigma may be None")
        members.append(np.ndim(found[0]) == 3)
        return jax.tree.map(lambda part: jnp.moveaxis(part, 1, 0), found) if members[0] else found

    mean, sigma = stream(items_first, x, chunk=chunk)
    if members[0]:
        mean, sigma = mean.swapaxes(0, 1), None if sigma is None else sigma.swapaxes(0, 1)
    return checked_posteriors(mean, sigma)


def normal_noise(key: Array, draws: int, latents: int) -> Float[Array, "draw latent"]:
    """Returns standard normal noise whose mean over the draws is zero: each comes with its mirror.

    Odd terms of an expansion in the noise then cancel exactly.
    """
    half = jax.random.normal(key, (-(-draws // 2), latents))
    return jnp.concatenate([half, -half])
