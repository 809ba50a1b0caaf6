"""Probabilistic PCA at maximum likelihood, and the family of rotations it cannot choose from."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.axes import check_covariance, principal_axes
from untwist.theory.gaussian import average_log_density, linear_posterior
from untwist.types import InputError


@dataclass(frozen=True)
class PPCA:
    """The model `x = W z + m + noise` with W = loadings and noise of the given variance."""

    loadings: Float[ndarray, "pixel latent"]
    variance: float

    @property
    def covariance(self) -> Float[ndarray, "pixel pixel"]:
        """The covariance that the model gives to data, W W' + s^2 I."""
        return self.loadings @ self.loadings.T + self.variance * np.eye(len(self.loadings))

    @property
    def posterior(
        self,
    ) -> tuple[Float[ndarray, "latent pixel"], Float[ndarray, "latent latent"]]:
        """Gain and covariance of p(z|x): allen2024 Eq. 3."""
        return linear_posterior(self.loadings, self.variance)

    def rotated(self, rotation: Float[ndarray, "latent latent"]) -> "PPCA":
        """Returns the member of the family with loadings W R: the same density of x."""
        return PPCA(self.loadings @ rotation, self.variance)

    def log_likelihood(self, covariance: Float[ndarray, "pixel pixel"]) -> float:
        """Returns the log-likelihood of data of this covariance, in nats an item."""
        return average_log_density(covariance, self.covariance)

    def slope(self, covariance: Float[ndarray, "pixel pixel"]) -> Float[ndarray, "pixel latent"]:
        """Returns the gradient of the log-likelihood in W: zero at maximum likelihood."""
        inner = np.linalg.solve(self.covariance, self.loadings)
        return np.linalg.solve(self.covariance, covariance @ inner) - inner


def ppca(
    covariance: Float[ndarray, "pixel pixel"], latents: int, *, variance: float | None = None
) -> PPCA:
    """Returns maximum-likelihood PPCA, `W = U (Lambda - s^2 I)^(1/2)`: the member with R = I.

    Args:
        covariance: Covariance of the data.
        latents: Latent size.
        variance: Noise variance; when absent, its own maximum-likelihood value, the mean of the
            eigenvalues left out.

    Reference: allen2024, Sec. 2 with erratum E3.

    >>> model = ppca(np.diag([5.0, 1.0, 1.0]), 1)
    >>> model.variance, model.loadings[:, 0].tolist()
    (1.0, [2.0, 0.0, 0.0])
    """
    check_covariance(covariance)
    values, axes = principal_axes(covariance)
    if not 1 <= latents <= len(values) - (variance is None):
        raise InputError(
            f"PPCA of {len(values)} dimensions with a free noise variance takes 1 to "
            f"{len(values) - 1} latents, but got {latents}"
        )
    noise = float(np.mean(values[latents:])) if variance is None else float(variance)
    if noise <= 0:
        raise InputError(f"the noise variance of PPCA must be positive, but got {noise}")
    gains = np.sqrt(np.maximum(values[:latents] - noise, 0))
    return PPCA(axes[:, :latents] * gains, noise)
