"""What the GPU kernels are made of: launching them, and gathering, multiplying, storing tiles."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton


def add_up(kernel, arrays, sizes, grid, *, warps=4, stages=3):
    """A kernel's float32 outputs, each added up over the second axis of its grid."""
    sizes = [(size, jnp.float32) for size in sizes]
    return [jnp.sum(made, axis=0) for made in launch(kernel, arrays, sizes, grid, warps, stages)]


def launch(kernel, arrays, sizes, grid, warps=4, stages=3):
    """The kernel's outputs on flat arrays, one for each place on the grid's second axis, if any."""
    parts = grid[1:]
    place = (lambda *at: (at[-1], 0)) if parts else (lambda *_: (0,))
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec((array.size,), lambda *_: (0,)) for array in arrays],
        out_specs=[pl.BlockSpec((None, n) if parts else (n,), place) for n, _ in sizes],
        out_shape=[jax.ShapeDtypeStruct((*parts, size), dtype) for size, dtype in sizes],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=getattr(kernel, "__name__", None) or kernel.func.__name__.strip("_"),
    )(*(array.reshape(-1) for array in arrays))


def matrix(ref, number, rows, columns):
    """One of the matrices of this size that lie one after another."""
    row = number * rows + jnp.arange(rows)
    return ref[row[:, None] * columns + jnp.arange(columns)[None]]


def entries(pixel, real, channel):
    """Where the channels of one pixel a row lie, and a mask of the same shape."""
    offsets = pixel[:, None] * channel + jnp.arange(channel)[None]
    return offsets, jnp.broadcast_to(real, offsets.shape)


def pixels(ref, item, row, column, shape):
    """All channels of one pixel a row; zeros outside the images."""
    items, height, width, channel = shape
    c = jnp.arange(channel)
    start = ((item * height + row) * width + column) * channel
    mask = inside(row, column, height, width) & (item < items)
    return load(
        ref, start[:, None] + c[None], jnp.broadcast_to(mask[:, None], (mask.size, channel))
    )


def patch_of(ref, item, i, j, shape, size):
    """The 4x4 patch of one pixel a row, by tap and channel, filled up with zeros to this size."""
    items, height, width, channel = shape
    k = jnp.arange(size)
    row = 2 * i[:, None] + (quotient(k, 4 * channel) - 1)[None]
    column = 2 * j[:, None] + (remainder(quotient(k, channel), 4) - 1)[None]
    item = item[:, None]
    mask = inside(row, column, height, width) & (item < items) & (k < 16 * channel)[None]
    offsets = ((item * height + row) * width + column) * channel + remainder(k, channel)[None]
    return load(ref, offsets, mask)


def load(ref, offsets, mask):
    """The entries at these offsets, zero where the mask is false."""
    return triton.load(ref.at[offsets], mask=mask, other=0)


def product(x, y, *, turned=False):
    """X @ y, or the transpose of x @ y, added up in float32."""
    numbers = (((0 if turned else 1,), (0,)), ((), ()))
    return lax.dot_general(x, y, numbers, preferred_element_type=jnp.float32)


def position(index, height, width):
    """Item, row and column of a pixel's number."""
    rows = quotient(index, width)
    return quotient(rows, height), remainder(rows, height), remainder(index, width)


def quotient(x, y):
    """X // y of numbers that are not negative: without the instructions for those that are."""
    return lax.div(x, jnp.full_like(x, y))


def remainder(x, y):
    """X % y of such numbers."""
    return lax.rem(x, jnp.full_like(x, y))


def inside(row, column, height, width):
    """Whether a pixel lies in the image."""
    return (row >= 0) & (row < height) & (column >= 0) & (column < width)
