"""GPU kernels: a stride-2 convolution, its transpose and its weight gradient, bias and relu inside.

Each kernel serves one member; `vmap` gives it one more axis of programs. Patches are never stored:
a program gathers the pixels of its tile tap by tap. Images are bfloat16 or float32, products add up
in float32. The same functions run anywhere with `interpret=True`, which is how they are tested.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float


def _interpreted():
    return COMPILED is False


COMPILED = jax.default_backend() != "cpu"


def _tile(ref, offsets, mask):
    """The entries at these offsets, zero where the mask is false."""
    return plt.load(ref.at[offsets], mask=mask, other=0)


def _pixel(index, height, width):
    """Item, row and column of a pixel's number."""
    return _div(index, height * width), _rem(_div(index, width), height), _rem(index, width)


def _div(x, y):
    """x // y for numbers that are not negative: one instruction where y is a power of two."""
    return jax.lax.div(x, jnp.full_like(x, y))


def _rem(x, y):
    return jax.lax.rem(x, jnp.full_like(x, y))


def _product(x, y, axis=1, split=False):
    """x @ y, or with axis 0 the transpose of x @ y, added up in float32."""
    numbers = (((axis,), (0,)), ((), ()))
    preset = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X3
    precision = preset if split and x.dtype == jnp.float32 and not _interpreted() else None
    return jax.lax.dot_general(x, y, numbers, precision, preferred_element_type=jnp.float32)


def _inside(row, column, height, width):
    return (row >= 0) & (row < height) & (column >= 0) & (column < width)


def _finish(y, bias_ref, gate_ref, y_ref, offsets, mask, channel, relu):
    """Adds the bias, rectifies, closes the gate where its entry is not above 0, and stores."""
    if bias_ref is not None:
        y = y + bias_ref[channel].astype(jnp.float32)[None]
    if relu:
        y = jnp.maximum(y, 0)
    if gate_ref is not None:
        y = jnp.where(_tile(gate_ref, offsets, mask) > 0, y, 0)
    if _interpreted():  # Here a masked entry writes back what it read: it must not be any other's.
        offsets = jnp.where(mask, offsets, y_ref.size)
    plt.store(y_ref.at[offsets], y.astype(y_ref.dtype), mask=mask)


def _split_refs(refs, bias, gate):
    """x, weight, then bias and gate if they are there, and the output."""
    refs = list(refs)
    x_ref, w_ref, y_ref = refs[0], refs[1], refs[-1]
    rest = refs[2:-1]
    return x_ref, w_ref, rest.pop(0) if bias else None, rest.pop(0) if gate else None, y_ref


def _halve_kernel(*refs, shape, out, tile, bias, gate, relu):
    x_ref, w_ref, b_ref, g_ref, y_ref = _split_refs(refs, bias, gate)
    items, height, width, channel = shape
    h, w = height // 2, width // 2
    index = pl.program_id(0) * tile + jnp.arange(tile)
    item, i, j = _pixel(index, h, w)
    o = jnp.arange(out)
    if channel >= 16:
        c = jnp.arange(channel)

        def tap(k, y):
            row, column = 2 * i + (k >> 2) - 1, 2 * j + (k & 3) - 1
            mask = _inside(row, column, height, width) & (item < items)
            start = ((item * height + row) * width + column) * channel
            x = _tile(x_ref, start[:, None] + c[None], mask[:, None] & (c[None] >= 0))
            kernel = w_ref[(k * channel + c)[:, None] * out + o[None]]
            return y + _product(x, kernel)

        y = jax.lax.fori_loop(0, 16, tap, jnp.zeros((tile, out), jnp.float32))
    else:
        x = _patches(x_ref, item, i, j, shape)
        k = jnp.arange(x.shape[1])
        kernel = _tile(w_ref, k[:, None] * out + o[None], (k[:, None] < 16 * channel) & (o[None] >= 0))
        y = _product(x, kernel)
    offsets = index[:, None] * out + o[None]
    _finish(y, b_ref, g_ref, y_ref, offsets, (item < items)[:, None] & (o[None] >= 0), o, relu)


