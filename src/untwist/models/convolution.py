"""The 4x4 convolution of stride 2 and its transpose, written as matrix products.

XLA's own convolution is slow inside loops on a CPU, and `vmap` over weights makes it a grouped one,
which is slow on a GPU. A matrix product over patches is neither.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from untwist.types import InputError


def downsample(
    x: Float[Array, "height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"],
) -> Float[Array, "half_height half_width out"]:
    """Returns the convolution of kernel 4x4, stride 2 and padding 1: half the height and width.

    y[i, j] = bias + sum over a, b of x[2i + a - 1, 2j + b - 1] @ weight[a, b]

    Args:
        x: One image; its height and width are even and at least 4.
        weight: PyTorch's `Conv2d(channel, out, 4, 2, 1).weight`, permuted by (2, 3, 1, 0).
        bias: One number an output channel.

    Returns:
        The smaller image.
    """
    height, width, channel = _even("downsample", x)
    blocks = jnp.pad(x, ((1, 1), (1, 1), (0, 0)))
    blocks = blocks.reshape(height // 2 + 1, 2, width // 2 + 1, 2, channel)
    blocks = blocks.transpose(0, 2, 1, 3, 4).reshape(height // 2 + 1, width // 2 + 1, 4 * channel)
    patches = jnp.concatenate(_corners(blocks), axis=-1)
    matrix = weight.reshape(2, 2, 2, 2, channel, -1).transpose(0, 2, 1, 3, 4, 5)
    return patches @ matrix.reshape(16 * channel, -1) + bias


def upsample(
    x: Float[Array, "height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"],
) -> Float[Array, "double_height double_width out"]:
    """Returns the transposed convolution of kernel 4x4, stride 2, padding 1: twice the size.

    y[2i + a - 1, 2j + b - 1] = bias + sum over all such i, a, j, b of x[i, j] @ weight[a, b]

    Args:
        x: One image; its height and width are even and at least 4.
        weight: PyTorch's `ConvTranspose2d(channel, out, 4, 2, 1).weight`, permuted by (2, 3, 0, 1).
        bias: One number an output channel.

    Returns:
        The larger image.
    """
    height, width, channel = _even("upsample", x)
    out = weight.shape[-1]
    patches = jnp.concatenate(_corners(jnp.pad(x, ((1, 1), (1, 1), (0, 0)))), axis=-1)
    # Row 2i + p of the padded result takes x[i - 1] by tap 2 + p and x[i] by tap p.
    matrix = weight.reshape(2, 2, 2, 2, channel, out)[::-1, :, ::-1].transpose(0, 2, 4, 1, 3, 5)
    blocks = patches @ matrix.reshape(4 * channel, 4 * out)
    blocks = blocks.reshape(height + 1, width + 1, 2, 2, out).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(2 * height + 2, 2 * width + 2, out)[1:-1, 1:-1] + bias


def _corners(blocks: Array) -> list[Array]:
    """Every 2x2 window of blocks, as four images shifted against each other."""
    height, width = blocks.shape[0] - 1, blocks.shape[1] - 1
    return [blocks[i : i + height, j : j + width] for i in (0, 1) for j in (0, 1)]


def _even(name: str, x: Array) -> tuple[int, int, int]:
    """The shape of an image that can be halved."""
    height, width, channel = x.shape
    if height % 2 or width % 2 or min(height, width) < 4:
        raise InputError(
            f"{name} expected an image of even height and width, at least 4; got {height}x{width}: "
            "crop, pad or resize the images"
        )
    return height, width, channel
