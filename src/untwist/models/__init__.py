"""Models: posteriors, likelihoods, encoders and decoders, and the published architectures.

A model is a `VAE`, written for one example; `build` makes one from an entry of `ARCHITECTURES`.
"""

from untwist.models.architectures import ARCHITECTURES, Architecture
from untwist.models.critic import Discriminator, Regression
from untwist.models.likelihood import (
    LIKELIHOODS,
    AbstractLikelihood,
    Bernoulli,
    Gaussian,
    SquaredError,
    squared_error_beta,
)
from untwist.models.networks import Decoder, Encoder, Layers
from untwist.models.posterior import (
    POSTERIORS,
    AbstractPosterior,
    Deterministic,
    DiagonalGaussian,
    FullGaussian,
    marginal_kl,
    normal_log_prob,
)
from untwist.models.traversal import traverse
from untwist.models.vae import VAE, build, fuse

__all__ = [
    "ARCHITECTURES",
    "LIKELIHOODS",
    "POSTERIORS",
    "VAE",
    "AbstractLikelihood",
    "AbstractPosterior",
    "Architecture",
    "Bernoulli",
    "Decoder",
    "Deterministic",
    "DiagonalGaussian",
    "Discriminator",
    "Encoder",
    "FullGaussian",
    "Gaussian",
    "Layers",
    "Regression",
    "SquaredError",
    "build",
    "fuse",
    "marginal_kl",
    "normal_log_prob",
    "squared_error_beta",
    "traverse",
]
