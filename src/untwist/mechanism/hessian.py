"""The Hessian of the log-likelihood in the codes, and the deterministic ELBO that it gives."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import (
    AbstractDecoder,
    Decode,
    Number,
    as_decoder,
    checked_codes,
    chunk_size,
    number,
    over_items,
    stream,
)
from untwist.mechanism.geometry import Geometry, information_of
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.loss_split import LossSplit
from untwist.mechanism.posterior import Posteriors
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class HessianShares:
    """How diagonal the log-likelihood's Hessian is, and what it predicts; one number a member.

    Attributes:
        off_diagonal: Share of H off its diagonal: ||H - diag H||_F / ||H||_F, on average.
        information_off_diagonal: The same of D'A^2D alone.
        bends: ||H + D'A^2D||_F over ||H||_F + ||D'A^2D||_F: 0 for a decoder without bends (or
            piecewise linear), near 1 where the bends are all there is.
        hessian: H of each item.
    """

    off_diagonal: Number
    information_off_diagonal: Number
    bends: Number
    hessian: Float[ndarray, "*member item latent latent"]


def off_diagonal_share(matrices: Float[AnyArray, "*batch latent latent"]) -> Float[ndarray, "..."]:
    """Returns ||M - diag M||_F / ||M||_F; 0 for a zero matrix. Range 0 to 1.

    >>> round(float(off_diagonal_share(np.array([[1.0, 1.0], [1.0, 1.0]]))), 6)
    0.707107
    """
    squares = np.asarray(matrices, np.float64) ** 2
    total = squares.sum((-2, -1))
    off = total - np.diagonal(squares, 0, -2, -1).sum(-1)
    return np.asarray(np.sqrt(np.maximum(off, 0) / np.where(total > 0, total, 1)))


def likelihood_hessians(
    decode: Decode | AbstractDecoder,
    codes: Float[AnyArray, "*member item latent"],
    x: Float[AnyArray, "item *shape"],
    *,
    likelihood: str | Likelihood = "squared_error",
    chunk: int | None = None,
) -> Float[ndarray, "*member item latent latent"]:
    """Returns the Hessian in z of log p(x|z) at each code.

    `H = -D'A^2D + sum_i r_i Hess(d_i)` with r the likelihood's slope in the outputs.

    Args:
        decode: From one code to one example's outputs; or a population of such.
        codes: Where, [member, item, latent] for a population.
        x: The examples, the same for all members.
        likelihood: Its name, or itself.
        chunk: Items at a time.

    Reference: allen2024, Eq. 6 (errata E7, E8).

    >>> likelihood_hessians(lambda z: 3 * z, np.zeros((1, 1)), np.zeros((1, 1))).tolist()
    [[[-18.0]]]
    """
    decoder, model, codes = as_decoder(decode), as_likelihood(likelihood), checked_codes(codes)
    rows, axis = np.asarray(x).reshape(codes.shape[-2], -1), codes.ndim - 2

    def chunked(codes: AnyArray, x: AnyArray) -> AnyArray:
        pull = _pull(model, jnp.asarray(decoder.outputs(codes)), jnp.asarray(x))
        return jnp.asarray(decoder.bends(codes, pull)) - information_of(decoder, codes, model)

    size = chunk_size(decoder, codes, chunk)
    return stream(chunked, codes, rows, chunk=size, axis=axis, shared=1)


@jax.jit
def _pull(model: Likelihood, output: Array, x: Array) -> Array:
    pull = over_items(Likelihood.pull, output)
    return pull(model.at(output), output, jnp.broadcast_to(x, output.shape))


def hessian_shares(
    hessian: Float[AnyArray, "*member item latent latent"], geometry: Geometry
) -> HessianShares:
    """Returns how much of the Hessian lies off its diagonal, and how much comes from bends.

    Args:
        hessian: Of the log-likelihood, from `likelihood_hessians`.
        geometry: Of the decoder at the same codes.

    Reference: allen2024, Eq. 6; the paper defines no measure.
    """
    whole, flat = np.asarray(hessian, np.float64), np.asarray(geometry.information, np.float64)
    size = np.linalg.norm(whole, axis=(-2, -1)) + np.linalg.norm(flat, axis=(-2, -1))
    bends = np.linalg.norm(whole + flat, axis=(-2, -1)) / np.where(size > 0, size, 1)
    shares = (off_diagonal_share(whole), off_diagonal_share(flat), bends)
    return HessianShares(*(number(share.mean(-1)) for share in shares), hessian=whole)


def posterior_kl(posteriors: Posteriors) -> Float[ndarray, "*member item"]:
    """Returns KL(q || N(0, I)) of each item: (||m||^2 + tr S - log det S - d) / 2.

    Reference: rolinek2019, Eq. S77.

    >>> posterior_kl(Posteriors(np.ones((1, 2)), np.ones((1, 2)))).tolist()
    [1.0]
    """
    if posteriors.sigma is None:
        raise InputError("a plain autoencoder has no posterior, so no KL")
    covariance, mean = posteriors.covariance, np.asarray(posteriors.mean, np.float64)
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    logs = np.linalg.slogdet(covariance)[1]
    return 0.5 * (np.sum(mean**2, axis=-1) + trace - logs - mean.shape[-1])


@dataclass(frozen=True)
class ElboComparison:
    """The deterministic ELBO beside the sampled one: means an item, in nats, at this beta.

    Attributes:
        deterministic: log p(x|mean) + tr(H S)/2 - beta KL.
        sampled: E_q log p(x|z) - beta KL, by draws.
        error: Standard error of the sampled one, from its draws.
        gap: Sampled minus deterministic, of fourth order in sigma.
    """

    deterministic: Number
    sampled: Number
    error: Number
    gap: Number


def elbo_comparison(
    hessian: Float[AnyArray, "*member item latent latent"],
    posteriors: Posteriors,
    split: LossSplit,
    *,
    beta: Number = 1.0,
) -> ElboComparison:
    """Returns the deterministic ELBO and the sampled one.

    Exact for linear decoders under a Gaussian likelihood; otherwise of fourth order in sigma.

    Args:
        hessian: Of the log-likelihood, at the posterior means.
        posteriors: With widths.
        split: The parts of the reconstruction loss.
        beta: The weight of the KL term.

    Reference: allen2024, Eq. 5 and 16; Eq. 5 closes a bracket too early (erratum E6).
    """
    weight = beta * posterior_kl(posteriors).mean(-1)
    second, covariance = np.asarray(hessian, np.float64), posteriors.covariance
    curved = 0.5 * np.einsum("...ijk,...ikj->...i", second, covariance).mean(-1)
    deterministic, sampled = curved - split.deterministic - weight, -split.total - weight
    found = (deterministic, sampled, split.total_error, sampled - deterministic)
    return ElboComparison(*(number(np.asarray(part)) for part in found))
