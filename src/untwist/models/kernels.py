"""GPU kernels: the stride-2 convolution, its transpose, and the gradient in their weights.

Patches are never stored. A program owns a tile of pixels and gathers what a tap needs from the
image as it is; bias, activation and the activation's gradient happen before its one store. Images
are bfloat16 or float32, products add up in float32 (tf32 where images are float32). Each kernel
serves one member: `vmap` adds an axis of programs.

They are written in Pallas for its Triton backend. On a CPU the same code is interpreted, slowly,
which is how it is tested against `untwist.models.convolution`.

Reference: docs/performance.md; benchmarks/gpu/RECORD.md for what else was tried.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

TILE = 128
"""Pixels a program."""
SIDE = 128
"""Rows and columns of weights a program."""
FAT = 16
"""From so many channels on, a tap is a product of its own."""


def halve(
    x: Float[Array, "item height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"] | None = None,
    gate: Float[Array, "item half_height half_width out"] | None = None,
    *,
    relu: bool = False,
) -> Float[Array, "item half_height half_width out"]:
    """Returns the convolution of kernel 4x4, stride 2 and padding 1.

    Args:
        x: Images of at most 4 channels, or of a power of two from 16.
        weight: As in `downsample`; its outputs are a power of two from 16.
        bias: Added, if given.
        gate: Where this is not above 0 the result is 0, if given.
        relu: Whether to rectify the result.
    """
    items, height, width, _ = x.shape
    out = weight.shape[-1]
    shape = (items, height // 2, width // 2, out)
    kernel = _halve_fat if x.shape[-1] >= FAT else _halve_thin
    grid = pl.cdiv(items * shape[1] * shape[2], TILE)
    return _convolve(kernel, (x, weight, bias, gate), shape, relu, grid)


def double(
    x: Float[Array, "item height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"] | None = None,
    gate: Float[Array, "item double_height double_width out"] | None = None,
    *,
    relu: bool = False,
) -> Float[Array, "item double_height double_width out"]:
    """Returns the transposed convolution of kernel 4x4, stride 2 and padding 1.

    The arguments are those of `halve`; channels and outputs are powers of two from 16.
    """
    items, height, width, _ = x.shape
    shape = (items, 2 * height, 2 * width, weight.shape[-1])
    grid = 4 * pl.cdiv(items * height * width, TILE)
    return _convolve(_double, (x, weight, bias, gate), shape, relu, grid)


def weight_gradient(
    large: Float[Array, "item height width channel"],
    small: Float[Array, "item half_height half_width out"],
) -> Float[Array, "4 4 channel out"]:
    """Returns the sum of large[2i + a - 1, 2j + b - 1] outer small[i, j], at [a, b], in float32.

    Channels and outputs are powers of two from 16. Blocks of 2x2 pixels of the large image meet
    windows of 2x2 pixels of the small one, so that every pixel of the large one is read once.
    """
    items, height, width, channel = large.shape
    out, tile, steps = small.shape[-1], 32, 36
    blocks = items * (height // 2 + 1) * (width // 2 + 1)
    steps = min(steps, pl.cdiv(blocks, tile))
    rows, columns = min(SIDE, 4 * channel), min(SIDE, 4 * out)
    kernel = partial(
        _weights, shape=large.shape, out=out, tile=tile, steps=steps, rows=rows, columns=columns
    )
    grid = ((4 * channel // rows) * (4 * out // columns), pl.cdiv(blocks, tile * steps))
    sums = _launch(kernel, (large, small), 16 * channel * out, grid, warps=8, stages=4)
    taps = sums.reshape(2, 2, channel, 2, 2, out)[:, :, :, ::-1, ::-1]
    return taps.transpose(3, 0, 4, 1, 2, 5).reshape(4, 4, channel, out)


def thin_weight_gradient(
    large: Float[Array, "item height width channel"],
    small: Float[Array, "item half_height half_width out"],
) -> tuple[Float[Array, "4 4 channel out"], Float[Array, " out"]]:
    """Returns `weight_gradient` of a large image of at most 4 channels, and the sum of the small.

    The sum is the gradient of a bias; it costs one more row of the same product.
    """
    channel, out, steps = large.shape[-1], small.shape[-1], 32
    pixels = small.size // out
    steps = min(steps, pl.cdiv(pixels, TILE))
    rows = pl.next_power_of_2(16 * channel + 1)
    kernel = partial(_thin_weights, shape=large.shape, out=out, tile=TILE, steps=steps, rows=rows)
    grid = (1, pl.cdiv(pixels, TILE * steps))
    sums = _launch(kernel, (large, small), rows * out, grid).reshape(rows, out)
    return sums[: 16 * channel].reshape(4, 4, channel, out), sums[16 * channel]


def _halve_fat(x_ref, weight_ref, finish, *, shape, out):
    items, height, width, channel = shape
    index = pl.program_id(0) * TILE + jnp.arange(TILE)
    item, i, j = _pixel(index, height // 2, width // 2)
    c, o = jnp.arange(channel), jnp.arange(out)

    def tap(k, y):
        row, column = 2 * i + (k >> 2) - 1, 2 * j + (k & 3) - 1
        x = _pixels(x_ref, item, row, column, shape)
        return y + _product(x, weight_ref[(k * channel + c)[:, None] * out + o[None]])

    y = lax.fori_loop(0, 16, tap, jnp.zeros((TILE, out), jnp.float32))
    finish(y, index[:, None] * out + o[None], item < items)


def _halve_thin(x_ref, weight_ref, finish, *, shape, out):
    items, height, width, channel = shape
    index = pl.program_id(0) * TILE + jnp.arange(TILE)
    item, i, j = _pixel(index, height // 2, width // 2)
    x = _patches(x_ref, item, i, j, shape, pl.next_power_of_2(16 * channel))
    k, o = jnp.arange(x.shape[1]), jnp.arange(out)
    real = jnp.broadcast_to((k < 16 * channel)[:, None], (k.size, out))
    weight = _load(weight_ref, k[:, None] * out + o[None], real)
    finish(_product(x, weight), index[:, None] * out + o[None], item < items)


def _double(x_ref, weight_ref, finish, *, shape, out):
    """A program makes one of four phases: the rows and columns that are even, or odd."""
    items, height, width, channel = shape
    program = pl.program_id(0)
    r, s = (program >> 1) & 1, program & 1
    index = (program >> 2) * TILE + jnp.arange(TILE)
    item, i, j = _pixel(index, height, width)
    c, o = jnp.arange(channel), jnp.arange(out)

    def tap(k, y):
        u, v = k >> 1, k & 1
        x = _pixels(x_ref, item, i + r - u, j + s - v, shape)
        place = (2 * u + 1 - r) * 4 + 2 * v + 1 - s
        return y + _product(x, weight_ref[(place * channel + c)[:, None] * out + o[None]])

    y = lax.fori_loop(0, 4, tap, jnp.zeros((TILE, out), jnp.float32))
    start = ((item * 2 * height + 2 * i + r) * 2 * width + 2 * j + s) * out
    finish(y, start[:, None] + o[None], item < items)


def _weights(large_ref, small_ref, y_ref, *, shape, out, tile, steps, rows, columns):
    items, height, width, channel = shape
    h, w = height // 2, width // 2
    part, first = pl.program_id(0), pl.program_id(1) * steps
    across = 4 * out // columns
    k = _quotient(part, across) * rows + jnp.arange(rows)
    n = _remainder(part, across) * columns + jnp.arange(columns)
    (r, s, c), (u, v, o) = _pixel(k, 2, channel), _pixel(n, 2, out)

    def step(t, y):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = (part[:, None] for part in _pixel(index, h + 1, w + 1))
        row, column = 2 * i - 1 + r[None], 2 * j - 1 + s[None]
        offsets = ((item * height + row) * width + column) * channel + c[None]
        large = _load(large_ref, offsets, _inside(row, column, height, width) & (item < items))
        row, column = i - 1 + u[None], j - 1 + v[None]
        offsets = ((item * h + row) * w + column) * out + o[None]
        small = _load(small_ref, offsets, _inside(row, column, h, w) & (item < items))
        return y + _product(large, small, turned=True)

    y = lax.fori_loop(0, steps, step, jnp.zeros((rows, columns), jnp.float32))
    y_ref[k[:, None] * (4 * out) + n[None]] = y


def _thin_weights(large_ref, small_ref, y_ref, *, shape, out, tile, steps, rows):
    items, height, width, channel = shape
    first, k, o = pl.program_id(1) * steps, jnp.arange(rows), jnp.arange(out)

    def step(t, y):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = _pixel(index, height // 2, width // 2)
        large = _patches(large_ref, item, i, j, shape, rows)
        one = (k == 16 * channel)[None] & (item < items)[:, None]
        large = jnp.where(one, jnp.ones_like(large), large)
        real = jnp.broadcast_to((item < items)[:, None], (tile, out))
        small = _load(small_ref, index[:, None] * out + o[None], real)
        return y + _product(large, small, turned=True)

    y = lax.fori_loop(0, steps, step, jnp.zeros((rows, out), jnp.float32))
    y_ref[k[:, None] * out + o[None]] = y


def _convolve(kernel, arrays, shape, relu, grid):
    """A convolution's kernel, with the end common to all of them: bias, activation, gate, store."""
    x, weight, bias, gate = arrays
    out = shape[-1]

    def body(x_ref, weight_ref, *rest):
        rest, y_ref = list(rest[:-1]), rest[-1]
        bias_ref = None if bias is None else rest.pop(0)
        gate_ref = None if gate is None else rest.pop(0)

        def finish(y, offsets, real):
            real = jnp.broadcast_to(real[:, None], y.shape)
            if bias_ref is not None:
                y = y + bias_ref[jnp.arange(out)].astype(jnp.float32)[None]
            y = jnp.maximum(y, 0) if relu else y
            if gate_ref is not None:
                y = jnp.where(_load(gate_ref, offsets, real) > 0, y, 0)
            triton.store(y_ref.at[offsets], y.astype(y_ref.dtype), mask=real)

        kernel(x_ref, weight_ref, finish, shape=x.shape, out=out)

    body.__name__ = kernel.__name__.strip("_")
    size = shape[0] * shape[1] * shape[2] * out
    given = tuple(array for array in arrays if array is not None)
    return _launch(body, given, size, (grid,), dtype=x.dtype).reshape(shape)


