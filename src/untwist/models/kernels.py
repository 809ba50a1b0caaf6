"""GPU kernels: the stride-2 convolution, its transpose, and the gradient in their weights.

A program owns a tile of pixels and gathers what a tap needs from the image as it is; bias,
activation and the activation's gradient happen before its one store, and so do the sums that are
a bias's gradient. Images are bfloat16 or float32, products add up in float32 (tf32 where images
are float32). Each kernel serves one member: `vmap` adds an axis of programs.

They are written in Pallas for its Triton backend. On a CPU the same code is interpreted, slowly,
which is how it is tested against `untwist.models.convolution`.

Reference: docs/performance.md; benchmarks/gpu/RECORD.md for what else was tried.
"""

import math
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from untwist.models.tiles import (
    add_up,
    entries,
    inside,
    launch,
    load,
    matrix,
    patch_of,
    pixels,
    position,
    product,
    quotient,
    remainder,
)

SIDE = 128
"""Rows and columns of weights a program."""
FAT = 16
"""From so many channels on, a tap is a product of its own."""
PEAK = 2.0**14
"""What the largest entry of a float32 operand becomes before it is rounded to float16."""


class Launch(NamedTuple):
    """How a kernel runs: pixels a program, warps a program, and loads under way in its loop."""

    tile: int = 128
    warps: int = 4
    stages: int = 3


LAUNCHES = {
    ("double", 2, False): Launch(stages=2),
    ("double", 2, True): Launch(stages=2),
    ("double", 4, False): Launch(stages=1),
    ("double", 4, True): Launch(tile=64),
}
"""What is faster than `Launch()`, by kernel, bytes an entry, and whether there is a gate."""