def _patches(ref, item, i, j, shape, ones=False):
    """The 4x4 patches of a thin image: pixel by (tap, channel), padded to a power of two.

    With `ones`, the column after the last tap is one.
    """
    items, height, width, channel = shape
    size = pl.next_power_of_2(16 * channel + ones)
    k = jnp.arange(size)
    row = 2 * i[:, None] + (_div(k, 4 * channel) - 1)[None]
    column = 2 * j[:, None] + (_rem(_div(k, channel), 4) - 1)[None]
    mask = _inside(row, column, height, width) & (item < items)[:, None] & (k < 16 * channel)[None]
    offsets = ((item[:, None] * height + row) * width + column) * channel + _rem(k, channel)[None]
    x = _tile(ref, offsets, mask)
    if ones:
        x = jnp.where((k == 16 * channel)[None] & (item < items)[:, None], jnp.ones_like(x), x)
    return x


def _double_kernel(*refs, shape, out, tile, bias, gate, relu):
    """One of the four phases of the output, whose rows and columns are even or odd, a program."""
    x_ref, w_ref, b_ref, g_ref, y_ref = _split_refs(refs, bias, gate)
    items, height, width, channel = shape
    program = pl.program_id(0)
    r, s = (program >> 1) & 1, program & 1
    index = (program >> 2) * tile + jnp.arange(tile)
    item, i, j = _pixel(index, height, width)
    c, o = jnp.arange(channel), jnp.arange(out)

    def tap(n, y):
        u, v = n >> 1, n & 1
        row, column = i + r - u, j + s - v
        mask = _inside(row, column, height, width) & (item < items)
        start = ((item * height + row) * width + column) * channel
        x = _tile(x_ref, start[:, None] + c[None], mask[:, None] & (c[None] >= 0))
        place = (2 * u + 1 - r) * 4 + 2 * v + 1 - s
        kernel = w_ref[(place * channel + c)[:, None] * out + o[None]]
        return y + _product(x, kernel)

    y = jax.lax.fori_loop(0, 4, tap, jnp.zeros((tile, out), jnp.float32))
    start = ((item * 2 * height + 2 * i + r) * 2 * width + 2 * j + s) * out
    mask = (item < items)[:, None] & (o[None] >= 0)
    _finish(y, b_ref, g_ref, y_ref, start[:, None] + o[None], mask, o, relu)


def _weight_kernel(l_ref, s_ref, y_ref, *, shape, out, tile, steps, rows, columns, split):
    """Adds up blocks of the large image outer windows of the small one, over a run of blocks."""
    items, height, width, channel = shape
    h, w = height // 2, width // 2
    across = 4 * out // columns
    part, first = pl.program_id(0), pl.program_id(1) * steps
    k = (_div(part, across)) * rows + jnp.arange(rows)
    r, s, c = _pixel(k, 2, channel)
    n = (_rem(part, across)) * columns + jnp.arange(columns)
    u, v, o = _pixel(n, 2, out)

    def step(t, y):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = (a[:, None] for a in _pixel(index, h + 1, w + 1))
        row, column = 2 * i - 1 + r[None], 2 * j - 1 + s[None]
        mask = _inside(row, column, height, width) & (item < items)
        large = _tile(l_ref, ((item * height + row) * width + column) * channel + c[None], mask)
        row, column = i - 1 + u[None], j - 1 + v[None]
        mask = _inside(row, column, h, w) & (item < items)
        small = _tile(s_ref, ((item * h + row) * w + column) * out + o[None], mask)
        return y + _product(large, small, 0, split)

    y = jax.lax.fori_loop(0, steps, step, jnp.zeros((rows, columns), jnp.float32))
    y_ref[k[:, None] * (4 * out) + n[None]] = y


def _thin_weight_kernel(l_ref, s_ref, y_ref, *, shape, out, tile, steps, split):
    """The same for a thin large image, whose patches fit; the row after the taps sums the small."""
    items, height, width, channel = shape
    h, w = height // 2, width // 2
    o = jnp.arange(out)
    size = pl.next_power_of_2(16 * channel + 1)
    first = pl.program_id(0) * steps

    def step(t, y):
        index = (first + t) * tile + jnp.arange(tile)
        item, i, j = _pixel(index, h, w)
        large = _patches(l_ref, item, i, j, shape, ones=True)
        mask = (item < items)[:, None] & (o[None] >= 0)
        small = _tile(s_ref, index[:, None] * out + o[None], mask)
        return y + _product(large, small, 0, split)

    y = jax.lax.fori_loop(0, steps, step, jnp.zeros((size, out), jnp.float32))
    y_ref[jnp.arange(size)[:, None] * out + o[None]] = y


