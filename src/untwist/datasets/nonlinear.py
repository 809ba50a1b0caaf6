"""The nonlinear synthetic set of rolinek2019: the unit square through a random network."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.datasets.dataset import Dataset
from untwist.datasets.sampling import check_positive, sample_factors
from untwist.factors import FactorSpace

SPACE = FactorSpace(("w1", "w2"), (None, None), ("continuous", "continuous"))
HIDDEN, OUTPUT = 10, 6


class NonlinearWeights(NamedTuple):
    """The random network x = W2 tanh(W1 w + b1) + b2."""

    weight1: Float[Array, "hidden 2"]
    bias1: Float[Array, " hidden"]
    weight2: Float[Array, "output hidden"]
    bias2: Float[Array, " output"]


def nonlinear(
    *, ratio: float = 1.0, samples: int = 50_000, seed: int = 0, weights_seed: int = 0
) -> Dataset:
    """Returns points of the unit square through a random network, in six dimensions.

    x = W2 tanh(W1 diag(ratio, 1) w + b1) + b2 with w uniform on the unit square and a hidden layer
    of 10. The distribution of weights and biases is not stated: here all are standard normal.

    Args:
        ratio: The scale of the first factor over that of the second, before the network.
        samples: How many points.
        seed: Seed of the factors.
        weights_seed: Seed of the network.

    Reference:
        rolinek2019, section 8.5.
    """
    check_positive("nonlinear", ratio=ratio)
    factors = sample_factors("nonlinear", SPACE, samples, seed=seed)
    weights = nonlinear_weights(weights_seed)
    generate = jax.vmap(lambda one: generate_nonlinear(one, weights, ratio=ratio))
    points = jax.jit(generate)(factors)
    provenance = {"source": "synthetic, rolinek2019", "twin": False, "version": 1}
    provenance |= {"seed": seed, "ratio": ratio, "weights_seed": weights_seed}
    data = np.asarray(points)
    return Dataset("nonlinear", data, factors, SPACE, "squared_error", provenance, (OUTPUT,))


def nonlinear_weights(weights_seed: int = 0) -> NonlinearWeights:
    """Returns the weights and biases of the random network."""
    weight1, bias1, weight2, bias2 = jax.random.split(jax.random.key(weights_seed), 4)
    return NonlinearWeights(
        jax.random.normal(weight1, (HIDDEN, 2)),
        jax.random.normal(bias1, (HIDDEN,)),
        jax.random.normal(weight2, (OUTPUT, HIDDEN)),
        jax.random.normal(bias2, (OUTPUT,)),
    )


def generate_nonlinear(
    factors: Float[Array, "2"], weights: NonlinearWeights, *, ratio: float = 1.0
) -> Float[Array, "6"]:
    """Returns the point that two factors generate, for derivatives of the true generator."""
    scaled = factors * jnp.array([ratio, 1.0], factors.dtype)
    hidden = jnp.tanh(weights.weight1 @ scaled + weights.bias1)
    return weights.weight2 @ hidden + weights.bias2