def _launch(kernel, arrays, size, grid, *, dtype=jnp.float32, warps=4, stages=3):
    """The kernel's output on flat arrays, added up over the second axis of a grid that has one."""
    parts = grid[1:]
    block = (None, size) if parts else (size,)
    y = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec((array.size,), lambda *_: (0,)) for array in arrays],
        out_specs=pl.BlockSpec(block, lambda *place: (place[-1], 0) if parts else (0,)),
        out_shape=jax.ShapeDtypeStruct((*parts, size), dtype),
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=getattr(kernel, "__name__", None) or kernel.func.__name__.strip("_"),
    )(*(array.reshape(-1) for array in arrays))
    return jnp.sum(y, axis=0) if parts else y


def _pixels(ref, item, row, column, shape):
    """All channels of one pixel a row; zeros outside the images."""
    items, height, width, channel = shape
    c = jnp.arange(channel)
    start = ((item * height + row) * width + column) * channel
    mask = _inside(row, column, height, width) & (item < items)
    return _load(ref, start[:, None] + c[None], jnp.broadcast_to(mask[:, None], (TILE, channel)))


def _patches(ref, item, i, j, shape, size):
    """The 4x4 patch of one pixel a row, by tap and channel, filled up with zeros to this size."""
    items, height, width, channel = shape
    k = jnp.arange(size)
    row = 2 * i[:, None] + (_quotient(k, 4 * channel) - 1)[None]
    column = 2 * j[:, None] + (_remainder(_quotient(k, channel), 4) - 1)[None]
    item = item[:, None]
    mask = _inside(row, column, height, width) & (item < items) & (k < 16 * channel)[None]
    offsets = ((item * height + row) * width + column) * channel + _remainder(k, channel)[None]
    return _load(ref, offsets, mask)


def _load(ref, offsets, mask):
    """The entries at these offsets, zero where the mask is false."""
    return triton.load(ref.at[offsets], mask=mask, other=0)


def _product(x, y, *, turned=False):
    """X @ y, or the transpose of x @ y, added up in float32."""
    numbers = (((0 if turned else 1,), (0,)), ((), ()))
    return lax.dot_general(x, y, numbers, preferred_element_type=jnp.float32)


def _pixel(index, height, width):
    """Item, row and column of a pixel's number."""
    rows = _quotient(index, width)
    return _quotient(rows, height), _remainder(rows, height), _remainder(index, width)


def _quotient(x, y):
    """X // y of numbers that are not negative: without the instructions for those that are."""
    return lax.div(x, jnp.full_like(x, y))


def _remainder(x, y):
    return lax.rem(x, jnp.full_like(x, y))


def _inside(row, column, height, width):
    return (row >= 0) & (row < height) & (column >= 0) & (column < width)
