"""Networks, models and the published architectures."""

import re
import tomllib
from importlib.resources import files

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.models import ARCHITECTURES, Bernoulli, Layers, SquaredError, build, traverse
from untwist.types import InputError

KEY = jax.random.key(0)
PUBLISHED = {
    name: tomllib.loads((files("untwist") / "published" / f"{name}.toml").read_text())
    for name in ("rolinek2019", "bhowal2024", "sikka2019")
}


def shape_for(name):
    return (64, 64, 3) if ARCHITECTURES[name].encoder.channels else (5,)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
@pytest.mark.parametrize("posterior", ["diagonal", "full"])
def test_every_architecture_encodes_and_decodes(name, posterior):
    shape = shape_for(name)
    model = jax.eval_shape(
        lambda key: build(
            ARCHITECTURES[name], shape, 4, Bernoulli(), posterior=posterior, key=key
        ).reconstruct(jnp.zeros(shape)),
        KEY,
    )
    assert model.shape == shape


@pytest.mark.parametrize("shape", [(64, 64, 1), (32, 32, 3), (16, 32, 2)])
def test_the_convolutional_pair_takes_any_channels_and_sizes(shape):
    model = build(ARCHITECTURES["convolutional"], shape, 3, Bernoulli(), key=KEY)
    x = jax.random.uniform(KEY, shape)
    assert model.encode(x).mean.shape == (3,)
    assert model.decode(jnp.zeros(3)).shape == shape


def test_the_convolutional_pair_has_the_fields_parameters():
    """4x4 kernels 1-32-32-64-64, dense 1024-256-2k; mirrored: counted by hand."""
    model = build(ARCHITECTURES["convolutional"], (64, 64, 1), 10, Bernoulli(), key=KEY)
    count = sum(leaf.size for leaf in jax.tree.leaves(model) if eqx.is_array(leaf))
    kernels = 16 * (1 * 32 + 32 * 32 + 32 * 64 + 64 * 64)
    encoder = kernels + (32 + 32 + 64 + 64) + 1024 * 256 + 256 + 256 * 20 + 20
    decoder = 10 * 256 + 256 + 256 * 1024 + 1024 + kernels + (64 + 32 + 32 + 1)
    assert count == encoder + decoder


def test_the_linear_architecture_is_affine():
    model = build(ARCHITECTURES["linear"], (3,), 2, SquaredError(), key=KEY)
    a, b = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    np.testing.assert_allclose(
        model.decode(a + b), model.decode(a) + model.decode(b) - model.decode(0 * a), rtol=1e-5
    )


def test_bfloat16_computes_what_float32_does_up_to_its_rounding():
    x = jax.random.uniform(KEY, (32, 32, 1))
    full, half = (
        build(ARCHITECTURES["convolutional"], x.shape, 4, Bernoulli(), precision=precision, key=KEY)
        for precision in ("float32", "bfloat16")
    )
    assert half.decode(jnp.ones(4)).dtype == half.encode(x).mean.dtype == jnp.float32
    difference = jnp.linalg.norm(full.encode(x).mean - half.encode(x).mean)
    assert 0 < difference < 0.03 * jnp.linalg.norm(full.encode(x).mean)


@pytest.mark.parametrize(
    "dataset", [a["dataset"] for a in PUBLISHED["rolinek2019"]["architectures"]]
)
def test_the_architectures_of_rolinek2019_are_the_printed_ones(dataset):
    names = {"dSprites": "dsprites", "Synth. Lin.": "linear", "Synth. Non-Lin.": "nonlinear"}
    names |= {"MNIST": "mnist", "fMNIST": "fashion-mnist"}
    printed = next(a for a in PUBLISHED["rolinek2019"]["architectures"] if a["dataset"] == dataset)
    ours = ARCHITECTURES[f"rolinek2019-{names[dataset]}"]
    assert list(ours.encoder.dense) == printed["encoder"]
    assert list(ours.decoder.dense) == printed["decoder"]
    assert ours.latents == printed["latent_dim"]
    if printed["encoder"]:
        assert ours.encoder.activation == printed["encoder_act"]
        assert ours.decoder.activation == printed["decoder_act"]


@pytest.mark.parametrize(("dataset", "name"), [("3DFaces", "faces"), ("3DShapes", "shapes3d")])
def test_the_encoders_of_bhowal2024_are_the_printed_ones(dataset, name):
    printed = next(a for a in PUBLISHED["bhowal2024"]["architectures"] if a["dataset"] == dataset)
    rows = [re.match(r"\[(\d+),(\d),(\d),(\d)\]", layer) for layer in printed["encoder"]]
    rows = [tuple(map(int, row.groups())) for row in rows if row]
    ours = ARCHITECTURES[f"bhowal2024-{name}"].encoder
    assert ours.channels == tuple(row[0] for row in rows if row[2] == 2)
    # A 4x4 kernel on a 4x4 image, without padding, is a dense layer.
    assert ours.dense == tuple(row[0] for row in rows if row[2] == 1)


def test_the_digits_network_of_sikka2019_is_the_printed_one():
    printed = next(a for a in PUBLISHED["sikka2019"]["architectures"] if a["id"] == "deep")
    ours = ARCHITECTURES["sikka2019-digits"]
    assert [list(ours.encoder.dense), list(ours.decoder.dense)] == [
        printed["encoder"],
        printed["decoder"],
    ]


def test_traversals_move_one_latent_at_a_time():
    code = jnp.array([0.1, 0.2, 0.3])
    rows = np.asarray(traverse(lambda z: z, code, -jnp.ones(3), jnp.full(3, 2.0), 4))
    for latent in range(3):
        others = np.delete(np.arange(3), latent)
        np.testing.assert_array_equal(rows[latent][:, others], np.tile(code[others], (4, 1)))
        np.testing.assert_allclose(rows[latent][:, latent], [-1, 0, 1, 2], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: build(ARCHITECTURES["linear"], (3,), 0, SquaredError(), key=KEY), "one latent"),
        (
            lambda: build(
                ARCHITECTURES["linear"], (3,), 1, SquaredError(), posterior="diag", key=KEY
            ),
            "did you mean 'diagonal'",
        ),
        (
            lambda: build(
                ARCHITECTURES["linear"], (3,), 1, SquaredError(), precision="float16", key=KEY
            ),
            "did you mean",
        ),
        (
            lambda: build(ARCHITECTURES["convolutional"], (3,), 1, SquaredError(), key=KEY),
            "choose a dense architecture",
        ),
        (
            lambda: build(ARCHITECTURES["convolutional"], (28, 28, 1), 1, Bernoulli(), key=KEY),
            "16 divides, but got 28x28",
        ),
        (lambda: Layers(activation="rely"), "did you mean 'relu'"),
        (lambda: Layers(channels=(3, 4), kernels=(4,)), "2 channels and 1 kernels"),
    ],
)
def test_bad_models_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
