"""Posteriors: what an encoder says of the latents of one example.

A posterior family is a part of a model, chosen by name in `POSTERIORS`. Its encoder ends in
`features(latents)` numbers, from which `from_features` makes the distribution. Every family has a
`mean`, a `covariance` and the marginal `variance` of each latent, `sample` (and `at` given noise),
the density `log_prob` and that of each latent's marginal, `kl` to the standard normal prior and
`kl_per_latent`, all for one example and in nats.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from untwist.types import InputError


class AbstractPosterior(eqx.Module):
    """The distribution q(z|x) of the latents of one example."""

    mean: eqx.AbstractVar[Float[Array, " latent"]]

    @staticmethod
    @abc.abstractmethod
    def features(latents: int) -> int:
        """Returns how many numbers the encoder must give for this many latents."""

    @classmethod
    @abc.abstractmethod
    def from_features(cls, features: Float[Array, " feature"], latents: int) -> "AbstractPosterior":
        """Returns the posterior that these encoder outputs stand for."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[Array, " latent"]:
        """The marginal variance of each latent."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Float[Array, "latent latent"]:
        """The covariance of the latents."""

    @abc.abstractmethod
    def at(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns the code that standard normal `noise` stands for, differentiably."""

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, " latent"]:
        """Returns one draw."""
        return self.at(jax.random.normal(key, self.mean.shape, self.mean.dtype))

    @abc.abstractmethod
    def log_prob(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Returns log q(z|x)."""

    @abc.abstractmethod
    def log_prob_per_latent(self, z: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns log q(z_j|x) of each latent's marginal."""

    @abc.abstractmethod
    def kl(self) -> Float[Array, ""]:
        """Returns KL(q(z|x) || N(0, I)) in nats."""

    @abc.abstractmethod
    def kl_per_latent(self) -> Float[Array, " latent"]:
        """Returns KL(q(z_j|x) || N(0, 1)) of each latent's marginal, in nats."""


def normal_log_prob(
    z: Float[Array, " latent"], mean: Float[Array, " latent"], log_variance: Float[Array, " latent"]
) -> Float[Array, " latent"]:
    """Returns log N(z; mean, variance) for each latent: -((z - m)^2 / s^2 + log 2 pi s^2) / 2.

    >>> round(normal_log_prob(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1)).item(), 4)
    -0.9189
    """
    squares = (z - mean) ** 2 * jnp.exp(-log_variance)
    return -0.5 * (squares + log_variance + math.log(2 * math.pi))


def marginal_kl(
    mean: Float[Array, " latent"], variance: Float[Array, " latent"]
) -> Float[Array, " latent"]:
    """Returns KL(N(mean, variance) || N(0, 1)) for each latent: (m^2 + s^2 - log s^2 - 1) / 2.

    >>> marginal_kl(jnp.array([1.0]), jnp.array([1.0])).tolist()
    [0.5]
    """
    return 0.5 * (mean**2 + variance - jnp.log(variance) - 1)


class Deterministic(AbstractPosterior):
    """A point: the plain autoencoder. It is no distribution, so its KL counts as zero."""

    mean: Float[Array, " latent"]

    @staticmethod
    def features(latents: int) -> int:
        """Returns one number a latent."""
        return latents

    @classmethod
    def from_features(cls, features: Float[Array, " feature"], latents: int) -> "Deterministic":
        """Returns the point itself."""
        return cls(features)

    @property
    def variance(self) -> Float[Array, " latent"]:
        """Zero for every latent."""
        return jnp.zeros_like(self.mean)

    @property
    def covariance(self) -> Float[Array, "latent latent"]:
        """Zero."""
        return jnp.zeros((self.mean.size, self.mean.size), self.mean.dtype)

    def at(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns the point, whatever the noise."""
        return self.mean

    def log_prob(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Raises: a point has no density."""
        raise InputError("the deterministic posterior is a point, which has no density")

    def log_prob_per_latent(self, z: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Raises: a point has no density."""
        raise InputError("the deterministic posterior is a point, which has no density")

    def kl(self) -> Float[Array, ""]:
        """Returns zero."""
        return jnp.zeros((), self.mean.dtype)

    def kl_per_latent(self) -> Float[Array, " latent"]:
        """Returns zero for every latent."""
        return jnp.zeros_like(self.mean)


class DiagonalGaussian(AbstractPosterior):
    """N(mean, diag(exp(log_variance))): the posterior of the VAE.

    >>> DiagonalGaussian(jnp.array([1.0, 0.0]), jnp.zeros(2)).kl().item()
    0.5
    """

    mean: Float[Array, " latent"]
    log_variance: Float[Array, " latent"]

    @staticmethod
    def features(latents: int) -> int:
        """Returns a mean and a log variance a latent."""
        return 2 * latents

    @classmethod
    def from_features(cls, features: Float[Array, " feature"], latents: int) -> "DiagonalGaussian":
        """Returns the Gaussian of the first half as means, the second as log variances."""
        return cls(features[:latents], features[latents:])

    @property
    def variance(self) -> Float[Array, " latent"]:
        """The diagonal of the covariance."""
        return jnp.exp(self.log_variance)

    @property
    def covariance(self) -> Float[Array, "latent latent"]:
        """The diagonal matrix of the variances."""
        return jnp.diag(self.variance)

    def at(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns mean + standard deviation * noise."""
        return self.mean + jnp.exp(0.5 * self.log_variance) * noise

    def log_prob(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Returns the sum over the latents."""
        return jnp.sum(self.log_prob_per_latent(z))

    def log_prob_per_latent(self, z: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns log N(z_j; mean_j, variance_j)."""
        return normal_log_prob(z, self.mean, self.log_variance)

    def kl(self) -> Float[Array, ""]:
        """Returns the sum over the latents."""
        return jnp.sum(self.kl_per_latent())

    def kl_per_latent(self) -> Float[Array, " latent"]:
        """Returns (m^2 + s^2 - log s^2 - 1) / 2 without taking a logarithm."""
        return 0.5 * (self.mean**2 + self.variance - self.log_variance - 1)


class FullGaussian(AbstractPosterior):
    """N(mean, L L') with L lower triangular, its diagonal the exponential of the features.

    Reference: rolinek2019, Section 8.3, Eq. S76-S78.

    >>> FullGaussian(jnp.array([1.0, 0.0]), jnp.eye(2)).kl().item()
    0.5
    """

    mean: Float[Array, " latent"]
    cholesky: Float[Array, "latent latent"]

    @staticmethod
    def features(latents: int) -> int:
        """Returns a mean a latent and the lower triangle of L."""
        return latents + latents * (latents + 1) // 2

    @classmethod
    def from_features(cls, features: Float[Array, " feature"], latents: int) -> "FullGaussian":
        """Returns the Gaussian: means, then log L_jj, then the entries below the diagonal."""
        mean, log_diagonal, below = jnp.split(features, [latents, 2 * latents])
        cholesky = jnp.diag(jnp.exp(log_diagonal))
        return cls(mean, cholesky.at[jnp.tril_indices(latents, -1)].set(below))

    @property
    def variance(self) -> Float[Array, " latent"]:
        """The diagonal of L L'."""
        return jnp.sum(self.cholesky**2, axis=1)

    @property
    def covariance(self) -> Float[Array, "latent latent"]:
        """L L'."""
        return self.cholesky @ self.cholesky.T

    def at(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns mean + L noise."""
        return self.mean + self.cholesky @ noise

    def log_prob(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Returns the density of the noise L^-1 (z - mean), less log det L."""
        noise = jax.scipy.linalg.solve_triangular(self.cholesky, z - self.mean, lower=True)
        log_determinant = jnp.sum(jnp.log(jnp.diagonal(self.cholesky)))
        standard = normal_log_prob(noise, jnp.zeros_like(noise), jnp.zeros_like(noise))
        return jnp.sum(standard) - log_determinant

    def log_prob_per_latent(self, z: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """Returns log N(z_j; mean_j, variance_j) of each marginal."""
        return normal_log_prob(z, self.mean, jnp.log(self.variance))

    def kl(self) -> Float[Array, ""]:
        """Returns (|mean|^2 + tr S - log det S - k) / 2 with S = L L' (Eq. S77)."""
        log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(self.cholesky)))
        trace = jnp.sum(self.cholesky**2)
        return 0.5 * (jnp.sum(self.mean**2) + trace - log_determinant - self.mean.size)

    def kl_per_latent(self) -> Float[Array, " latent"]:
        """Returns the KL of each marginal; their sum is below `kl` by q's total correlation."""
        return marginal_kl(self.mean, self.variance)


POSTERIORS: dict[str, type[AbstractPosterior]] = {
    "deterministic": Deterministic,
    "diagonal": DiagonalGaussian,
    "full": FullGaussian,
}
