"""The numerical witness: the linear beta-VAE's objective with all its parameters, maximised.

sikka2019 Eq. 21 averages the objective over data of covariance S, for an encoder
`N(W x + b_mu, diag exp(W_s x + b))` and a decoder `N(D z + b_D, s^2 I)`. Nothing here knows the
closed form, so that the two can disagree.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.draws import generator
from untwist.types import RandomKey


@dataclass(frozen=True)
class Parameters:
    """Every parameter of the linear beta-VAE, or a gradient of the same shapes."""

    encoder: Float[ndarray, "latent pixel"]
    decoder: Float[ndarray, "pixel latent"]
    variance_weights: Float[ndarray, "latent pixel"]
    variance_bias: Float[ndarray, " latent"]
    encoder_bias: Float[ndarray, " latent"]
    decoder_bias: Float[ndarray, " pixel"]

    @property
    def flat(self) -> Float[ndarray, " parameter"]:
        """All entries in one vector, in the order of the fields."""
        return np.concatenate([np.ravel(value) for value in vars(self).values()])

    def unflatten(self, vector: Float[ndarray, " parameter"]) -> "Parameters":
        """Returns parameters of these shapes out of one vector."""
        shapes = [value.shape for value in vars(self).values()]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = np.split(vector, ends)
        return Parameters(*(part.reshape(s) for part, s in zip(parts, shapes, strict=True)))


def mean_variances(
    parameters: Parameters, covariance: Float[ndarray, "pixel pixel"]
) -> Float[ndarray, " latent"]:
    """Returns e_a = E exp(W_s x + b)_a over Gaussian data, a log-normal mean.

    `exp([W_s S W_s']_aa / 2 + b_a)`: the printed exponent loses a sum (sikka2019, erratum E3).
    """
    weights = parameters.variance_weights
    spread = np.einsum("ap,pq,aq->a", weights, covariance, weights, optimize=True)
    return np.exp(0.5 * spread + parameters.variance_bias)


def averaged_objective(
    parameters: Parameters,
    covariance: Float[ndarray, "pixel pixel"],
    beta: float,
    variance: float = 1.0,
) -> float:
    """Returns the beta objective averaged over data, in nats, with both of its constants.

    Reference: sikka2019, Eq. 21, which drops `-(N/2) log 2 pi s^2` and `beta k/2` (erratum E2).
    """
    p = parameters
    pixels, latents = p.decoder.shape
    miss = p.decoder @ p.encoder - np.eye(pixels)
    shift = p.decoder @ p.encoder_bias + p.decoder_bias
    norms = np.sum(p.decoder**2, axis=0)
    spread = mean_variances(p, covariance)
    loss = (  # Eq. 21, term by term
        np.sum((miss @ covariance) * miss) / variance
        + beta * np.sum((p.encoder @ covariance) * p.encoder)
        + np.sum((norms / variance + beta) * spread)
        + shift @ shift / variance
        + beta * p.encoder_bias @ p.encoder_bias
        - beta * np.sum(p.variance_bias)
    )
    constants = -0.5 * pixels * np.log(2 * np.pi * variance) + 0.5 * beta * latents
    return float(constants - 0.5 * loss)


def stationarity(
    parameters: Parameters,
    covariance: Float[ndarray, "pixel pixel"],
    beta: float,
    variance: float = 1.0,
) -> Parameters:
    """Returns the gradient of `averaged_objective`: zero where Eq. 22 and 23 hold.

    Reference: sikka2019, Eq. 22, 23 and 42-47, with the factors -1 and -1/2 that the paper leaves
    out (erratum E13) and the corrected exponent (erratum E3).
    """
    p = parameters
    miss = (p.decoder @ p.encoder - np.eye(len(p.decoder))) @ covariance
    shift = p.decoder @ p.encoder_bias + p.decoder_bias
    spread = mean_variances(p, covariance)
    stiffness = np.sum(p.decoder**2, axis=0) / variance + beta
    noise_weights = p.variance_weights @ covariance
    return Parameters(
        encoder=-(p.decoder.T @ miss / variance + beta * p.encoder @ covariance),
        decoder=-(miss @ p.encoder.T + p.decoder * spread + np.outer(shift, p.encoder_bias))
        / variance,
        variance_weights=-0.5 * (stiffness * spread)[:, None] * noise_weights,
        variance_bias=-0.5 * (stiffness * spread - beta),
        encoder_bias=-(p.decoder.T @ shift / variance + beta * p.encoder_bias),
        decoder_bias=-shift / variance,
    )


def random_parameters(
    pixels: int, latents: int, *, key: RandomKey, scale: float = 0.1
) -> Parameters:
    """Returns parameters with independent normal entries of the given scale."""
    draw = generator(key)
    shapes = [(latents, pixels), (pixels, latents), (latents, pixels), latents, latents, pixels]
    return Parameters(*(scale * draw.standard_normal(shape) for shape in shapes))
