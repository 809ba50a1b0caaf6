"""The linear beta-VAE, solved: decoder, encoder and variances for any data covariance and beta.

The model is `q(z|x) = N(W (x - m), diag e)`, `p(x|z) = N(D z + m, s^2 I)`, `p(z) = N(0, I)`. Its
objective depends on beta and s^2 only through `t = beta s^2` up to scale, so its optimum is the
maximum-likelihood PPCA of noise t, with the one rotation that keeps the posterior diagonal
(allen2024, Eq. 4 and Theorem 3). With covariance `U diag(lambda) U'`, per latent:

    active when lambda > t;   D = u sqrt(lambda - t);   W = D'/lambda;   e = t/lambda
    collapsed otherwise:      D = 0;                    W = 0;          e = 1
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from untwist.theory.axes import check_covariance, principal_axes
from untwist.types import InputError


@dataclass(frozen=True)
class LinearVAE:
    """The optimum at each beta, latents ordered by eigenvalue; leading axes are those of beta.

    `eigenvalues` are the variances of the data along the columns of `axes`, one a latent;
    `left_over` is the variance that no latent sees. `beta` and `variance` are as given.
    """

    beta: Float[ndarray, "*beta"]
    variance: float
    eigenvalues: Float[ndarray, " latent"]
    axes: Float[ndarray, "pixel latent"]
    left_over: float

    @property
    def threshold(self) -> Float[ndarray, "*beta"]:
        """Threshold beta s^2: a direction with less variance than this collapses."""
        return np.asarray(self.beta * self.variance)

    @property
    def active(self) -> Bool[ndarray, "*beta latent"]:
        """Whether each latent carries anything."""
        return self.eigenvalues > self.threshold[..., None]

    @property
    def critical_beta(self) -> Float[ndarray, " latent"]:
        """The beta at which each latent collapses, lambda / s^2."""
        return self.eigenvalues / self.variance

    @property
    def gains(self) -> Float[ndarray, "*beta latent"]:
        """Norm of each decoder column, sqrt(max(lambda - beta s^2, 0))."""
        return np.sqrt(np.maximum(self.eigenvalues - self.threshold[..., None], 0))

    @property
    def decoder(self) -> Float[ndarray, "*beta pixel latent"]:
        """D: orthogonal columns along the principal axes."""
        return self.axes * self.gains[..., None, :]

    @property
    def encoder(self) -> Float[ndarray, "*beta latent pixel"]:
        """W: the mean of the code is W (x - m)."""
        scale = np.where(self.active, self.gains / np.maximum(self.eigenvalues, 1e-300), 0)
        return scale[..., None] * self.axes.T

    @property
    def variances(self) -> Float[ndarray, "*beta latent"]:
        """e: posterior variances, the same for every x (sikka2019, erratum E14)."""
        safe = np.where(self.active, self.eigenvalues, 1)
        return np.where(self.active, self.threshold[..., None] / safe, 1)


def linear_beta_vae(
    covariance: Float[ndarray, "pixel pixel"],
    latents: int,
    beta: float | Sequence[float] | ndarray = 1.0,
    *,
    variance: float = 1.0,
) -> LinearVAE:
    """Returns the global optimum of the linear beta-VAE on data of this covariance.

    Args:
        covariance: Covariance of the data (symmetric, positive semidefinite).
        latents: Latent size; latents beyond the data's dimension collapse.
        beta: Weight of the KL term, a number or an array: the optimum is vectorised over it.
        variance: Variance s^2 of the Gaussian likelihood, on each pixel.

    Reference: allen2024, Sec. 2 and Theorem 3; zietlow2021, Theorem 1 with errata E4 and E5.

    >>> vae = linear_beta_vae(np.diag([4.0, 2.0]), 2, [1.0, 3.0])
    >>> vae.variances.tolist()
    [[0.25, 0.5], [0.75, 1.0]]
    >>> vae.decoder[1].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    weights = np.asarray(beta, dtype=float)
    if not (np.all(np.isfinite(weights)) and np.all(weights > 0)):
        raise InputError(f"beta must be positive numbers, but got {beta}: the limit 0 has no noise")
    if not (np.isfinite(variance) and variance > 0):
        raise InputError(f"the likelihood variance must be positive, but got {variance}")
    if latents < 1:
        raise InputError(f"a linear VAE needs at least one latent, but got {latents}")
    check_covariance(covariance)
    eigenvalues, axes = principal_axes(covariance)
    beyond = max(latents - len(eigenvalues), 0)
    return LinearVAE(
        beta=weights,
        variance=float(variance),
        eigenvalues=np.pad(eigenvalues, (0, beyond))[:latents],
        axes=np.pad(axes, ((0, 0), (0, beyond)))[:, :latents],
        left_over=float(np.sum(eigenvalues[latents:])),
    )


def optimal_encoder(
    decoder: Float[ndarray, "pixel latent"], beta: float, *, variance: float = 1.0
) -> tuple[Float[ndarray, "latent pixel"], Float[ndarray, " latent"]]:
    """Returns the encoder and variances that are best for a frozen decoder.

    `W = (D'D + t I)^-1 D'`, `e_a = t / ([D'D]_aa + t)`, `t = beta s^2`: sikka2019 Eq. 23.

    >>> encoder, variances = optimal_encoder(np.array([[1.0]]), 3.0)
    >>> encoder.item(), variances.item()
    (0.25, 0.75)
    """
    threshold = beta * variance
    gram = decoder.T @ decoder
    encoder = np.linalg.solve(gram + threshold * np.eye(len(gram)), decoder.T)
    return encoder, threshold / (np.diag(gram) + threshold)
