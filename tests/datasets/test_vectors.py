"""The sampled vector sets against closed forms."""

import math
import tomllib
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import (
    circles,
    generate_linear,
    generate_nonlinear,
    linear,
    nonlinear,
    nonlinear_weights,
    square,
)
from untwist.datasets.circles import generate_circles
from untwist.datasets.linear import linear_mixing
from untwist.datasets.square import generate_square
from untwist.types import InputError


def published(name):
    """The entry of rolinek2019 for one of its datasets."""
    text = resources.files("untwist").joinpath("published/rolinek2019.toml").read_text()
    (entry,) = [entry for entry in tomllib.loads(text)["datasets"] if entry["id"] == name]
    return entry


def test_linear_mixing_is_the_published_matrix():
    entry = published("synth_lin")
    np.testing.assert_allclose(linear_mixing(2.0), entry["mixing_matrix_3x2"], atol=1e-6)
    spectrum = np.linalg.eigvalsh(linear_mixing(2.0) @ linear_mixing(2.0).T / 12)
    np.testing.assert_allclose(spectrum[:0:-1], entry["population_covariance_eigenvalues"])
    np.testing.assert_allclose(spectrum[0], 0, atol=1e-15)


@pytest.mark.parametrize("ratio", published("synth_lin_ratio")["ratios"])
def test_linear_covariance_has_the_spectrum_of_its_ratio(ratio):
    dataset = linear(ratio=ratio)
    assert dataset.data.shape == (published("synth_lin")["samples"], 3)
    spectrum = np.linalg.eigvalsh(np.cov(dataset.data.T.astype(np.float64)))[::-1]
    # Standard error of a uniform variance: sqrt((1/80 - 1/144) / n); five of them.
    error = 5 * math.sqrt((1 / 80 - 1 / 144) / len(dataset))
    assert abs(spectrum[0] / ratio**2 - 1 / 12) < error
    assert abs(spectrum[1] - 1 / 12) < error
    assert abs(spectrum[2]) < 1e-6


def test_generators_give_the_data():
    weights = nonlinear_weights(3)
    cases = [
        (linear(ratio=1.5, samples=50), lambda w: generate_linear(w, ratio=1.5)),
        (
            nonlinear(ratio=2.0, samples=50, weights_seed=3),
            lambda w: generate_nonlinear(w, weights, ratio=2.0),
        ),
        (square(samples=50, angle=20.0), lambda w: generate_square(w, angle=20.0)),
        (circles(samples=50, members=4), lambda w: generate_circles(w, members=4)),
    ]
    for dataset, generate in cases:
        points = jax.jit(jax.vmap(generate))(jnp.asarray(dataset.factors))
        np.testing.assert_allclose(points, dataset.data, atol=1e-5)


def test_linear_jacobian_is_the_mixing():
    jacobian = jax.jacfwd(lambda w: generate_linear(w, ratio=1.2))(jnp.zeros(2))
    np.testing.assert_allclose(jacobian, linear_mixing(1.2), rtol=1e-6)


def test_nonlinear_is_the_network_written_out():
    dataset = nonlinear(samples=5, ratio=2.0)
    weight1, bias1, weight2, bias2 = (np.asarray(part, np.float64) for part in nonlinear_weights())
    assert weight1.shape == (10, 2)
    assert weight2.shape == (6, 10)
    hidden = np.tanh(dataset.factors * [2.0, 1.0] @ weight1.T + bias1)
    np.testing.assert_allclose(dataset.data, hidden @ weight2.T + bias2, atol=1e-5)


def test_other_seeds_give_other_networks_and_points():
    first, second = nonlinear(samples=5), nonlinear(samples=5, weights_seed=1)
    np.testing.assert_array_equal(first.factors, second.factors)
    assert np.abs(first.data - second.data).min() > 0
    assert np.abs(nonlinear(samples=5, seed=1).factors - first.factors).min() > 0


def principal_angle(points):
    """Degrees of the first principal direction against the x axis, in [0, 180)."""
    _, vectors = np.linalg.eigh(np.cov(points.T))
    return math.degrees(math.atan2(vectors[1, -1], vectors[0, -1])) % 180


@pytest.mark.parametrize("angle", [0.0, 30.0, 45.0])
def test_square_turns_its_clusters_and_not_its_cloud(angle):
    dataset = square(angle=angle)
    whole = principal_angle(dataset.data)
    assert min(whole, 180 - whole) < 1
    for cluster in ([0, 0], [7, 3], [4, 1]):
        points = dataset.data[(dataset.factors[:, :2] == cluster).all(1)]
        assert 1200 < len(points) < 2000
        turned = (principal_angle(points) - angle + 90) % 180 - 90
        assert abs(turned) < 6
        np.testing.assert_allclose(points.mean(0), np.array(cluster) - [3.5, 1.5], atol=0.03)
        spectrum = np.linalg.eigvalsh(np.cov(points.T))
        np.testing.assert_allclose(spectrum, [0.5**2 / 12, 0.75**2 / 12], rtol=0.15)


def test_square_cloud_has_the_spread_of_its_ratio():
    spread = np.cov(square(angle=0.0, samples=100_000).data.T)
    # Variance of 8 and of 4 unit steps, plus that of the cluster.
    expected = [(8**2 - 1) / 12 + 0.75**2 / 12, (4**2 - 1) / 12 + 0.5**2 / 12]
    np.testing.assert_allclose(np.diag(spread), expected, rtol=0.01)


def test_square_clusters_do_not_touch():
    dataset = square(samples=20_000)
    centers = dataset.factors[:, :2] - [3.5, 1.5]
    assert np.linalg.norm(dataset.data - centers, axis=1).max() < 0.5


def test_circles_lie_on_their_circles():
    dataset = circles(clusters=4, members=3, radius=0.2, samples=3000)
    cluster, circle, _ = dataset.factors.T
    centers = 2 * np.exp(2j * np.pi * (cluster / 4 + 0.25))
    centers = centers + 0.75 * np.exp(2j * np.pi * (circle / 3 + 0.25))
    points = dataset.data[:, 0] + 1j * dataset.data[:, 1]
    np.testing.assert_allclose(np.abs(points - centers), 0.2, atol=1e-5)
    assert len(np.unique(dataset.factors[:, :2], axis=0)) == 12


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (linear, {"ratio": 0.0}, "linear: expected ratio above 0, but got 0.0"),
        (nonlinear, {"ratio": float("nan")}, "nonlinear: expected ratio above 0, but got nan"),
        (square, {"ratio": -1.0}, "square: expected ratio above 0"),
        (circles, {"clusters": 0}, "circles: expected clusters above 0, but got 0"),
        (circles, {"radius": float("inf")}, "circles: expected radius above 0"),
        (linear, {"seed": -1}, "linear: expected a seed from 0 to .* but got -1"),
        (circles, {"seed": 2**32}, "circles: expected a seed from 0 to .* but got 4294967296"),
        (linear, {"samples": 0}, "linear: expected at least one sample, but got samples=0"),
    ],
)
def test_options_out_of_range_are_refused(build, options, message):
    with pytest.raises(InputError, match=message):
        build(**options)
