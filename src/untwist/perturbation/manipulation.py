"""The manipulation network m(w): from factors through one neuron to a pattern in [-1, 1]."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from untwist.models import Decoder, Encoder, Layers
from untwist.perturbation.change import AbstractChange


class Manipulation(AbstractChange):
    """m(w) = tanh(draw(neuron(w))): a decoder of one latent, which is a function of all factors.

    The single neuron makes the factors share one direction of change, whatever that direction
    becomes. The paper does not say where among the dense layers it sits, nor how |m| <= 1 is kept:
    here it follows the first dense layers, so that it can be any function of the factors, has no
    nonlinearity of its own, and the pattern is a hyperbolic tangent.

    Reference: zietlow2021, Section 4.4 and Appendix B.1 (erratum E12).
    """

    neuron: Encoder
    draw: Decoder

    def __init__(
        self, layers: Layers, features: int, shape: tuple[int, ...], *, key: Key[Array, ""]
    ):
        neuron_key, draw_key, bend_key = jax.random.split(key, 3)
        dense = Layers(layers.dense, activation=layers.activation)
        self.neuron = Encoder(dense, (features,), 1, key=neuron_key)
        self.draw = Decoder(layers, shape, 1, key=draw_key)
        if layers.dense:
            # Without biases a relu layer of one input bends at zero alone: a pattern of rank two.
            first = self.draw.dense.layers[0]
            places = jax.random.uniform(bend_key, first.bias.shape, minval=-2.0, maxval=2.0)
            bends = first.weight[:, 0] * places
            self.draw = eqx.tree_at(lambda d: d.dense.layers[0].bias, self.draw, bends)

    def logits(self, features: Float[Array, " feature"]) -> Float[Array, "height width channel"]:
        """Returns the pattern before the hyperbolic tangent."""
        return self.draw(self.neuron(features))

    def __call__(
        self, features: Float[Array, " feature"], row: Int[Array, ""]
    ) -> Float[Array, "height width channel"]:
        """Returns m(w), the same for every row with these factors."""
        return jnp.tanh(self.logits(features))
