import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untwist.models.convolution import _double_by_products, _halve_by_products, downsample, upsample
from untwist.types import InputError

FUNCTIONS = [downsample, upsample]
SHAPES = [(4, 4, 1, 3), (8, 6, 3, 2), (16, 4, 5, 1), (6, 10, 32, 16), (12, 12, 2, 64)]


def oracle(function, x, weight, bias):
    """XLA's own convolution; its transpose slides the flipped kernel over the dilated image."""
    if function is downsample:
        kernel, stride, dilation, padding = weight, (2, 2), (1, 1), 1
    else:
        kernel, stride, dilation, padding = weight[::-1, ::-1], (1, 1), (2, 2), 2
    return bias + lax.conv_general_dilated(
        x[None],
        kernel,
        stride,
        ((padding, padding),) * 2,
        lhs_dilation=dilation,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST,
    )[0].astype(x.dtype)


def arguments(height, width, channel, out, *, lead=(), dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = ((height, width, channel), (4, 4, channel, out), (out,))
    return tuple(
        jax.random.normal(key, lead + shape, dtype) for key, shape in zip(keys, shapes, strict=True)
    )


def close(got, expected, *, dtype=jnp.float32):
    """Equal within 16 roundings of the largest entry."""
    expected = np.asarray(expected, np.float64)
    tolerance = 16 * float(jnp.finfo(dtype).eps) * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_convolution_of_xla_in_value_and_gradients(function, shape):
    given = arguments(*shape)
    value, pull = jax.vjp(function, *given)
    expected, pull_expected = jax.vjp(lambda *a: oracle(function, *a), *given)
    close(value, expected)
    cotangent = jax.random.normal(jax.random.key(1), value.shape)
    for got, want in zip(pull(cotangent), pull_expected(cotangent), strict=True):
        close(got, want)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward_and_reverse_mode_agree(function):
    given = arguments(6, 8, 3, 5)
    tangents = jax.tree.map(lambda a: jax.random.normal(jax.random.key(2), a.shape), given)
    value, tangent = jax.jvp(function, given, tangents)
    cotangent = jax.random.normal(jax.random.key(3), value.shape)
    pulled = jax.vjp(function, *given)[1](cotangent)
    left = jnp.vdot(cotangent, tangent)
    right = sum(jnp.vdot(p, t) for p, t in zip(pulled, tangents, strict=True))
    scale = jnp.linalg.norm(cotangent) * jnp.linalg.norm(tangent)
    assert abs(left - right) <= 16 * jnp.finfo(jnp.float32).eps * scale


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jacobians_of_both_modes_agree_under_vmap(function):
    x, weight, bias = arguments(4, 4, 2, 3, lead=(2,))
    forward = jax.vmap(jax.jacfwd(function, argnums=(0, 1)))(x, weight, bias)
    reverse = jax.vmap(jax.jacrev(function, argnums=(0, 1)))(x, weight, bias)
    jax.tree.map(close, forward, reverse)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_members_and_batch_equal_single_calls(function):
    weights = arguments(8, 8, 3, 4, lead=(2,))[1:]
    x = jax.random.normal(jax.random.key(4), (2, 5, 8, 8, 3))
    batched = jax.vmap(jax.vmap(function, in_axes=(0, None, None)))(x, *weights)
    for member in range(2):
        for item in range(5):
            single = oracle(function, x[member, item], *(w[member] for w in weights))
            close(batched[member, item], single)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_members_may_share_one_image(function):
    x, *_ = arguments(4, 6, 3, 4)
    weights = arguments(4, 6, 3, 4, lead=(3,))[1:]

    def loss(convolve, *weights):
        return jnp.sum(jax.vmap(lambda w, b: convolve(x, w, b), in_axes=0)(*weights) ** 2)

    got = jax.grad(lambda *w: loss(function, *w), argnums=(0, 1))(*weights)
    want = jax.grad(lambda *w: loss(lambda *a: oracle(function, *a), *w), argnums=(0, 1))(*weights)
    jax.tree.map(close, got, want)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_second_derivatives_equal_those_of_xla(function):
    """In float64: in float32 XLA's own second derivative is 40 roundings off."""
    with jax.enable_x64(True):
        x, weight, bias = arguments(4, 4, 2, 2, dtype=jnp.float64)

        def stretch(convolve, weight):
            push = jax.jvp(lambda x: jnp.tanh(convolve(x, weight, bias)), (x,), (x,))[1]
            return jnp.sum(push**2)

        got = jax.grad(lambda w: stretch(function, w))(weight)
        want = jax.grad(lambda w: stretch(lambda *a: oracle(function, *a), w))(weight)
        close(got, want, dtype=jnp.float64)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("transform", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("channels", [(3, 2), (5, 6)])
def test_the_form_for_other_devices_agrees(function, transform, channels):
    other = {downsample: _halve_by_products, upsample: _double_by_products}[function]
    x, weight, bias = arguments(4, 6, *channels)
    got = transform(lambda *a: other(a[0][None], a[1])[0] + bias, argnums=(0, 1))(x, weight)
    want = transform(lambda *a: oracle(function, *a, bias), argnums=(0, 1))(x, weight)
    jax.tree.map(close, got, want)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_descends_inside_a_loop_as_the_convolution_of_xla_does(function):
    def descend(convolve):
        def loss(weights, x):
            return jnp.mean(jax.vmap(convolve, in_axes=(0, None, None))(x, *weights) ** 2)

        def step(_, state):
            gradient = jax.vmap(jax.grad(loss))(state, x)
            return jax.tree.map(lambda w, g: w - 0.01 * g, state, gradient)

        return jax.jit(lambda state: lax.fori_loop(0, 3, step, state))(weights)

    weights = arguments(8, 8, 3, 4, lead=(2,))[1:]
    x = jax.random.normal(jax.random.key(5), (2, 5, 8, 8, 3))
    jax.tree.map(close, descend(function), descend(lambda *a: oracle(function, *a)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bfloat16_stays_and_is_right_within_its_precision(function):
    given = arguments(8, 8, 16, 8, dtype=jnp.bfloat16)
    got = function(*given)
    assert got.dtype == jnp.bfloat16
    close(got, oracle(function, *(a.astype(jnp.float32) for a in given)), dtype=jnp.bfloat16)


@pytest.mark.parametrize("size", [(5, 4), (4, 7)])
def test_refuses_an_odd_image(size):
    x, weight, bias = arguments(*size, 1, 1)
    with pytest.raises(InputError, match=rf"even height and width.* got {size[0]}x{size[1]}"):
        downsample(x, weight, bias)


def test_a_kernel_of_two_is_the_convolution_without_padding():
    x, weight, bias = arguments(6, 8, 3, 5)
    weight = weight[:2, :2]
    expected = lax.conv_general_dilated(
        x[None], weight, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    close(downsample(x, weight, bias), expected[0] + bias)
