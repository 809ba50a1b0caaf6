"""Second-order objective: Hessians of likelihoods, the posterior covariance they ask for, plateaus.

allen2024 Sec. 3 and 4. For a decoder d with Jacobian D at the mean code, the log-likelihood has
`H = -D' B D + sum_i r_i Hess(d_i)`: B and r are minus its second and its first derivative in d. The
paper writes B as A^2 = Var[x|z], which mixes two parametrizations for a Gaussian (erratum E7).
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.gaussian import kl_to_prior


def likelihood_hessian(
    jacobian: Float[ndarray, "pixel latent"],
    bends: Float[ndarray, "pixel latent latent"],
    curvature: Float[ndarray, " pixel"],
    pull: Float[ndarray, " pixel"],
) -> Float[ndarray, "latent latent"]:
    """Returns the Hessian in z of log p(x | d(z)).

    Args:
        jacobian: D, the derivative of the decoder's output.
        bends: Hess(d_i), one matrix an output (erratum E8).
        curvature: Minus the second derivative of log p in each output: 1/s^2 for a Gaussian mean,
            p (1 - p) for a Bernoulli logit.
        pull: First derivative of log p in each output: (x - d)/s^2 or x - p.

    Reference: allen2024, Eq. 6.

    >>> identity, flat = np.eye(2), np.zeros((2, 2, 2))
    >>> likelihood_hessian(identity, flat, np.array([1.0, 4.0]), np.ones(2)).tolist()
    [[-1.0, 0.0], [0.0, -4.0]]
    """
    return -jacobian.T @ (curvature[:, None] * jacobian) + np.einsum("i,ijk->jk", pull, bends)


def deterministic_elbo(
    log_likelihood: float,
    hessian: Float[ndarray, "latent latent"],
    mean: Float[ndarray, " latent"],
    covariance: Float[ndarray, "latent latent"],
    *,
    beta: float = 1.0,
) -> float:
    """Returns log p(x|mean) + tr(H S)/2 - beta KL(N(mean, S) || N(0, I)).

    Args:
        log_likelihood: log p(x|z) at the mean code.
        hessian: Its Hessian H there.
        mean: Posterior mean.
        covariance: Posterior covariance S.
        beta: Weight of the KL term.

    Reference: allen2024, Eq. 5 and 16; Eq. 5 closes a bracket too early (erratum E6).

    >>> deterministic_elbo(-1.0, -np.eye(1), np.zeros(1), np.eye(1))
    -1.5
    """
    curved = 0.5 * float(np.trace(hessian @ covariance))
    return log_likelihood + curved - beta * kl_to_prior(mean, covariance)


def best_covariance(
    hessian: Float[ndarray, "latent latent"], beta: float
) -> Float[ndarray, "latent latent"]:
    """Returns the full covariance that maximizes the deterministic ELBO: (I - H/beta)^-1.

    Reference: allen2024, Eq. 7.

    >>> best_covariance(-np.eye(1), 1.0).tolist()
    [[0.5]]
    """
    return np.linalg.inv(np.eye(len(hessian)) - hessian / beta)


def best_variances(
    hessian: Float[ndarray, "latent latent"], beta: float
) -> Float[ndarray, " latent"]:
    """Returns the diagonal covariance that maximizes the deterministic ELBO: 1/(1 - h_ii/beta).

    Not the diagonal of the full one, as Eq. 7 would have it (allen2024, erratum E9).

    >>> best_variances(np.array([[-1.0, 0.5], [0.5, -3.0]]), 1.0).tolist()
    [0.5, 0.25]
    """
    return 1 / (1 - np.diag(hessian) / beta)


def slope_penalty(slope: Float[ndarray, "*point"], beta: float) -> Float[ndarray, "*point"]:
    """Returns what a singular value costs where its posterior variance is best, in nats.

    `(beta/2) log(1 + s^2/beta)`: unbounded but concave for `s^2 > beta`, so that one steep jump is
    cheaper than a long ramp. Eq. 14 prints only its middle, bounded term (allen2024, erratum E19).

    Args:
        slope: Singular value of the Jacobian (of the output over its noise's scale).
        beta: Weight of the KL term.

    >>> round(float(slope_penalty(np.array(1.0), 1.0)), 6)
    0.346574
    """
    return np.asarray(0.5 * beta * np.log1p(slope**2 / beta))


def ramp_cost(width: float, beta: float, *, rise: float = 1.0) -> float:
    """Returns the penalty integrated over a line on which f rises linearly within `width`.

    It rises as the ramp steepens to `slope^2 = 3.92 beta` and from there falls to zero: the
    penalty is concave in steep slopes, so no smooth f is a minimum: plateaus with jumps win.

    Args:
        width: Length on which f rises.
        beta: Weight of the KL term.
        rise: How much f rises.

    >>> round(ramp_cost(1.0, 1.0), 6), round(ramp_cost(0.01, 1.0), 6)
    (0.346574, 0.046052)
    """
    return width * float(slope_penalty(np.array(rise / width), beta))
