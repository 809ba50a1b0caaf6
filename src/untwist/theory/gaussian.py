"""Gaussians in closed form: averaged log-densities, divergences, and the linear Gaussian posterior.

Everything is float64 numpy; a covariance is a matrix, a precision is never stored.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Matrix = Float[ndarray, "pixel pixel"]


def log_determinant(matrix: Float[ndarray, "axis axis"]) -> float:
    """Returns log det of a positive definite matrix.

    >>> log_determinant(np.eye(3))
    0.0
    """
    return float(np.linalg.slogdet(matrix)[1])


def average_log_density(covariance: Matrix, model: Matrix) -> float:
    """Returns E log N(x; 0, model) over data x of the given covariance and mean zero.

    `-(N/2) log 2 pi - log det(model)/2 - tr(model^-1 covariance)/2`

    Args:
        covariance: Second moment of the data.
        model: Covariance of the Gaussian that explains them.

    >>> round(average_log_density(np.eye(2), np.eye(2)), 6)
    -2.837877
    """
    size = len(covariance)
    return -0.5 * float(
        size * np.log(2 * np.pi)
        + log_determinant(model)
        + np.trace(np.linalg.solve(model, covariance))
    )


def kl_to_prior(
    mean: Float[ndarray, " latent"], covariance: Float[ndarray, "latent latent"]
) -> float:
    """Returns KL(N(mean, covariance) || N(0, I)) in nats.

    Reference: sikka2019, Eq. 39; rolinek2019, Eq. S77.

    >>> kl_to_prior(np.ones(2), np.eye(2))
    1.0
    """
    size = len(mean)
    return 0.5 * float(mean @ mean + np.trace(covariance) - log_determinant(covariance) - size)


def kl_between(
    mean: Float[ndarray, " latent"],
    covariance: Float[ndarray, "latent latent"],
    other_mean: Float[ndarray, " latent"],
    other_covariance: Float[ndarray, "latent latent"],
) -> float:
    """Returns KL(N(mean, covariance) || N(other_mean, other_covariance)) in nats.

    >>> kl_between(np.ones(2), np.eye(2), np.ones(2), np.eye(2))
    0.0
    """
    shift = mean - other_mean
    return 0.5 * float(
        np.trace(np.linalg.solve(other_covariance, covariance))
        + shift @ np.linalg.solve(other_covariance, shift)
        - len(mean)
        + log_determinant(other_covariance)
        - log_determinant(covariance)
    )


def linear_posterior(
    decoder: Float[ndarray, "pixel latent"], variance: float = 1.0
) -> tuple[Float[ndarray, "latent pixel"], Float[ndarray, "latent latent"]]:
    """Returns the gain F and covariance E of p(z|x) = N(F x, E) for x = D z + noise.

    `E = (D'D/s^2 + I)^-1`, `F = E D'/s^2`.

    Args:
        decoder: The matrix D.
        variance: Variance s^2 of the noise on each pixel.

    Reference: sikka2019, Eq. 19 and 24 (Eq. 59 has the wrong shapes, erratum E12);
    allen2024, Eq. 3.

    >>> gain, covariance = linear_posterior(np.array([[1.0]]))
    >>> gain.item(), covariance.item()
    (0.5, 0.5)
    """
    latents = decoder.shape[1]
    covariance = np.linalg.inv(decoder.T @ decoder / variance + np.eye(latents))
    return covariance @ decoder.T / variance, covariance


def joint_posterior(
    decoder: Float[ndarray, "pixel latent"], variance: float = 1.0
) -> tuple[Float[ndarray, "latent pixel"], Float[ndarray, "latent latent"]]:
    """Returns the same gain and covariance by conditioning the joint Gaussian of (z, x).

    The independent way to `linear_posterior`: `F = D' C^-1`, `E = I - D' C^-1 D` with
    `C = D D' + s^2 I`.
    """
    evidence = decoder @ decoder.T + variance * np.eye(len(decoder))
    gain = np.linalg.solve(evidence, decoder).T
    return gain, np.eye(decoder.shape[1]) - gain @ decoder
