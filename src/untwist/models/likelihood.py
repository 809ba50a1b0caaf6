"""Likelihoods log p(x|z) of one example, in nats, and what they make of beta.

The objective of a beta-VAE is `beta * KL - log p(x|z)`. Constants do not move its optimum, so

- `SquaredError`, the loss |x - y|^2, is the Gaussian of variance 1/2 without its constant: the two
  train alike at the same beta.
- `Gaussian(variance)` at beta trains like squared error at `2 * variance * beta`: a smaller
  variance is a smaller beta (allen2024, Theorem 3). Only the product variance * beta matters.
- Losses that average over the n entries, or halve the square, shrink the reconstruction and so
  raise beta: a mean squared error at beta is squared error at n * beta.
- `Bernoulli` on logits has no variance to trade: beta there tempers the likelihood, and no other
  Bernoulli VAE has the same optimum (allen2024, erratum E14). For gray images it is not
  normalized; it is kept because the field compares with it.

The unit is nats an image, always: sums over pixels and latents, never means.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from untwist.types import InputError, known


class AbstractLikelihood(eqx.Module):
    """The distribution p(x|z) whose parameters the decoder gives, one for each entry of x."""

    @abc.abstractmethod
    def log_prob(self, decoded: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Array:
        """Returns log p(x|z) in nats, summed over the entries."""

    @abc.abstractmethod
    def mean(self, decoded: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns E[x|z]: what a reconstruction looks like."""


class Bernoulli(AbstractLikelihood):
    """Bernoulli on logits: the sum of x log s(y) + (1 - x) log(1 - s(y)).

    >>> round(Bernoulli().log_prob(jnp.zeros(2), jnp.array([0.0, 1.0])).item(), 4)
    -1.3863
    """

    def log_prob(self, decoded: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Array:
        """Returns the sum of x y - log(1 + exp y), stable for large logits."""
        return jnp.sum(x * decoded - jax.nn.softplus(decoded))

    def mean(self, decoded: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns the logistic function of the logits."""
        return jax.nn.sigmoid(decoded)


class Gaussian(AbstractLikelihood):
    """N(decoded, variance), normalized. The variance is set, not learned, and may vary by member.

    >>> round(Gaussian(jnp.array(1.0)).log_prob(jnp.zeros(1), jnp.zeros(1)).item(), 4)
    -0.9189
    """

    variance: Float[Array, "..."]

    def __check_init__(self) -> None:
        if known(self.variance) and not (self.variance > 0).all():
            raise InputError(
                f"a Gaussian likelihood needs a variance above 0, but got {self.variance}"
            )

    def log_prob(self, decoded: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Array:
        """Returns -|x - y|^2 / (2 v) - n/2 log(2 pi v)."""
        variance = jax.lax.stop_gradient(self.variance)
        normalizer = 0.5 * x.size * jnp.log(2 * math.pi * variance)
        return -0.5 * jnp.sum((x - decoded) ** 2) / variance - normalizer

    def mean(self, decoded: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns the decoder's output itself."""
        return decoded


class SquaredError(AbstractLikelihood):
    """-|x - y|^2: the Gaussian of variance 1/2 without its constant.

    >>> SquaredError().log_prob(jnp.zeros(2), jnp.array([1.0, 2.0])).item()
    -5.0
    """

    def log_prob(self, decoded: Float[Array, "*shape"], x: Float[Array, "*shape"]) -> Array:
        """Returns minus the squared distance."""
        return -jnp.sum((x - decoded) ** 2)

    def mean(self, decoded: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns the decoder's output itself."""
        return decoded


LIKELIHOODS: dict[str, type[AbstractLikelihood]] = {
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "squared_error": SquaredError,
}


def squared_error_beta(likelihood: AbstractLikelihood, beta: Float[Array, "..."]) -> Array:
    """Returns the beta at which squared error has the optimum that `likelihood` has at `beta`.

    Reference: allen2024, Theorem 3 (Gaussian with a fixed variance; erratum E14).

    >>> squared_error_beta(Gaussian(jnp.array(0.5)), jnp.array(3.0)).item()
    3.0
    """
    if isinstance(likelihood, Gaussian):
        return 2 * likelihood.variance * beta
    if isinstance(likelihood, SquaredError):
        return beta
    raise InputError(
        f"{type(likelihood).__name__} has no variance to trade against beta: expected a Gaussian "
        "or the squared error"
    )
