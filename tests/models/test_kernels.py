"""The GPU kernels, interpreted: against XLA's convolutions and against the plain networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untwist.models import VAE, Architecture, Bernoulli, Layers, build, fuse
from untwist.models.fused import fusible
from untwist.models.kernels import double, halve, thin_weight_gradient, weight_gradient
from untwist.objectives import Batch, BetaVAE

SHAPES = [(2, 6, 4, 16, 32), (9, 4, 8, 3, 16)]
THIN = [shape for shape in SHAPES if shape[3] < 16]
FAT = [shape for shape in SHAPES if shape[3] >= 16]


def convolve(x, weight):
    """XLA's convolution of kernel 4x4, stride 2 and padding 1."""
    return lax.conv_general_dilated(
        x,
        weight,
        (2, 2),
        ((1, 1), (1, 1)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST,
    )


def images(items, height, width, channel, out, *, dtype=jnp.float32):
    """A large image, a small one, the weight between them, and a bias."""
    shapes = [
        (items, height, width, channel),
        (items, height // 2, width // 2, out),
        (4, 4, channel, out),
        (out,),
    ]
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return [jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True)]


def close(got, expected, *, dtype=jnp.float32):
    """Equal within 16 roundings of the largest entry."""
    expected = np.asarray(expected, np.float64)
    tolerance = 16 * float(jnp.finfo(dtype).eps) * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_halve_is_the_convolution_with_bias_activation_and_gate(shape):
    x, gate, weight, bias = images(*shape)
    expected = jnp.maximum(convolve(x, weight) + bias, 0)
    assert (expected == 0).any()
    close(halve(x, weight, bias, gate, relu=True), jnp.where(gate > 0, expected, 0))


@pytest.mark.parametrize("shape", FAT)
def test_double_is_the_transpose_with_bias_activation_and_gate(shape):
    gate, x, weight, _ = images(*shape)
    (expected,) = jax.linear_transpose(lambda large: convolve(large, weight), gate)(x)
    bias = jnp.arange(gate.shape[-1]) / 8 - 1
    expected = jnp.where(gate > 0, jnp.maximum(expected + bias, 0), 0)
    close(double(x, weight.swapaxes(2, 3), bias, gate, relu=True), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_in_the_weights_is_that_of_the_convolution(shape):
    large, small, weight, _ = images(*shape)
    (expected,) = jax.linear_transpose(lambda weight: convolve(large, weight), weight)(small)
    if shape in THIN:
        got, total = thin_weight_gradient(large, small)
        close(total, jnp.sum(small, (0, 1, 2)))
    else:
        got = weight_gradient(large, small)
    close(got, expected)


def test_the_gradient_adds_up_over_many_programs():
    large, small, weight, _ = images(150, 4, 4, 16, 16)
    (expected,) = jax.linear_transpose(lambda weight: convolve(large, weight), weight)(small)
    close(weight_gradient(large, small), expected)


def test_bfloat16_adds_up_in_float32():
    x, small, weight, _ = images(2, 8, 8, 16, 16, dtype=jnp.bfloat16)
    wide = [array.astype(jnp.float32) for array in (x, small, weight)]
    assert halve(x, weight).dtype == jnp.bfloat16
    close(halve(x, weight), convolve(wide[0], wide[2]), dtype=jnp.bfloat16)
    (expected,) = jax.linear_transpose(lambda weight: convolve(wide[0], weight), wide[2])(wide[1])
    assert weight_gradient(x, small).dtype == jnp.float32
    close(weight_gradient(x, small), expected)


def members() -> VAE:
    """Two small convolutional models, stacked."""

    def one(key):
        layers = Layers(channels=(16, 16), kernels=(4, 4))
        turned = Layers(channels=(16, 32), kernels=(4, 4))
        return build(Architecture(layers, turned), (8, 8, 1), 3, Bernoulli(), key=key)

    return eqx.filter_vmap(one)(jax.random.split(jax.random.key(0), 2))


@eqx.filter_jit
def losses_and_gradients(models, examples):
    keys = jax.random.split(jax.random.key(2), 2)

    def loss(model, x, key):
        return BetaVAE()(model, None, Batch(x, None, jnp.int32(0)), key=key).loss

    return eqx.filter_vmap(eqx.filter_value_and_grad(loss))(models, examples, keys)


@pytest.mark.slow
def test_a_population_has_the_same_losses_and_gradients_fused_as_plain():
    models = members()
    examples = jax.random.uniform(jax.random.key(1), (2, 3, 8, 8, 1))
    plain, expected = losses_and_gradients(models, examples)
    fused, got = losses_and_gradients(fuse(models, True), examples)
    close(fused, plain)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.linalg.norm(ours - theirs) <= 1e-5 * jnp.linalg.norm(theirs)


def test_a_fused_model_takes_one_example_and_several_models_one_example():
    models = members()
    x = jax.random.uniform(jax.random.key(1), (8, 8, 1))
    first = jax.tree.map(lambda leaf: leaf[0], models)
    close(fuse(first, True).encode(x).mean, first.encode(x).mean)
    both = eqx.filter_vmap(lambda model: model.encode(x).mean)
    close(both(fuse(models, True)), both(models))


def test_fusing_is_undone_and_is_not_done_on_a_cpu():
    model = jax.tree.map(lambda leaf: leaf[0], members())
    assert fuse([model], True)[0].fused
    assert jax.tree.structure(fuse(fuse(model, True), False)) == jax.tree.structure(model)
    assert not fuse(model).fused


def layers(*shapes):
    return tuple((jnp.zeros(shape), jnp.zeros(shape[-1])) for shape in shapes)


@pytest.mark.parametrize(
    ("activation", "shapes", "expected"),
    [
        ("relu", [(4, 4, 3, 32), (4, 4, 32, 64)], True),
        ("tanh", [(4, 4, 3, 32), (4, 4, 32, 64)], False),
        ("relu", [(4, 4, 3, 32), (2, 2, 32, 64)], False),
        ("relu", [(4, 4, 3, 24)], False),
        ("relu", [(4, 4, 5, 32)], False),
        ("relu", [(4, 4, 3, 8)], False),
        ("relu", [], False),
    ],
)
def test_only_what_the_kernels_serve_is_fusible(activation, shapes, expected):
    assert fusible(activation, layers(*shapes), thin=0) is expected
