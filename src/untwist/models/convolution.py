"""The 4x4 convolution of stride 2 and its transpose, each in the form that its device does well.

`vmap` over weights makes a grouped convolution, which is slow on every device. Elsewhere than on a
CPU these are therefore matrix products: over blocks of 2x2 pixels, where patches of 4x4 would move
four times the bytes. On a CPU, XLA's convolution is the fastest form as long as
it is strided or plain: its own gradients are dilated or flipped, and up to a hundred times slower.
There the pair are two bilinear primitives, each the other's transpose in the image, whose gradient
in the weights is a matrix product; weights that differ between members are mapped one by one.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from untwist.types import InputError

THIN = 4
"""Images of so few channels are faster as products on a CPU too (docs/performance.md)."""

_convolve = partial(lax.conv_general_dilated, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def downsample(
    x: Float[Array, "height width channel"],
    weight: Float[Array, "kernel kernel channel out"],
    bias: Float[Array, " out"],
) -> Float[Array, "half_height half_width out"]:
    """Returns the convolution of kernel 4x4, stride 2 and padding 1: half the height and width.

    y[i, j] = bias + sum over a, b of x[2i + a - 1, 2j + b - 1] @ weight[a, b]

    A kernel of 2x2 has padding 0 instead: its patches do not overlap.

    Args:
        x: One image; its height and width are even.
        weight: PyTorch's `Conv2d(channel, out, 4, 2, 1).weight`, permuted by (2, 3, 1, 0).
        bias: One number an output channel.

    Returns:
        The smaller image.
    """
    height, width = x.shape[:2]
    if height % 2 or width % 2:
        raise InputError(
            f"downsample expected an image of even height and width, got {height}x{width}: "
            "crop, pad or resize the images"
        )
    if len(weight) == 2:
        blocks = x.reshape(height // 2, 2, width // 2, 2, -1).swapaxes(1, 2)
        return jnp.einsum("hwabc,abco->hwo", blocks, weight) + bias
    y = lax.platform_dependent(x[None], weight, cpu=_halve_p.bind, default=_halve_by_products)
    return y[0] + bias


def upsample(
    x: Float[Array, "height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"],
) -> Float[Array, "double_height double_width out"]:
    """Returns the transposed convolution of kernel 4x4, stride 2, padding 1: twice the size.

    y[2i + a - 1, 2j + b - 1] = bias + sum over all such i, a, j, b of x[i, j] @ weight[a, b]

    Args:
        x: One image.
        weight: PyTorch's `ConvTranspose2d(channel, out, 4, 2, 1).weight`, permuted by (2, 3, 0, 1).
        bias: One number an output channel.

    Returns:
        The larger image.
    """
    y = lax.platform_dependent(x[None], weight, cpu=_double_p.bind, default=_double_by_products)
    return y[0] + bias


def _halve(x: Array, weight: Array) -> Array:
    if x.shape[-1] <= THIN:
        return _halve_by_patches(x, weight)
    return _convolve(x, weight, (2, 2), ((1, 1), (1, 1)))


def _double(x: Array, weight: Array) -> Array:
    if weight.shape[-1] <= THIN:
        return double_thin(x, weight)
    kernel = _quarters(weight)[::-1, ::-1].transpose(0, 1, 4, 2, 3, 5)
    # The barrier keeps XLA from folding the flip into the convolution, which is slow when flipped.
    kernel = lax.optimization_barrier(kernel.reshape(2, 2, x.shape[-1], -1))
    return _from_blocks(_convolve(x, kernel, (1, 1), ((1, 1), (1, 1))))


def _halve_by_products(x: Array, weight: Array) -> Array:
    thin = x.shape[-1] <= THIN
    return _halve_by_patches(x, weight) if thin else _halve_by_taps(x, weight)


def _double_by_products(x: Array, weight: Array) -> Array:
    thin = weight.shape[-1] <= THIN
    return double_thin(x, weight) if thin else _double_by_windows(x, weight)


def _halve_by_patches(x: Array, weight: Array) -> Array:
    return patches(x) @ by_patch(weight)


def patches(
    x: Float[Array, "item height width channel"],
) -> Float[Array, "item half_height half_width patch"]:
    """Returns the 4x4 patches of every second pixel, in the order of `by_patch`."""
    return _windows(_blocks(x))


def by_patch(weight: Float[Array, "4 4 channel out"]) -> Float[Array, "patch out"]:
    """Returns the matrix that makes `downsample` without bias of patches."""
    return _quarters(weight).reshape(-1, weight.shape[-1])


def _halve_by_taps(x: Array, weight: Array) -> Array:
    channel, out = weight.shape[2:]
    kernel = _quarters(weight).transpose(2, 3, 4, 0, 1, 5).reshape(4 * channel, 4 * out)
    a, b, c, d = lax.split(_blocks(x) @ kernel, (out,) * 4, axis=-1)
    return a[:, :-1, :-1] + b[:, :-1, 1:] + c[:, 1:, :-1] + d[:, 1:, 1:]


def _double_by_windows(x: Array, weight: Array) -> Array:
    kernel = _quarters(weight)[::-1, ::-1].transpose(0, 1, 4, 2, 3, 5)
    windows = _windows(_pad(x, (1, 1), (1, 1)))
    return _from_blocks(windows @ kernel.reshape(4 * x.shape[-1], -1))


def double_thin(
    x: Float[Array, "item height width channel"], weight: Float[Array, "4 4 channel out"]
) -> Float[Array, "item double_height double_width out"]:
    """Returns `upsample` without bias by one product to all 16 taps: best for few outputs."""
    return from_taps(x @ by_taps(weight))


def by_taps(weight: Float[Array, "4 4 channel out"]) -> Float[Array, "channel tap"]:
    """Returns the matrix that makes all that a pixel adds to its 16 neighbors."""
    return _quarters(weight).transpose(4, 0, 1, 2, 3, 5).reshape(weight.shape[2], -1)


def from_taps(
    taps: Float[Array, "item height width tap"],
) -> Float[Array, "item double_height double_width out"]:
    """Returns the images that these contributions, in the order of `by_taps`, add up to."""
    # Split, because its transpose is a concatenation; that of four slices is a sum of paddings.
    a, b, c, d = lax.split(taps, (taps.shape[-1] // 4,) * 4, axis=-1)
    return _from_blocks(
        _pad(a, (0, 1), (0, 1))
        + _pad(b, (0, 1), (1, 0))
        + _pad(c, (1, 0), (0, 1))
        + _pad(d, (1, 0), (1, 0))
    )


def weight_gradient(
    large: Float[Array, "item height width channel"],
    small: Float[Array, "item half_height half_width out"],
) -> Float[Array, "4 4 channel out"]:
    """Returns the sum of large[2i + a - 1, 2j + b - 1] outer small[i, j], at [a, b]."""
    channel, out = large.shape[-1], small.shape[-1]
    # Four shifted copies are made of the blocks or of the small image: of the thinner one.
    if 4 * channel <= out:
        taps = _product(_windows(_blocks(large)), small).reshape(2, 2, 2, 2, channel, out)
    else:
        windows = _windows(_pad(small, (1, 1), (1, 1)))
        taps = _product(_blocks(large), windows).reshape(2, 2, channel, 2, 2, out)
        taps = taps.transpose(3, 4, 0, 1, 2, 5)[::-1, ::-1]
    return taps.transpose(0, 2, 1, 3, 4, 5).reshape(4, 4, channel, out)


def _product(x: Array, y: Array) -> Array:
    return x.reshape(-1, x.shape[-1]).T @ y.reshape(-1, y.shape[-1])


def _quarters(weight: Array) -> Array:
    """The kernel as 2x2 blocks of 2x2 taps: block row, block column, row, column, channel, out."""
    return weight.reshape(2, 2, 2, 2, *weight.shape[2:]).transpose(0, 2, 1, 3, 4, 5)


def _pad(x: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    return jnp.pad(x, ((0, 0), rows, columns, (0, 0)))


def _blocks(x: Array) -> Array:
    """The padded images as blocks of 2x2 pixels, whose values lie side by side in the channels."""
    item, height, width, channel = x.shape
    x = _pad(x, (1, 1), (1, 1)).reshape(item, height // 2 + 1, 2, width // 2 + 1, 2, channel)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(item, height // 2 + 1, width // 2 + 1, 4 * channel)


def _from_blocks(blocks: Array) -> Array:
    """The images whose padded blocks these are; what fell on the padding is dropped."""
    item, height, width, channel = blocks.shape
    x = blocks.reshape(item, height, width, 2, 2, channel // 4).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(item, 2 * height, 2 * width, channel // 4)[:, 1:-1, 1:-1]


def _windows(blocks: Array) -> Array:
    """Every 2x2 window of blocks, its four blocks side by side in the channels."""
    height, width = blocks.shape[1] - 1, blocks.shape[2] - 1
    corners = [blocks[:, i : i + height, j : j + width] for i in (0, 1) for j in (0, 1)]
    return jnp.concatenate(corners, axis=-1)


def _batch(primitive: Primitive, arguments: tuple, axes: tuple) -> tuple[Array, int]:
    """A batch of images joins the items; a batch of weights is mapped one member at a time."""
    x, weight = (
        a if axis is None else jnp.moveaxis(a, axis, 0)
        for a, axis in zip(arguments, axes, strict=True)
    )
    if axes[1] is None:
        y = primitive.bind(x.reshape(-1, *x.shape[2:]), weight)
        return y.reshape(*x.shape[:2], *y.shape[1:]), 0
    if axes[0] is None:
        return lax.map(lambda w: primitive.bind(x, w), weight), 0
    return lax.map(lambda pair: primitive.bind(*pair), (x, weight)), 0


def _primitive(function) -> Primitive:
    primitive = Primitive(function.__name__.strip("_"))

    def shape(x, weight):
        y = jax.eval_shape(function, x, weight)
        return x.update(shape=y.shape, dtype=y.dtype, weak_type=False)

    primitive.def_impl(jax.jit(function))
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    batching.primitive_batchers[primitive] = partial(_batch, primitive)
    return primitive


_halve_p, _double_p = _primitive(_halve), _primitive(_double)
ad.defbilinear(
    _halve_p,
    lambda g, x, weight: _double_p.bind(g, weight.swapaxes(2, 3)),
    lambda g, x, weight: weight_gradient(x, g),
)
ad.defbilinear(
    _double_p,
    lambda g, x, weight: _halve_p.bind(g, weight.swapaxes(2, 3)),
    lambda g, x, weight: weight_gradient(g, x).swapaxes(2, 3),
)
