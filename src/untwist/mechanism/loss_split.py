"""The reconstruction loss in its parts: deterministic, stochastic, and the bias between them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Decode, as_decoder, chunk_size, stream
from untwist.mechanism.geometry import Geometry
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.posterior import Posteriors, normal_noise, scaled
from untwist.types import AnyArray, InputError, RandomKey

DRAWS = 32


@dataclass(frozen=True)
class LossSplit:
    """Mean parts of -log p(x|z) an item, in nats; `total = deterministic + stochastic + bias`.

    Attributes:
        total: E_q[-log p(x|z)], by draws.
        deterministic: -log p(x|mean).
        stochastic: E_q KL(p(.|mean) || p(.|z)): `E||Dec(z) - Dec(mu)||^2` for a squared error.
        bias: What Eq. 13 assumes away: `2 (E Dec(z) - Dec(mu))'(Dec(mu) - x)`.
        linearized: The stochastic part of the tangent decoder, `sum_j ||c_j||^2 sigma_j^2`.
        total_error: Standard error of `total` from the draws, not from the choice of items.
        stochastic_error: The same of `stochastic`.
        bias_error: The same of `bias`.
        per_item: Deterministic, stochastic, bias and linearized parts [4, item].
    """

    total: float
    deterministic: float
    stochastic: float
    bias: float
    linearized: float
    total_error: float
    stochastic_error: float
    bias_error: float
    per_item: Float[ndarray, "4 item"]


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
        decode: From one code to one example's outputs.
        posteriors: Means and widths.
        x: The examples.
        key: The noise.
        geometry: Of the decoder at the means, for the linearized value (Eq. 17, S48).
        likelihood: Its name, or itself.
        draws: Noisy codes an item, rounded up to an even number.
        chunk: Items at a time.

    Reference: rolinek2019, Proposition 4, Eq. 13, 14 and 17.
    """
    if posteriors.sigma is None:
        raise InputError("without a posterior width there is no stochastic part to split off")
    decoder, model = as_decoder(decode), as_likelihood(likelihood)
    rows = np.asarray(x).reshape(len(posteriors.mean), -1)
    seeds = np.arange(len(rows))

    def parts(mean: AnyArray, sigma: AnyArray, x: AnyArray, seed: AnyArray) -> tuple:
        codes = _noisy(mean, sigma, jax.vmap(jax.random.fold_in, (None, 0))(key, seed), draws)
        clean = decoder.outputs(mean)
        noisy = decoder.outputs(codes.reshape(-1, codes.shape[-1]))
        noisy = jnp.asarray(noisy).reshape(*codes.shape[:2], -1)
        return _split(model, jnp.asarray(clean), noisy, jnp.asarray(x))

    size = chunk_size(decoder, posteriors.mean, chunk, draws)
    found = stream(parts, posteriors.mean, posteriors.sigma, rows, seeds, chunk=size)
    deterministic, stochastic, bias, *variances = (np.asarray(f, np.float64) for f in found)
    linear = 0.5 * np.einsum("ijk,ikj->i", geometry.information, posteriors.covariance)
    total, noisy, biased = (float(np.sqrt(v.sum()) / len(v)) for v in variances)
    return LossSplit(
        float(np.mean(deterministic + stochastic + bias)),
        float(deterministic.mean()),
        float(stochastic.mean()),
        float(bias.mean()),
        float(linear.mean()),
        total,
        noisy,
        biased,
        np.stack([deterministic, stochastic, bias, linear]),
    )


def _noisy(mean: AnyArray, sigma: AnyArray, keys: Array, draws: int) -> Array:
    """Noisy codes of each item, from its own key."""
    noise = jax.vmap(lambda k: normal_noise(k, 1, draws, mean.shape[-1])[0])(keys)
    return jnp.asarray(mean)[:, None] + scaled(noise, sigma)


@jax.jit
def _split(model: Likelihood, clean: Array, noisy: Array, x: Array) -> tuple[Array, ...]:
    """Parts of each item, and the squared standard errors of total, stochastic part and bias."""

    def one(clean: Array, noisy: Array, x: Array) -> tuple[Array, ...]:
        deterministic = -model.log_prob(clean, x)
        stochastic = jax.vmap(lambda y: model.divergence(clean, y))(noisy)
        bias = (clean - noisy) @ model.pull(clean, x)
        # Mirrored draws are one draw: their means are independent of each other.
        pair = lambda v: v.reshape(2, -1).mean(0)  # noqa: E731
        error = lambda v: jnp.var(v) / max(v.size - 1, 1)  # noqa: E731
        errors = [error(pair(v)) for v in (stochastic + bias, stochastic, bias)]
        return deterministic, stochastic.mean(), bias.mean(), *errors

    return jax.vmap(one)(clean, noisy, x)
