"""The curves of sikka2019 Figure 1: every term of the optimal linear beta-VAE against beta."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.inference_error import free_inference_error, inference_error
from untwist.theory.linear_terms import optimal_terms
from untwist.theory.linear_vae import linear_beta_vae
from untwist.types import InputError


@dataclass(frozen=True)
class Curve:
    """Averages over data, in nats, at each beta; `tie_free` is TIE at the best relabeling."""

    beta: Float[ndarray, " beta"]
    elbo: Float[ndarray, " beta"]
    objective: Float[ndarray, " beta"]
    reconstruction: Float[ndarray, " beta"]
    kl: Float[ndarray, " beta"]
    log_likelihood: Float[ndarray, " beta"]
    mie: Float[ndarray, " beta"]
    tie: Float[ndarray, " beta"]
    tie_free: Float[ndarray, " beta"]
    active: Float[ndarray, " beta"]


def paper_mixing() -> Float[ndarray, "pixel latent"]:
    """Returns the A of sikka2019 Sec. IV-B: A_ij = 0.5 (1 + delta_ij), N = 128, k = 2 (E22).

    >>> (paper_mixing().T @ paper_mixing()).tolist()
    [[32.75, 32.5], [32.5, 32.75]]
    """
    return 0.5 * (1 + np.eye(128, 2))


def _true_errors(
    mixing: Float[ndarray, "pixel latent"],
    covariance: Float[ndarray, "pixel pixel"],
    beta: float,
    noise: float,
) -> tuple[float, float]:
    """TIE by index and at the best relabeling."""
    vae = linear_beta_vae(covariance, mixing.shape[1], beta, variance=noise)
    plain = inference_error(vae.encoder, vae.variances, mixing, covariance, noise=noise)
    return plain, free_inference_error(vae, mixing, covariance, noise=noise)[0]


def disentangling_curve(
    mixing: Float[ndarray, "pixel latent"], beta: Sequence[float] | ndarray, *, noise: float = 1.0
) -> Curve:
    """Returns the curves for data `x = A s + noise`, with as many latents as sources.

    Args:
        mixing: The matrix A.
        beta: A list of weights.
        noise: Variance of the data's noise and of the model's likelihood.

    >>> curve = disentangling_curve(paper_mixing(), [0.5, 1.0, 2.0])
    >>> curve.elbo.round(4).tolist(), curve.active.tolist()
    ([-184.0256, -183.8324, -183.9993], [2.0, 2.0, 1.0])
    """
    if not np.all(np.isfinite(mixing)) or not (np.isfinite(noise) and noise > 0):
        raise InputError(
            f"the mixing matrix must be finite and the noise variance positive, but got {noise}"
        )
    covariance = mixing @ mixing.T + noise * np.eye(len(mixing))
    sources = mixing.shape[1]
    betas = np.atleast_1d(np.asarray(beta, dtype=float))
    vae = linear_beta_vae(covariance, sources, betas, variance=noise)
    terms = optimal_terms(vae)
    errors = [_true_errors(mixing, covariance, float(b), noise) for b in betas]
    return Curve(
        beta=betas,
        elbo=terms.elbo,
        objective=terms.objective,
        reconstruction=terms.reconstruction,
        kl=terms.kl,
        log_likelihood=terms.log_likelihood,
        mie=terms.mie,
        tie=np.array([plain for plain, _ in errors]),
        tie_free=np.array([free for _, free in errors]),
        active=np.sum(vae.active, axis=1).astype(float),
    )
