"""The symmetry that a VAE cannot see, what breaks it, and by how much.

Rotating the latent space of encoder and decoder leaves the log-likelihood alone, and the ELBO too
if the posterior may rotate with the code. A diagonal posterior may not, and pays.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import linear_sum_assignment

from untwist.theory.gaussian import log_determinant


def gaussian_elbo(
    decoder: Float[ndarray, "pixel latent"],
    encoder: Float[ndarray, "latent pixel"],
    posterior: Float[ndarray, "latent latent"],
    covariance: Float[ndarray, "pixel pixel"],
    *,
    beta: float = 1.0,
    variance: float = 1.0,
) -> float:
    """Returns the averaged objective of a linear VAE with any posterior covariance, in nats.

    Args:
        decoder: The matrix D.
        encoder: The matrix W: the posterior mean is W x.
        posterior: Covariance of the posterior, full or diagonal.
        covariance: Covariance of the data, of mean zero.
        beta: Weight of the KL term; at 1 this is the ELBO.
        variance: Likelihood variance s^2.

    >>> half = np.array([[0.5]])
    >>> round(gaussian_elbo(np.eye(1), half, half, 2 * np.eye(1)), 6)
    -1.765512
    """
    pixels, latents = decoder.shape
    miss = decoder @ encoder - np.eye(pixels)
    residual = np.trace(miss @ covariance @ miss.T) + np.trace(decoder @ posterior @ decoder.T)
    likelihood = -0.5 * (pixels * np.log(2 * np.pi * variance) + residual / variance)
    code = np.trace(encoder @ covariance @ encoder.T) + np.trace(posterior)
    return float(likelihood - 0.5 * beta * (code - log_determinant(posterior) - latents))


def rotation_cost(
    decoder: Float[ndarray, "pixel latent"],
    rotation: Float[ndarray, "latent latent"],
    *,
    beta: float = 1.0,
    variance: float = 1.0,
) -> float:
    """Returns what the best diagonal posterior loses, in nats, to the best full one.

    `(beta/2) (sum_i log P_ii - log det P)`, `P = I + U D'D U'/(beta s^2)` the posterior precision
    after the latent space is rotated by U: Hadamard's inequality, zero iff P is diagonal.

    Args:
        decoder: The matrix D.
        rotation: The rotation U; the decoder becomes D U'.
        beta: Weight of the KL term.
        variance: Likelihood variance s^2.

    Reference: rolinek2019, Prop. 3 (for the ELBO of Eq. 2, erratum E7).

    >>> rotation_cost(np.diag([2.0, 1.0]), np.eye(2))
    0.0
    >>> quarter = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    >>> round(rotation_cost(np.diag([2.0, 1.0]), quarter), 6)
    0.10147
    """
    turned = decoder @ rotation.T
    precision = np.eye(turned.shape[1]) + turned.T @ turned / (beta * variance)
    volume = float(np.sum(np.log(np.diag(precision))))
    return 0.5 * beta * (volume - log_determinant(precision))


def distance_to_signed_permutation(turn: Float[ndarray, "latent latent"]) -> float:
    """Returns the least sum |V - P| over signed permutations P, by linear assignment.

    Reference: rolinek2019, Eq. S72; for orthogonal V no integer program is needed (erratum E15).

    >>> distance_to_signed_permutation(np.array([[0.0, -1.0], [1.0, 0.0]]))
    0.0
    """
    size = np.abs(turn)
    rows, columns = linear_sum_assignment(-size)
    return float(np.sum(size) + np.sum(np.abs(size[rows, columns] - 1) - size[rows, columns]))
