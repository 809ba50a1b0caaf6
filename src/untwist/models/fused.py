"""The convolutions of a network as GPU kernels, one function each way, with a pullback of its own.

The plain networks differentiate in every mode and as often as one likes; these differentiate
backwards, and once, which is what training asks for. In return bias, activation and its gradient
happen inside the kernels, and only the rectified images are kept. `untwist.models.fuse` chooses.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from untwist.models import convolution
from untwist.models.convolution import THIN, double_thin
from untwist.models.kernels import FAT, double, halve, thin_weight_gradient, weight_gradient

Layer = tuple[Float[Array, "4 4 _ _"], Float[Array, " _"]]


def fusible(activation: str, layers: tuple[Layer, ...], *, thin: int) -> bool:
    """Returns whether the kernels serve these layers.

    Kernels are 4x4, the activation is relu, and channels are powers of two from 16, but for the
    image itself, which may have up to 4.

    Args:
        activation: Its name.
        layers: Weights and biases in the order in which they are applied.
        thin: Which layer touches the image: 0 in an encoder, -1 in a decoder.
    """
    if activation != "relu" or not layers or any(w.shape[:2] != (4, 4) for w, _ in layers):
        return False
    channels = [weight.shape[2] for weight, _ in layers] + [layers[-1][0].shape[3]]
    image = channels.pop(thin)
    return image <= THIN and all(n >= FAT and n & (n - 1) == 0 for n in channels)


def _encode_forward(x: Array, layers: tuple[Layer, ...]) -> tuple[Array, tuple]:
    images = [x]
    for weight, bias in layers:
        images.append(halve(images[-1], weight, bias, relu=True))
    return images[-1], (images, layers)


def _encode_backward(kept: tuple, g: Array) -> tuple[Array, tuple[Layer, ...]]:
    images, layers = kept
    g = jnp.where(images[-1] > 0, g, 0)
    gradients = []
    for k in reversed(range(1, len(layers))):
        gradients.append(_like(layers[k], _weight_gradient(images[k], g), _sum(g)))
        g = double(g, _turned(layers[k][0]), gate=images[k])
    gradients.append(_like(layers[0], *thin_weight_gradient(images[0], g)))
    return double_thin(g, _turned(layers[0][0])), tuple(gradients[::-1])


def _decode_forward(x: Array, layers: tuple[Layer, ...]) -> tuple[Array, tuple]:
    images = [x]
    for weight, bias in layers[:-1]:
        images.append(double(images[-1], weight, bias, relu=True))
    weight, bias = layers[-1]
    return double_thin(images[-1], weight) + bias, (images, layers)


def _decode_backward(kept: tuple, g: Array) -> tuple[Array, tuple[Layer, ...]]:
    images, layers = kept
    moved = _turned(thin_weight_gradient(g, images[-1])[0])
    gradients = [_like(layers[-1], moved, _sum(g))]
    for k in reversed(range(1, len(layers))):
        g = halve(g, _turned(layers[k][0]), gate=images[k])
        moved = _turned(_weight_gradient(g, images[k - 1]))
        gradients.append(_like(layers[k - 1], moved, _sum(g)))
    return halve(g, _turned(layers[0][0])), tuple(gradients[::-1])


def _weight_gradient(large: Array, small: Array) -> Array:
    """By the kernel in bfloat16; in float32 cuBLAS is faster, windows and all (RECORD.md)."""
    if large.dtype == jnp.float32:
        return convolution.weight_gradient(large, small)
    return weight_gradient(large, small)


def _like(layer: Layer, weight: Array, bias: Array) -> Layer:
    return weight.astype(layer[0].dtype), bias.astype(layer[1].dtype)


def _sum(g: Array) -> Array:
    return jnp.sum(g, axis=(0, 1, 2), dtype=jnp.float32)


def _turned(weight: Array) -> Array:
    return weight.swapaxes(2, 3)


def _by_item(forward: Callable, backward: Callable) -> Callable:
    """The function of one example; a batch of examples that share weights is one call."""
    function = jax.custom_vjp(lambda x, layers: forward(x, layers)[0])
    function.defvjp(forward, backward)

    @custom_vmap
    def one(x: Array, layers: tuple[Layer, ...]) -> Array:
        return function(x[None], layers)[0]

    @one.def_vmap
    def several(size: int, batched: list, x: Array, layers: tuple):
        if batched[0] and not any(jax.tree.leaves(batched[1])):
            return function(x, layers), True
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched)
        each = partial(jax.vmap, in_axes=axes, axis_size=size)
        return each(lambda x, layers: function(x[None], layers)[0])(x, layers), True

    return one


encode_image = _by_item(_encode_forward, _encode_backward)
"""The encoder's convolutions and activations, of one example."""

decode_image = _by_item(_decode_forward, _decode_backward)
"""The decoder's convolutions, and the activations between them, of one rectified example."""
