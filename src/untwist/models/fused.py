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
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from untwist.models.convolution import THIN, by_patch, by_taps, double_thin, from_taps, patches
from untwist.models.kernels import (
    FAT,
    double,
    double_and_mix,
    halve,
    halve_twice,
    thin_weight_gradient,
    weight_gradient,
)

PRECISION = "jax_default_matmul_precision"
COARSE = (None, "default", "fastest", "tensorfloat32")
"""Settings of JAX's under which a GPU multiplies float32 with 10 bits of fraction."""

Layer = tuple[Float[Array, "_ _ _ _"], Float[Array, " _"]]


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


def _encode_only(x: Array, layers: tuple[Layer, ...]) -> Array:
    """The encoder's images where nothing is differentiated: its largest is never stored."""
    if len(layers) == 1:
        return halve(x, *layers[0], relu=True)[0]
    (weight, bias), second, *rest = layers
    matrix, seen = by_patch(weight), patches(x)
    rows = ((0, pl.next_power_of_2(len(matrix)) - len(matrix)),)
    x = halve_twice(
        jnp.pad(seen, ((0, 0),) * 3 + rows), (jnp.pad(matrix, (*rows, (0, 0))), bias), second
    )
    for weight, bias in rest:
        x = halve(x, weight, bias, relu=True)[0]
    return x


def _encode_forward(x: Array, layers: tuple[Layer, ...]) -> tuple[Array, tuple]:
    images, peaks = [x], _no_peaks()
    for weight, bias in layers:
        image, peak = halve(images[-1], weight, bias, relu=True, peak=_rounds(x))
        images.append(image)
        peaks.append(peak)
    return images[-1], (images, peaks, layers)


def _encode_backward(kept: tuple, g: Array) -> tuple[Array, tuple[Layer, ...]]:
    images, peaks, layers = kept
    g, peak = jnp.where(images[-1] > 0, g, 0), None
    gradients = []
    for k in reversed(range(1, len(layers))):
        moved, sums = _weight_gradient((images[k], peaks[k]), (g, peak), "small")
        gradients.append(_like(layers[k], moved, sums))
        g, peak = double(g, _turned(layers[k][0]), gate=images[k], peak=_rounds(g) and k > 1)
    gradients.append(_like(layers[0], *thin_weight_gradient(images[0], g)))
    return double_thin(g, _turned(layers[0][0])), tuple(gradients[::-1])


def _decode_only(x: Array, layers: tuple[Layer, ...]) -> Array:
    """The decoder's images where nothing is differentiated: its largest is never stored."""
    *rest, (weight, bias) = layers
    if not rest:
        return double_thin(x, weight) + bias
    for layer in rest[:-1]:
        x = double(x, *layer, relu=True)[0]
    matrix = by_taps(weight)
    taps = matrix.shape[1]
    columns = (0, pl.next_power_of_2(taps) - taps)
    mixed = double_and_mix(x, rest[-1], jnp.pad(matrix, ((0, 0), columns)))
    return from_taps(mixed[..., :taps]) + bias


def _decode_forward(x: Array, layers: tuple[Layer, ...]) -> tuple[Array, tuple]:
    images, peaks = [x], _no_peaks()
    for weight, bias in layers[:-1]:
        image, peak = double(images[-1], weight, bias, relu=True, peak=_rounds(x))
        images.append(image)
        peaks.append(peak)
    weight, bias = layers[-1]
    return double_thin(images[-1], weight) + bias, (images, peaks, layers)


def _decode_backward(kept: tuple, g: Array) -> tuple[Array, tuple[Layer, ...]]:
    images, peaks, layers = kept
    moved = _turned(thin_weight_gradient(g, images[-1])[0])
    gradients = [_like(layers[-1], moved, jnp.sum(g, axis=(0, 1, 2), dtype=jnp.float32))]
    for k in reversed(range(1, len(layers))):
        g, peak = halve(g, _turned(layers[k][0]), gate=images[k], peak=_rounds(g))
        moved, sums = _weight_gradient((g, peak), (images[k - 1], peaks[k - 1]), "large")
        gradients.append(_like(layers[k - 1], _turned(moved), sums))
    return halve(g, _turned(layers[0][0]))[0], tuple(gradients[::-1])


def _no_peaks() -> list[Array | None]:
    """The peaks of a network's images, in the order of its layers; no kernel gives the first."""
    return [None]


def _rounds(x: Array) -> bool:
    """Whether gradients in the weights are products of float16: for tf32's precision, no better."""
    return x.dtype == jnp.float32 and getattr(jax.config, PRECISION) in COARSE


def _weight_gradient(
    large: tuple[Array, Array | None], small: tuple[Array, Array | None], add: str
) -> tuple[Array, Array]:
    """Of two images with their peaks, which are found here where no kernel gave them."""
    if not _rounds(large[0]):
        return weight_gradient(large[0], small[0], add=add)
    return weight_gradient(large[0], small[0], (_peak(*large), _peak(*small)), add=add)


def _peak(image: Array, peak: Array | None) -> Array:
    return jnp.max(jnp.abs(image)) if peak is None else peak


def _like(layer: Layer, weight: Array, bias: Array) -> Layer:
    return weight.astype(layer[0].dtype), bias.astype(layer[1].dtype)


def _turned(weight: Array) -> Array:
    return weight.swapaxes(2, 3)


def _by_item(only: Callable, forward: Callable, backward: Callable) -> Callable:
    """The function of one example; a batch of examples that share weights is one call."""
    function = jax.custom_vjp(only)
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


encode_image = _by_item(_encode_only, _encode_forward, _encode_backward)
"""The encoder's convolutions and activations, of one example."""

decode_image = _by_item(_decode_only, _decode_forward, _decode_backward)
"""The decoder's convolutions, and the activations between them, of one rectified example."""
