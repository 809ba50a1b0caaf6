"""The parts of the linear beta-VAE's objective, at its optimum and at any other parameters.

All are averages over Gaussian data, in nats: ELBO = reconstruction - KL, objective =
reconstruction - beta KL, MIE = log-likelihood - ELBO (sikka2019, Eq. 14 and 16).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.gaussian import average_log_density
from untwist.theory.linear_vae import LinearVAE


@dataclass(frozen=True)
class Terms:
    """Reconstruction term, conditional-independence loss (KL) and data log-likelihood."""

    beta: Float[ndarray, "*beta"]
    reconstruction: Float[ndarray, "*beta"]
    kl: Float[ndarray, "*beta"]
    log_likelihood: Float[ndarray, "*beta"]

    @property
    def elbo(self) -> Float[ndarray, "*beta"]:
        """E_q log p(x|z) - KL(q || p(z))."""
        return np.asarray(self.reconstruction - self.kl)

    @property
    def objective(self) -> Float[ndarray, "*beta"]:
        """E_q log p(x|z) - beta KL(q || p(z))."""
        return np.asarray(self.reconstruction - self.beta * self.kl)

    @property
    def mie(self) -> Float[ndarray, "*beta"]:
        """Model inference error KL(q || p(z|x)) = log p(x) - ELBO (sikka2019, Eq. 16)."""
        return np.asarray(self.log_likelihood - self.elbo)


def optimal_terms(vae: LinearVAE) -> Terms:
    """Returns the terms at the optimum, a sum over eigenvalues at every beta.

    With `t = beta s^2`, active latents cost `t` of residual each and `log(lambda/t)/2` of KL; the
    variance of the others stays in the residual.

    >>> from untwist.theory.linear_vae import linear_beta_vae
    >>> optimal_terms(linear_beta_vae(np.diag([4.0, 1.0]), 1, [1.0, 4.0])).kl.round(6).tolist()
    [0.693147, 0.0]
    """
    pixels, s2, active = len(vae.axes), vae.variance, vae.active
    threshold, values = vae.threshold[..., None], vae.eigenvalues
    unseen = np.sum(np.where(active, 0, values), axis=-1) + vae.left_over
    residual = unseen + np.sum(active * threshold, axis=-1)
    safe = np.where(active, values, threshold)
    model = np.where(active, values - threshold + s2, s2)  # eigenvalues of D D' + s^2 I
    volume = np.sum(np.log(model), axis=-1) + (pixels - len(values)) * np.log(s2)
    misfit = unseen / s2 + np.sum(active * values / model, axis=-1)
    return Terms(
        beta=vae.beta,
        reconstruction=np.asarray(-0.5 * (pixels * np.log(2 * np.pi * s2) + residual / s2)),
        kl=np.asarray(0.5 * np.sum(np.log(safe / threshold), axis=-1)),
        log_likelihood=np.asarray(-0.5 * (pixels * np.log(2 * np.pi) + volume + misfit)),
    )


def terms_of(
    decoder: Float[ndarray, "pixel latent"],
    encoder: Float[ndarray, "latent pixel"],
    variances: Float[ndarray, " latent"],
    covariance: Float[ndarray, "pixel pixel"],
    *,
    beta: float = 1.0,
    variance: float = 1.0,
) -> Terms:
    """Returns the terms of any linear VAE with a diagonal, constant posterior covariance.

    Args:
        decoder: The matrix D.
        encoder: The matrix W.
        variances: Posterior variances e.
        covariance: Covariance of the data, whose mean the biases take away.
        beta: Weight of the KL term in the objective.
        variance: Likelihood variance s^2.

    Reference: sikka2019, Eq. 21 and 37-40, with their constants (erratum E2).
    """
    pixels, latents = decoder.shape
    miss = decoder @ encoder - np.eye(pixels)
    norms = np.sum(decoder**2, axis=0)
    residual = np.trace(miss @ covariance @ miss.T) + norms @ variances
    code = np.trace(encoder @ covariance @ encoder.T)
    model = decoder @ decoder.T + variance * np.eye(pixels)
    return Terms(
        beta=np.asarray(beta, dtype=float),
        reconstruction=np.asarray(
            -0.5 * (pixels * np.log(2 * np.pi * variance) + residual / variance)
        ),
        kl=np.asarray(0.5 * (code + np.sum(variances - np.log(variances)) - latents)),
        log_likelihood=np.asarray(average_log_density(covariance, model)),
    )
