"""Dense networks: affine layers with an activation between them, none after the last."""

import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "leaky_relu": partial(jax.nn.leaky_relu, negative_slope=0.2),  # as TensorFlow's
}


def glorot(shape: tuple[int, ...], fan_in: int, fan_out: int, *, key: Key[Array, ""]) -> Array:
    """Returns weights uniform within sqrt(6 / (fan_in + fan_out)), as the field's library does."""
    limit = math.sqrt(6 / (fan_in + fan_out))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


class Affine(eqx.Module):
    """x -> W x + b. Weights start by `glorot`, biases at zero.

    The output axis comes first: so the gradient in W comes out of its product as it is stored.
    """

    weight: Float[Array, "output input"]
    bias: Float[Array, " output"]

    def __init__(self, inputs: int, outputs: int, *, key: Key[Array, ""]):
        self.weight = glorot((outputs, inputs), inputs, outputs, key=key)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " output"]:
        """Returns W x + b."""
        return x @ self.weight.T + self.bias


class Dense(eqx.Module):
    """Affine layers of the given sizes, input and output included; linear if there are only two."""

    layers: tuple[Affine, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activation: str, *, key: Key[Array, ""]):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            Affine(inputs, outputs, key=layer_key)
            for inputs, outputs, layer_key in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " output"]:
        """Returns the network's output for one example."""
        *hidden, last = self.layers
        for layer in hidden:
            x = ACTIVATIONS[self.activation](layer(x))
        return last(x)
