"""Push-forward densities: what a decoder does to the prior, and when factors are independent."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def log_prior(code: Float[ndarray, " latent"]) -> float:
    """Returns log N(z; 0, I)."""
    return -0.5 * float(code @ code + len(code) * np.log(2 * np.pi))


def log_density(jacobian: Float[ndarray, "pixel latent"], code: Float[ndarray, " latent"]) -> float:
    """Returns the log-density on the decoder's image at d(z): log p(z) - log det(J'J)/2.

    Reference: allen2024, Eq. 9 and 12, where |W|^-1 stands for a matrix that is not square
    (erratum E10).

    >>> round(log_density(2 * np.eye(2), np.zeros(2)), 6)
    -3.224171
    """
    return log_prior(code) - 0.5 * float(np.linalg.slogdet(jacobian.T @ jacobian)[1])


def axis_log_densities(
    jacobian: Float[ndarray, "pixel latent"], code: Float[ndarray, " latent"]
) -> Float[ndarray, " latent"]:
    """Returns log p(z_i) - log ||dd/dz_i||, the densities along the axis curves through d(z).

    They add up to `log_density` exactly when the columns are orthogonal (allen2024, Theorem 2).
    """
    line = -0.5 * (code**2 + np.log(2 * np.pi))
    return line - 0.5 * np.log(np.sum(jacobian**2, axis=0))


def independence_gap(jacobian: Float[ndarray, "pixel latent"]) -> float:
    """Returns by how much the product of axis densities falls short of the density, in nats.

    `sum_i log||c_i|| - log det(J'J)/2`: Hadamard's inequality, zero iff columns are orthogonal.

    >>> independence_gap(np.diag([1.0, 2.0]))
    0.0
    """
    gram = jacobian.T @ jacobian
    return 0.5 * float(np.sum(np.log(np.diag(gram))) - np.linalg.slogdet(gram)[1])
