"""The GPU kernels, interpreted: against XLA's convolutions and against the plain networks."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untwist.models import VAE, Architecture, Bernoulli, Layers, build, fuse
from untwist.models.convolution import upsample
from untwist.models.fused import _decode_only, _encode_only, fusible
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
    expected = jnp.where(gate > 0, expected, 0)
    image, peak = halve(x, weight, bias, gate, relu=True, peak=True)
    close(image, expected)
    close(peak, jnp.max(expected))


@pytest.mark.parametrize("shape", FAT)
def test_double_is_the_transpose_with_bias_activation_and_gate(shape):
    gate, x, weight, _ = images(*shape)
    (expected,) = jax.linear_transpose(lambda large: convolve(large, weight), gate)(x)
    bias = jnp.arange(gate.shape[-1]) / 8 - 1
    expected = jnp.where(gate > 0, jnp.maximum(expected + bias, 0), 0)
    image, nothing = double(x, weight.swapaxes(2, 3), bias, gate, relu=True)
    assert nothing is None
    close(image, expected)


def test_the_peak_is_of_real_pixels_and_of_both_signs():
    """The last tile is filled up with pixels of no image, which hold the bias alone."""
    x, _, weight, _ = images(*SHAPES[0])
    x, weight = jnp.full_like(x, 0.75), jnp.zeros_like(weight).at[1, 1, 0].set(1)
    _, peak = halve(x, weight, jnp.full(weight.shape[-1], -1.0), peak=True)
    assert peak == 0.25


@pytest.mark.slow
@pytest.mark.parametrize("channel", [1, 3])
def test_two_convolutions_in_one_kernel_are_one_after_the_other(channel):
    x, _, weight, bias = images(2, 8, 12, channel, 16)
    _, _, second, shift = images(2, 4, 6, 16, 16)
    middle = jnp.maximum(convolve(x, weight) + bias, 0)
    expected = jnp.maximum(convolve(middle, second) + shift, 0)
    close(_encode_only(x, ((weight, bias), (second, shift))), expected)


@pytest.mark.slow
@pytest.mark.parametrize("channel", [1, 3])
def test_the_last_two_transposes_in_one_kernel_are_one_after_the_other(channel):
    _, x, weight, _ = images(2, 8, 4, 16, 32)
    first = weight.swapaxes(2, 3), jnp.arange(16) / 8 - 1
    last = images(2, 16, 8, channel, 16)[2].swapaxes(2, 3), jnp.arange(channel) - 1.0
    expected = upsample_all(jnp.maximum(upsample_all(x, first), 0), last)
    close(_decode_only(x, (first, last)), expected)


def upsample_all(x, layer):
    """The transposed convolution with bias of every image."""
    return jax.vmap(lambda image: upsample(image, *layer))(x)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_in_the_weights_is_that_of_the_convolution(shape):
    large, small, weight, _ = images(*shape)
    (expected,) = jax.linear_transpose(lambda weight: convolve(large, weight), weight)(small)
    if shape in THIN:
        got, total = thin_weight_gradient(large, small)
        close(total, jnp.sum(small, (0, 1, 2)))
    else:
        got, total = weight_gradient(large, small, add="large")
        close(total, jnp.sum(large, (0, 1, 2)))
    close(got, expected)


def test_the_gradient_adds_up_over_many_programs():
    large, small, weight, _ = images(150, 4, 4, 16, 16)
    (expected,) = jax.linear_transpose(lambda weight: convolve(large, weight), weight)(small)
    got, total = weight_gradient(large, small)
    close(got, expected)
    close(total, jnp.sum(small, (0, 1, 2)))


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_the_gradient_of_float32_images_keeps_ten_bits_at_any_scale(size):
    """As tf32 does: half a unit of the tenth bit in each factor, and float16 neither end."""
    large, small, weight, _ = images(2, 4, 4, 16, 16)
    large, small = large * size, small * jnp.logspace(-6, 0, small.size).reshape(small.shape)
    (expected,) = jax.linear_transpose(lambda weight: convolve(large, weight), weight)(small)
    (sizes,) = jax.linear_transpose(lambda weight: convolve(abs(large), weight), weight)(abs(small))
    got, total = weight_gradient(large, small, (jnp.max(jnp.abs(large)), jnp.max(jnp.abs(small))))
    assert not jnp.array_equal(got, weight_gradient(large, small)[0])
    assert jnp.all(jnp.abs(got - expected) <= 2 * 2.0**-11 * sizes)
    shift = jnp.abs(total - jnp.sum(small, (0, 1, 2)))
    assert jnp.all(shift <= 2.0**-11 * jnp.sum(jnp.abs(small), (0, 1, 2)))


def test_an_image_of_zeros_has_a_gradient_of_zero_and_one_that_is_not_finite_shows():
    large, small, *_ = images(2, 4, 4, 16, 16)
    nothing, _ = weight_gradient(large * 0, small, (jnp.zeros(()), jnp.max(jnp.abs(small))))
    assert not nothing.any()
    large = large.at[0, 0, 0, 0].set(jnp.inf)
    spoiled, _ = weight_gradient(large, small, (jnp.max(jnp.abs(large)), jnp.max(jnp.abs(small))))
    assert not jnp.isfinite(spoiled).all()


@pytest.mark.slow
def test_bfloat16_adds_up_in_float32():
    x, small, weight, _ = images(2, 8, 8, 16, 16, dtype=jnp.bfloat16)
    wide = [array.astype(jnp.float32) for array in (x, small, weight)]
    image, _ = halve(x, weight)
    assert image.dtype == jnp.bfloat16
    close(image, convolve(wide[0], wide[2]), dtype=jnp.bfloat16)
    (expected,) = jax.linear_transpose(lambda weight: convolve(wide[0], weight), wide[2])(wide[1])
    got, total = weight_gradient(x, small)
    assert got.dtype == total.dtype == jnp.float32
    close(got, expected)
    close(total, jnp.sum(wide[1], (0, 1, 2)))


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
@pytest.mark.parametrize(("precision", "tolerance"), [("highest", 1e-5), ("default", 2.0**-11)])
def test_a_population_has_the_same_losses_and_gradients_fused_as_plain(precision, tolerance):
    """By default float32 has 10 bits in the gradients of weights, as everywhere on a GPU."""
    models = members()
    examples = jax.random.uniform(jax.random.key(1), (2, 3, 8, 8, 1))
    with jax.default_matmul_precision(precision):
        plain, expected = losses_and_gradients(models, examples)
        fused, got = losses_and_gradients(fuse(models, True), examples)
    close(fused, plain)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.linalg.norm(ours - theirs) <= tolerance * jnp.linalg.norm(theirs)


@pytest.mark.slow
def test_a_fused_model_takes_one_example_and_several_models_one_example():
    models = members()
    x = jax.random.uniform(jax.random.key(1), (8, 8, 1))
    first = jax.tree.map(lambda leaf: leaf[0], models)
    close(fuse(first, True).encode(x).mean, first.encode(x).mean)
    both = eqx.filter_vmap(lambda model: model.encode(x).mean)
    close(both(fuse(models, True)), both(models))


@pytest.mark.slow
def test_fusing_is_undone_and_is_not_done_on_a_cpu():
    model = jax.tree.map(lambda leaf: leaf[0], members())
    assert fuse([model], True)[0].fused
    assert jax.tree.structure(fuse(fuse(model, True), False)) == jax.tree.structure(model)
    assert not fuse(model).fused


@pytest.mark.parametrize(
    ("capability", "expected"),
    [("9.0", True), ("8.0", False), ("10.3", False), ("gfx942", False), (None, False)],
)
def test_the_kernels_are_for_the_gpus_they_were_measured_on(monkeypatch, capability, expected):
    """Others take the plain products; an AMD GPU names an architecture instead of a number."""
    device = types.SimpleNamespace(**{"compute_capability": capability} if capability else {})
    model = jax.tree.map(lambda leaf: leaf[0], members())
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert fuse(model).fused is expected


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
