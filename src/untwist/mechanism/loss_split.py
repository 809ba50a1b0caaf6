"""The reconstruction loss in its parts: deterministic, stochastic, and the bias between them."""

from dataclasses import dataclass
from functools import partial

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
    chunk_size,
    number,
    over_items,
    stream,
)
from untwist.mechanism.geometry import Geometry
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.posterior import Posteriors, normal_noise, scaled
from untwist.types import AnyArray, InputError, RandomKey

DRAWS = 32


@dataclass(frozen=True)
class LossSplit:
    """Mean parts of -log p(x|z) an item, in nats; `total = deterministic + stochastic + bias`.

    Of a population, every number is one a member.

    Attributes:
        total: E_q[-log p(x|z)], by draws.
        deterministic: -log p(x|mean).
        stochastic: E_q KL(p(.|mean) || p(.|z)): `E||Dec(z) - Dec(mu)||^2` for a squared error.
        bias: What Eq. 13 assumes away: `2 (E Dec(z) - Dec(mu))'(Dec(mu) - x)`.
        linearized: The stochastic part of the tangent decoder, `sum_j ||c_j||^2 sigma_j^2`.
        total_error: Standard error of `total` from the draws, not from the choice of items.
        stochastic_error: The same of `stochastic`.
        bias_error: The same of `bias`.
        per_item: Deterministic, stochastic, bias and linearized parts [*member, 4, item].
    """

    total: Number
    deterministic: Number
    stochastic: Number
    bias: Number
    linearized: Number
    total_error: Number
    stochastic_error: Number
    bias_error: Number
    per_item: Float[ndarray, "*member 4 item"]


def loss_split(
    decode: Decode | AbstractDecoder,
    posteriors: Posteriors,
    x: Float[AnyArray, "item *shape"],
    *,
    key: RandomKey,
    geometry: Geometry,
    likelihood: str | Likelihood = "squared_error",
    draws: int = DRAWS,
    chunk: int | None = None,
) -> LossSplit:
    """Returns the deterministic and stochastic parts of the reconstruction loss, and the bias.

    `E||Dec(z) - x||^2 = ||Dec(mu) - x||^2 + E||Dec(z) - Dec(mu)||^2 + bias` (Eq. 13, 14). The
    paper takes noisy decoding as unbiased, so its bias is zero; tanh or relu decoders have one of
    second order in sigma (erratum E20). For a Bernoulli likelihood the same split holds with the
    divergence between the clean and the noisy distribution as the stochastic part. Draws come in
    mirrored pairs.

    Args:
        decode: From one code to one example's outputs; or a population of such.
        posteriors: Means and widths.
        x: The examples, the same for all members.
        key: The noise.
        geometry: Of the decoder at the means, for the linearized value (Eq. 17, S48).
        likelihood: Its name, or itself.
        draws: Noisy codes an item, rounded up to an even number.
        chunk: Items at a time.

    Reference: rolinek2019, Proposition 4, Eq. 13, 14 and 17.
    """
    if posteriors.sigma is None:
        raise InputError("without a posterior width there is no stochastic part to split off")
    decoder, model, codes = as_decoder(decode), as_likelihood(likelihood), posteriors.mean
    rows = np.asarray(x).reshape(codes.shape[-2], -1)

    def parts(mean: AnyArray, sigma: AnyArray, x: AnyArray, seed: AnyArray) -> tuple:
        noisy = _noisy(mean, sigma, key, seed, draws)
        clean = jnp.asarray(decoder.outputs(mean))
        each = jnp.asarray(decoder.outputs(noisy.reshape(*mean.shape[:-2], -1, mean.shape[-1])))
        return _split(model, clean, each.reshape(*noisy.shape[:-1], -1), jnp.asarray(x))

    size, axis = chunk_size(decoder, codes, chunk, draws), codes.ndim - 2
    seeds = np.arange(len(rows))
    arrays = (codes, posteriors.sigma, rows, seeds)
    found = stream(parts, *arrays, chunk=size, axis=axis, shared=2)
    deterministic, stochastic, bias, *variances = (np.asarray(f, np.float64) for f in found)
    linear = 0.5 * np.einsum("...ijk,...ikj->...i", geometry.information, posteriors.covariance)
    means = [deterministic + stochastic + bias, deterministic, stochastic, bias, linear]
    errors = [np.sqrt(v.sum(-1)) / len(rows) for v in variances]
    return LossSplit(
        *(number(part.mean(-1)) for part in means),
        *(number(error) for error in errors),
        per_item=np.stack(means[1:], axis=-2),
    )


@partial(jax.jit, static_argnums=4)
def _noisy(mean: Array, sigma: Array, key: Array, seeds: Array, draws: int) -> Array:
    """Noisy codes of each item, whose noise comes from its own key: the same for all members."""

    def one(mean: Array, sigma: Array, seed: Array) -> Array:
        noise = normal_noise(jax.random.fold_in(key, seed), draws, mean.shape[-1])
        return mean + scaled(noise, sigma)

    return over_items(one, mean)(mean, sigma, jnp.broadcast_to(seeds, mean.shape[:-1]))


@jax.jit
def _split(model: Likelihood, clean: Array, noisy: Array, x: Array) -> tuple[Array, ...]:
    """Parts of each item, and the squared standard errors of total, stochastic part and bias."""

    def one(model: Likelihood, clean: Array, noisy: Array, x: Array) -> tuple[Array, ...]:
        deterministic = -model.log_prob(clean, x)
        stochastic = jax.vmap(lambda y: model.divergence(clean, y))(noisy)
        bias = (clean - noisy) @ model.pull(clean, x)
        # Mirrored draws are one draw: their means are independent of each other.
        pair = lambda v: v.reshape(2, -1).mean(0)  # noqa: E731
        error = lambda v: jnp.var(v) / max(v.size - 1, 1)  # noqa: E731
        errors = [error(pair(v)) for v in (stochastic + bias, stochastic, bias)]
        return deterministic, stochastic.mean(), bias.mean(), *errors

    return over_items(one, clean)(model.at(clean), clean, noisy, jnp.broadcast_to(x, clean.shape))