def halve(
    x: Float[Array, "item height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"] | None = None,
    gate: Float[Array, "item half_height half_width out"] | None = None,
    *,
    relu: bool = False,
    peak: bool = False,
) -> tuple[Float[Array, "item half_height half_width out"], Float[Array, ""] | None]:
    """Returns the convolution of kernel 4x4, stride 2 and padding 1, and its peak if asked.

    Args:
        x: Images of at most 4 channels, or of a power of two from 16.
        weight: As in `downsample`; its outputs are a power of two from 16.
        bias: Added, if given.
        gate: Where this is not above 0 the result is 0, if given.
        relu: Whether to rectify the result.
        peak: Whether to give the largest size of an entry of the result, too.
    """
    items, height, width, _ = x.shape
    shape = (items, height // 2, width // 2, weight.shape[-1])
    kernel = _halve_fat if x.shape[-1] >= FAT else _halve_thin
    arrays = {"weight": weight, "bias": bias, "gate": gate}
    return _convolve(kernel, x, arrays, shape, relu=relu, peak=peak)


def halve_twice(
    patches: Float[Array, "item half_height half_width patch"],
    first: tuple[Float[Array, "patch middle"], Float[Array, " middle"]],
    second: tuple[Float[Array, "4 4 middle out"], Float[Array, " out"]],
) -> Float[Array, "item quarter_height quarter_width out"]:
    """Returns two rectified convolutions one after the other; what is between is never stored.

    Each tap of the second makes what it needs of the first anew, four times in all. With c the
    first bias, max(x + c, 0) = max(x, -c) + c: its second term is the same for all images, and the
    sums start with it.

    Args:
        patches: The first one's patches, as many values as a power of two from 16.
        first: Weight and bias by patch; the outputs are a power of two from 16.
        second: Weight and bias as in `halve`.
    """
    items, height, width, _ = patches.shape
    shape = (items, height // 2, width // 2, second[1].size)
    floor = (-first[1]).astype(patches.dtype)
    start = _start(floor.astype(jnp.float32), second, height, width)
    arrays = {"first": first[0], "floor": floor, "weight": second[0], "start": start}
    return _convolve(_halve_twice, patches, arrays, shape, relu=True)[0]


def _start(floor: Array, layer: tuple[Array, Array], height: int, width: int) -> Array:
    """What `halve_twice` begins with, at each pixel: bias, and a correction for each tap.

    Taps inside the image lack -floor, those outside added max(0, floor) and should have nothing.
    """
    weight, bias = (array.astype(jnp.float32) for array in layer)
    lacking, excess = (
        jnp.einsum("c,abco->abo", side, weight, precision="highest")
        for side in (jnp.maximum(-floor, 0), jnp.maximum(floor, 0))
    )
    rows, columns = (_touched(n).astype(jnp.float32) for n in (height, width))
    within = jnp.einsum("ia,jb,abo->ijo", rows, columns, lacking, precision="highest")
    return bias + within - jnp.sum(excess, axis=(0, 1))


def _touched(size: int) -> Array:
    """Whether a tap of an output touches a side of this many pixels: outputs by taps."""
    place = 2 * jnp.arange(size // 2)[:, None] + jnp.arange(4)[None] - 1
    return (place >= 0) & (place < size)


def double(
    x: Float[Array, "item height width channel"],
    weight: Float[Array, "4 4 channel out"],
    bias: Float[Array, " out"] | None = None,
    gate: Float[Array, "item double_height double_width out"] | None = None,
    *,
    relu: bool = False,
    peak: bool = False,
) -> tuple[Float[Array, "item double_height double_width out"], Float[Array, ""] | None]:
    """Returns the transposed convolution of kernel 4x4, stride 2, padding 1, and its peak if asked.

    The arguments are those of `halve`; channels and outputs are powers of two from 16.
    """
    items, height, width, _ = x.shape
    shape = (items, 2 * height, 2 * width, weight.shape[-1])
    arrays = {"weight": weight, "bias": bias, "gate": gate}
    return _convolve(_double, x, arrays, shape, relu=relu, peak=peak)


def double_and_mix(
    x: Float[Array, "item height width channel"],
    layer: tuple[Float[Array, "4 4 channel middle"], Float[Array, " middle"]],
    mixing: Float[Array, "middle out"],
) -> Float[Array, "item double_height double_width out"]:
    """Returns the rectified `double` times a matrix; what is between is never stored.

    Args:
        x: Images.
        layer: Weight and bias, as in `double`.
        mixing: From its outputs to a power of two from 16.
    """
    items, height, width, _ = x.shape
    shape = (items, 2 * height, 2 * width, mixing.shape[1])
    arrays = {"weight": layer[0], "bias": layer[1], "mixing": mixing}
    return _convolve(_double, x, arrays, shape, relu=True)[0]


def weight_gradient(
    large: Float[Array, "item height width channel"],
    small: Float[Array, "item half_height half_width out"],
    peaks: tuple[Float[Array, ""], Float[Array, ""]] | None = None,
    *,
    add: str = "small",
) -> tuple[Float[Array, "4 4 channel out"], Float[Array, " _"]]:
    """Returns the sum of large[2i + a - 1, 2j + b - 1] outer small[i, j], at [a, b], in float32.

    Channels and outputs are powers of two from 16. Blocks of 2x2 pixels of the large image meet
    windows of 2x2 pixels of the small one, so that every pixel of the large one is read once. A
    product with ones adds up the pixels of one of them: the gradient of a bias.

    Matrix units turn 16-bit operands as they load them, tf32 ones not. Given peaks, float32
    images are therefore multiplied as float16, which has tf32's 10 bits of fraction; divided by
    their peaks, so that nothing overflows, and what is lost below is under 2^-38 of the peak.

    Args:
        large: Images.
        small: Images of half the height and width.
        peaks: The largest size of an entry of each.
        add: Whose pixels to add up, "large" or "small".

    Returns:
        The sum of products, and the sum of pixels.
    """
    items, height, width, channel = large.shape
    out, tile, steps = small.shape[-1], 32, 36
    blocks = items * (height // 2 + 1) * (width // 2 + 1)
    steps = min(steps, pl.cdiv(blocks, tile))
    rows, columns = min(SIDE, 4 * channel), min(SIDE, 4 * out)
    down, across = 4 * channel // rows, 4 * out // columns
    sizes = {"tile": tile, "steps": steps, "rows": rows, "columns": columns}
    kernel = partial(_weights, shape=large.shape, out=out, add=add, **sizes)
    grid = (down * across, pl.cdiv(blocks, tile * steps))
    scales = () if peaks is None else (PEAK / jnp.maximum(jnp.stack(peaks), 1e-30),)
    side = rows if add == "large" else columns
    arrays, made = (large, small, *scales), [16 * channel * out, down * across * side]
    sums, pixels = add_up(kernel, arrays, made, grid, warps=8, stages=4)
    pixels = pixels.reshape(down, across, side)
    pixels = pixels[:, 0].reshape(4, channel).sum(0) if add == "large" else pixels[0].ravel()[:out]
    for scale in scales:
        sums = sums / scale[0] / scale[1]
        pixels = pixels / scale[0 if add == "large" else 1]
    taps = sums.reshape(2, 2, channel, 2, 2, out)[:, :, :, ::-1, ::-1]
    return taps.transpose(3, 0, 4, 1, 2, 5).reshape(4, 4, channel, out), pixels


def thin_weight_gradient(
    large: Float[Array, "item height width channel"],
    small: Float[Array, "item half_height half_width out"],
) -> tuple[Float[Array, "4 4 channel out"], Float[Array, " out"]]:
    """Returns `weight_gradient` of a large image of at most 4 channels, and the sum of the small.

    The sum is the gradient of a bias; it costs one more row of the same product.
    """
    channel, out, steps = large.shape[-1], small.shape[-1], 32
    pixels = small.size // out
    steps = min(steps, pl.cdiv(pixels, 128))
    rows = pl.next_power_of_2(16 * channel + 1)
    kernel = partial(_thin_weights, shape=large.shape, out=out, tile=128, steps=steps, rows=rows)
    grid = (1, pl.cdiv(pixels, 128 * steps))
    sums = add_up(kernel, (large, small), [rows * out], grid)[0].reshape(rows, out)
    return sums[: 16 * channel].reshape(4, 4, channel, out), sums[16 * channel]


def _halve_fat(x_ref, refs, finish, *, shape, out, tile):
    items, height, width, channel = shape
    index = pl.program_id(0) * tile + jnp.arange(tile)
    item, i, j = position(index, height // 2, width // 2)

    def tap(k, y):
        row, column = 2 * i + (k >> 2) - 1, 2 * j + (k & 3) - 1
        x = pixels(x_ref, item, row, column, shape)
        return y + product(x, matrix(refs["weight"], k, channel, out))

    y = lax.fori_loop(0, 16, tap, jnp.zeros((tile, out), jnp.float32))
    finish(y, index, item < items)


def _halve_thin(x_ref, refs, finish, *, shape, out, tile):
    items, height, width, channel = shape
    index = pl.program_id(0) * tile + jnp.arange(tile)
    item, i, j = position(index, height // 2, width // 2)
    x = patch_of(x_ref, item, i, j, shape, pl.next_power_of_2(16 * channel))
    k, o = jnp.arange(x.shape[1]), jnp.arange(out)
    real = jnp.broadcast_to((k < 16 * channel)[:, None], (k.size, out))
    weight = load(refs["weight"], k[:, None] * out + o[None], real)
    finish(product(x, weight), index, item < items)


def _halve_twice(x_ref, refs, finish, *, shape, out, tile):
    items, height, width, patch = shape
    middle, h, w = refs["floor"].shape[0], height // 2, width // 2
    index = pl.program_id(0) * tile + jnp.arange(tile)
    item, i, j = position(index, h, w)
    first = matrix(refs["first"], 0, patch, middle)
    floor = refs["floor"][jnp.arange(middle)].astype(jnp.float32)[None]

    def tap(k, y):
        row, column = 2 * i + (k >> 2) - 1, 2 * j + (k & 3) - 1
        x = product(pixels(x_ref, item, row, column, shape), first)
        x = jnp.maximum(x, floor).astype(x_ref.dtype)
        return y + product(x, matrix(refs["weight"], k, middle, out))

    start = refs["start"][(i * w + j)[:, None] * out + jnp.arange(out)[None]]
    finish(lax.fori_loop(0, 16, tap, start), index, item < items)


def _double(x_ref, refs, finish, *, shape, out, tile):
    """A program makes one of four phases: the rows and columns that are even, or odd."""
    items, height, width, channel = shape
    program = pl.program_id(0)
    r, s = (program >> 1) & 1, program & 1
    index = (program >> 2) * tile + jnp.arange(tile)
    item, i, j = position(index, height, width)

    def tap(k, y):
        u, v = k >> 1, k & 1
        x = pixels(x_ref, item, i + r - u, j + s - v, shape)
        place = (2 * u + 1 - r) * 4 + 2 * v + 1 - s
        return y + product(x, matrix(refs["weight"], place, channel, out))

    y = lax.fori_loop(0, 4, tap, jnp.zeros((tile, out), jnp.float32))
    finish(y, (item * 2 * height + 2 * i + r) * 2 * width + 2 * j + s, item < items)


def _weights(large_ref, small_ref, *rest, shape, out, tile, steps, rows, columns, add):
    *scales_ref, y_ref, total_ref = rest
    items, height, width, channel = shape
    h, w = height // 2, width // 2
    part, first = pl.program_id(0), pl.program_id(1) * steps
    across = 4 * out // columns
    k = quotient(part, across) * rows + jnp.arange(rows)
    n = remainder(part, across) * columns + jnp.arange(columns)
    (r, s, c), (u, v, o) = position(k, 2, channel), position(n, 2, out)

    def step(t, sums):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = (part[:, None] for part in position(index, h + 1, w + 1))
        row, column = 2 * i - 1 + r[None], 2 * j - 1 + s[None]
        offsets = ((item * height + row) * width + column) * channel + c[None]
        large = load(large_ref, offsets, inside(row, column, height, width) & (item < items))
        row, column = i - 1 + u[None], j - 1 + v[None]
        offsets = ((item * h + row) * w + column) * out + o[None]
        small = load(small_ref, offsets, inside(row, column, h, w) & (item < items))
        for scales in scales_ref:
            large = (large * scales[0]).astype(jnp.float16)
            small = (small * scales[1]).astype(jnp.float16)
        added = large if add == "large" else small
        total = product(added, jnp.ones((tile, FAT), added.dtype), turned=True)
        return sums[0] + product(large, small, turned=True), sums[1] + total

    side = rows if add == "large" else columns
    start = jnp.zeros((rows, columns), jnp.float32), jnp.zeros((side, FAT), jnp.float32)
    y, total = lax.fori_loop(0, steps, step, start)
    y_ref[k[:, None] * (4 * out) + n[None]] = y
    total_ref[part * side + jnp.arange(side)] = jnp.sum(total, axis=1) / FAT  # equal columns


def _thin_weights(large_ref, small_ref, y_ref, *, shape, out, tile, steps, rows):
    items, height, width, channel = shape
    first, k, o = pl.program_id(1) * steps, jnp.arange(rows), jnp.arange(out)

    def step(t, y):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = position(index, height // 2, width // 2)
        large = patch_of(large_ref, item, i, j, shape, rows)
        one = (k == 16 * channel)[None] & (item < items)[:, None]
        large = jnp.where(one, jnp.ones_like(large), large)
        real = jnp.broadcast_to((item < items)[:, None], (tile, out))
        small = load(small_ref, index[:, None] * out + o[None], real)
        return y + product(large, small, turned=True)

    y = lax.fori_loop(0, steps, step, jnp.zeros((rows, out), jnp.float32))
    y_ref[k[:, None] * out + o[None]] = y


def _convolve(kernel, x, arrays, shape, *, relu, peak=False):
    """A convolution's kernel, with the end common to all: bias, activation, gate, store."""
    given = {name: array for name, array in arrays.items() if array is not None}
    name = kernel.__name__.strip("_")
    case = name, x.dtype.itemsize, "gate" in given
    tile, warps, stages = LAUNCHES.get(case, Launch())
    out, kept = given["weight"].shape[-1], shape[-1]
    phases = 4 if kernel is _double else 1
    grid = phases * pl.cdiv(shape[0] * shape[1] * shape[2] // phases, tile)

    def body(x_ref, *rest):
        refs, (y_ref, *peak_ref) = dict(zip(given, rest, strict=False)), rest[len(given) :]

        def finish(y, pixel, real):
            real = real[:, None]
            if "bias" in refs:
                y = y + refs["bias"][jnp.arange(out)].astype(jnp.float32)[None]
            y = jnp.maximum(y, 0) if relu else y
            if "gate" in refs:
                gate = load(refs["gate"], *entries(pixel, real, out))
                y = jnp.where(gate > 0, y, 0)
            if peak:
                size = jnp.where(jnp.broadcast_to(real, y.shape), jnp.abs(y), 0)
                peak_ref[0][pl.program_id(0)] = jnp.max(jnp.max(size, axis=1))
            if "mixing" in refs:
                y = product(y.astype(y_ref.dtype), matrix(refs["mixing"], 0, out, kept))
            offsets, mask = entries(pixel, real, kept)
            triton.store(y_ref.at[offsets], y.astype(y_ref.dtype), mask=mask)

        kernel(x_ref, refs, finish, shape=x.shape, out=out, tile=tile)

    body.__name__ = name
    sizes = [(math.prod(shape), x.dtype)] + [(grid, jnp.float32)] * peak
    y, *peaks = launch(body, (x, *given.values()), sizes, (grid,), warps, stages)
    return y.reshape(shape), jnp.max(peaks[0]) if peak else None
