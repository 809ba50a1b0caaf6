"""The convolutions of a network on a GPU: one function each way, with a pullback of its own.

The plain networks differentiate in every mode and direction; these only backwards and once, which
is what training asks for. In return bias, activation and its gradient happen inside the kernels,
and only the rectified images are kept. The trainer chooses them (`VAE.fused`).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from untwist.models.convolution import THIN, _double_by_taps
from untwist.models.kernels import double, halve, weight_gradient

Layer = tuple[Float[Array, "4 4 channel out"], Float[Array, " out"]]


def fusible(activation: str, layers: tuple[Layer, ...]) -> bool:
    """Returns whether the kernels serve these layers."""
    if activation != "relu" or not layers:
        return False
    shapes = [weight.shape for weight, _ in layers]
    return all(
        shape[:2] == (4, 4) and all(n <= THIN or (n >= 16 and n & (n - 1) == 0) for n in shape[2:])
        for shape in shapes
    ) and all(max(shape[2:]) >= 16 for shape in shapes)  # thin only at the image


def _turned(weight: Array) -> Array:
    return weight.swapaxes(2, 3)


@jax.custom_vjp
def _encode(x, layers):
    return _encode_forward(x, layers)[0]


def _encode_forward(x, layers):
    images = [x]
    for weight, bias in layers:
        images.append(halve(images[-1], weight, bias, relu=True))
    return images[-1], (images, layers)


def _encode_backward(kept, g):
    images, layers = kept
    g = jnp.where(images[-1] > 0, g, 0)
    gradients = []
    for k in reversed(range(len(layers))):
        weight, bias = layers[k]
        moved, summed = weight_gradient(images[k], g)
        if summed is None:
            summed = jnp.sum(g, (0, 1, 2), dtype=jnp.float32)
        gradients.append((moved.astype(weight.dtype), summed.astype(bias.dtype)))
        if k:
            g = double(g, _turned(weight), gate=images[k])
    g = _double_by_taps(g, _turned(layers[0][0])) if layers[0][0].shape[2] <= THIN else double(g, _turned(layers[0][0]))
    return g, tuple(gradients[::-1])


_encode.defvjp(_encode_forward, _encode_backward)


@jax.custom_vjp
def _decode(x, layers):
    return _decode_forward(x, layers)[0]


def _decode_forward(x, layers):
    images = [x]
    for k, (weight, bias) in enumerate(layers):
        if weight.shape[3] <= THIN:
            images.append(_double_by_taps(images[-1], weight) + bias)
        else:
            images.append(double(images[-1], weight, bias, relu=k + 1 < len(layers)))
    return images.pop(), (images, layers)


def _decode_backward(kept, g):
    images, layers = kept
    gradients = []
    for k in reversed(range(len(layers))):
        weight, bias = layers[k]
        moved = _turned(weight_gradient(g, images[k])[0])
        summed = jnp.sum(g, (0, 1, 2), dtype=jnp.float32)
        gradients.append((moved.astype(weight.dtype), summed.astype(bias.dtype)))
        g = halve(g, _turned(weight), gate=images[k] if k else None)
    return g, tuple(gradients[::-1])


_decode.defvjp(_decode_forward, _decode_backward)


def _by_item(function):
    """The function for one example; a batch of examples with shared weights is one call."""

    @custom_vmap
    def one(x, layers):
        return function(x[None], layers)[0]

    @one.def_vmap
    def several(size, batched, x, layers):
        if not any(jax.tree.leaves(batched[1])):
            return function(x, layers), True
        axes = jax.tree.map(lambda b: 0 if b else None, batched)
        return jax.vmap(lambda x, layers: function(x[None], layers)[0], axes)(x, layers), True

    return one


encode_image, decode_image = _by_item(_encode), _by_item(_decode)