def _call(kernel, arrays, shape, dtype, grid, warps, stages, name):
    """The kernel on flat arrays; with several parts along the second axis of the grid, their sum."""
    arrays = [a.reshape(-1) for a in arrays]
    size = 1
    for n in shape:
        size *= n
    parts = grid[1] if len(grid) > 1 else 1
    specs = [pl.BlockSpec(a.shape, lambda *_: (0,)) for a in arrays]
    if len(grid) > 1:
        spec = pl.BlockSpec((None, size), lambda p, s: (s, 0))
        whole = jax.ShapeDtypeStruct((parts, size), dtype)
    else:
        spec = pl.BlockSpec((size,), lambda p: (0,))
        whole = jax.ShapeDtypeStruct((size,), dtype)
    y = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=specs,
        out_specs=spec,
        out_shape=whole,
        compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=_interpreted(),
        name=name,
    )(*arrays)
    return y.reshape(*((parts,) if len(grid) > 1 else ()), *shape)


def halve(x, weight, bias=None, gate=None, *, relu=False, tile=128, warps=4, stages=3):
    items, height, width, channel = x.shape
    out = weight.shape[-1]
    shape = (items, height // 2, width // 2, out)
    arrays = [x, weight] + [a for a in (bias, gate) if a is not None]
    count = items * shape[1] * shape[2]
    kernel = partial(
        _halve_kernel, shape=x.shape, out=out, tile=tile,
        bias=bias is not None, gate=gate is not None, relu=relu,
    )
    return _call(kernel, arrays, shape, x.dtype, (pl.cdiv(count, tile),), warps, stages, "halve")


def double(x, weight, bias=None, gate=None, *, relu=False, tile=128, warps=4, stages=3):
    items, height, width, channel = x.shape
    out = weight.shape[-1]
    shape = (items, 2 * height, 2 * width, out)
    arrays = [x, weight] + [a for a in (bias, gate) if a is not None]
    count = items * height * width
    kernel = partial(
        _double_kernel, shape=x.shape, out=out, tile=tile,
        bias=bias is not None, gate=gate is not None, relu=relu,
    )
    return _call(kernel, arrays, shape, x.dtype, (4 * pl.cdiv(count, tile),), warps, stages, "double")


def weight_gradient(large, small, *, tile=None, steps=None, side=128, warps=None, stages=None, split=False):
    items, height, width, channel = large.shape
    h, w, out = small.shape[1:]
    thin = channel < 16
    tile, steps = tile or (128 if thin else 32), steps or (32 if thin else 36)
    warps, stages = warps or (4 if thin else 8), stages or (3 if thin else 4)
    if thin:
        tiles = pl.cdiv(items * h * w, tile)
        steps = min(steps, tiles)
        size = pl.next_power_of_2(16 * channel + 1)
        kernel = partial(_thin_weight_kernel, shape=large.shape, out=out, tile=tile, steps=steps, split=split)

        def run(l_ref, s_ref, y_ref):
            kernel(l_ref, s_ref, y_ref)

        arrays = [large.reshape(-1), small.reshape(-1)]
        parts = pl.cdiv(tiles, steps)
        y = pl.pallas_call(
            run, grid=(parts,),
            in_specs=[pl.BlockSpec(a.shape, lambda p: (0,)) for a in arrays],
            out_specs=pl.BlockSpec((None, size * out), lambda p: (p, 0)),
            out_shape=jax.ShapeDtypeStruct((parts, size * out), jnp.float32),
            compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages),
            interpret=_interpreted(), name="thin_weight",
        )(*arrays)
        y = y.sum(0).reshape(size, out)
        return y[: 16 * channel].reshape(4, 4, channel, out), y[16 * channel]
    rows, columns = min(side, 4 * channel), min(side, 4 * out)
    tiles = pl.cdiv(items * (h + 1) * (w + 1), tile)
    steps = min(steps, tiles)
    kernel = partial(
        _weight_kernel, shape=large.shape, out=out, tile=tile, steps=steps, rows=rows, columns=columns, split=split
    )
    grid = ((4 * channel // rows) * (4 * out // columns), pl.cdiv(tiles, steps))
    y = _call(kernel, [large, small], (2, 2, channel, 2, 2, out), jnp.float32, grid, warps, stages, "weight")
    y = y.sum(0)[:, :, :, ::-1, ::-1].transpose(3, 0, 4, 1, 2, 5)
    return y.reshape(4, 4, channel, out), None
