"""Encoders and decoders: from one example to features, and from latents to one example's shape.

An encoder or decoder is built from a `Layers` record, which is data: the published architectures
are lists of them. Convolutions have kernel 4 or 2 and stride 2, as everywhere in the field.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from untwist.models.convolution import downsample, upsample
from untwist.models.dense import ACTIVATIONS, Dense, glorot
from untwist.models.fused import decode_image, encode_image, fusible
from untwist.types import InputError, nearest


@dataclass(frozen=True)
class Layers:
    """The hidden layers of one network, in forward order; nothing at all is an affine map.

    Attributes:
        dense: Widths of the dense hidden layers.
        channels: Channels of the stride-2 convolutions: the outputs of an encoder's, the inputs of
            a decoder's. An encoder convolves first, a decoder last.
        kernels: One kernel size a convolution.
        activation: The nonlinearity after every hidden layer.
    """

    dense: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    kernels: tuple[int, ...] = ()
    activation: str = "relu"

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise nearest("activation", self.activation, ACTIVATIONS)
        if len(self.channels) != len(self.kernels):
            raise InputError(
                "give one kernel size for each convolution, but got "
                f"{len(self.channels)} channels and {len(self.kernels)} kernels"
            )


class Convolution(eqx.Module):
    """One stride-2 convolution or its transpose: weights start by `glorot`, biases at zero."""

    weight: Float[Array, "kernel kernel input output"]
    bias: Float[Array, " output"]

    def __init__(self, inputs: int, outputs: int, kernel: int, *, key: Key[Array, ""]):
        taps = kernel * kernel
        shape = (kernel, kernel, inputs, outputs)
        self.weight = glorot(shape, taps * inputs, taps * outputs, key=key)
        self.bias = jnp.zeros(outputs)


class Encoder(eqx.Module):
    """Convolutions (if any), then dense layers, to a vector of features."""

    convolutions: tuple[Convolution, ...]
    dense: Dense
    activation: str = eqx.field(static=True)

    def __init__(
        self, layers: Layers, shape: tuple[int, ...], features: int, *, key: Key[Array, ""]
    ):
        convolution_key, dense_key = jax.random.split(key)
        flat, inner_channels = _inner_shape(layers, shape)
        channels = (*shape[2:], *layers.channels) if layers.channels else ()
        self.convolutions = _convolutions(channels, layers.kernels, key=convolution_key)
        inputs = math.prod(flat) * inner_channels
        self.dense = Dense((inputs, *layers.dense, features), layers.activation, key=dense_key)
        self.activation = layers.activation

    def __call__(
        self, x: Float[Array, "*shape"], *, fused: bool = False
    ) -> Float[Array, " feature"]:
        """Returns the features of one example."""
        layers = tuple((c.weight, c.bias) for c in self.convolutions)
        if fused and fusible(self.activation, layers, thin=0):
            return self.dense(encode_image(x, layers).reshape(-1))
        for convolution in self.convolutions:
            x = downsample(x, convolution.weight, convolution.bias)
            x = ACTIVATIONS[self.activation](x)
        return self.dense(x.reshape(-1))


class Decoder(eqx.Module):
    """Dense layers, then transposed convolutions (if any), to the shape of one example."""

    dense: Dense
    convolutions: tuple[Convolution, ...]
    activation: str = eqx.field(static=True)
    inner_shape: tuple[int, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, layers: Layers, shape: tuple[int, ...], latents: int, *, key: Key[Array, ""]
    ):
        dense_key, convolution_key = jax.random.split(key)
        self.inner_shape, self.shape = _inner_shape(layers, shape)[0], shape
        channels = (*layers.channels, *shape[2:]) if layers.channels else ()
        if layers.channels:
            self.inner_shape = (*self.inner_shape, layers.channels[0])
        outputs = math.prod(self.inner_shape)
        self.dense = Dense((latents, *layers.dense, outputs), layers.activation, key=dense_key)
        self.convolutions = _convolutions(channels, layers.kernels, key=convolution_key)
        self.activation = layers.activation

    def __call__(
        self, z: Float[Array, " latent"], *, fused: bool = False
    ) -> Float[Array, "*shape"]:
        """Returns the likelihood's parameters for one example."""
        x = self.dense(z).reshape(self.inner_shape)
        layers = tuple((c.weight, c.bias) for c in self.convolutions)
        if fused and fusible(self.activation, layers, thin=-1):
            return decode_image(ACTIVATIONS[self.activation](x), layers).reshape(self.shape)
        for convolution in self.convolutions:
            x = ACTIVATIONS[self.activation](x)
            x = upsample(x, convolution.weight, convolution.bias)
        return x.reshape(self.shape)


def _inner_shape(layers: Layers, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The image shape inside the convolutions and its channels; the example's shape without any."""
    if not layers.channels:
        return shape, 1
    factor = 2 ** len(layers.channels)
    if len(shape) != 3:
        raise InputError(
            f"convolutions need images of shape (height, width, channels), but got {shape}: "
            "choose a dense architecture"
        )
    height, width, _ = shape
    if height % factor or width % factor:
        raise InputError(
            f"{len(layers.channels)} stride-2 convolutions need an image height and width that "
            f"{factor} divides, but got {height}x{width}: resize the images or use fewer layers"
        )
    return (height // factor, width // factor), layers.channels[-1]


def _convolutions(
    channels: tuple[int, ...], kernels: tuple[int, ...], *, key: Key[Array, ""]
) -> tuple[Convolution, ...]:
    """The chain of convolutions through these channel counts."""
    keys = jax.random.split(key, max(len(kernels), 1))
    return tuple(
        Convolution(inputs, outputs, kernel, key=layer_key)
        for inputs, outputs, kernel, layer_key in zip(
            channels[:-1], channels[1:], kernels, keys, strict=False
        )
    )
