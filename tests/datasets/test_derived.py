"""Derived sets against what they are derived from; the digit sets against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import (
    correlated,
    digit_mixture,
    linear,
    moving_digit,
    rescaled,
    sampled,
    sprites,
    with_noise,
)
from untwist.datasets.digits import MOVE, draw_digit
from untwist.types import InputError

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def grid():
    return sprites(size=16, scales=2, orientations=3, positions=3)


@pytest.fixture(scope="module")
def digit():
    """A ring and a bar of 12×12 pixels, drawn."""
    y, x = np.mgrid[-1:1:12j, -1:1:12j]
    ring = np.exp(-(((np.hypot(x, y) - 0.6) / 0.15) ** 2))
    return np.stack([ring, np.exp(-((x / 0.2) ** 2))]).astype(np.float32)


def test_noise_on_vectors_is_uniform_and_independent():
    clean = linear(samples=20_000)
    noise = with_noise(clean, 0.5, key=KEY).data - clean.data
    assert np.abs(noise).max() <= 0.5 + 1e-6
    np.testing.assert_allclose(noise.mean(0), 0, atol=5 * 0.29 / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(noise.T), np.eye(3) / 12, atol=0.005)


def test_noise_on_images_stays_in_range_and_says_so(grid):
    noisy = with_noise(grid, 0.25, key=KEY)
    change = noisy.examples(slice(None)) - grid.examples(slice(None))
    assert 0.245 < np.abs(change).max() <= 0.25 + 0.5 / 255
    assert noisy.provenance["noise"] == 0.25
    assert noisy.provenance["of"] == "sprites"
    assert noisy.has_full_grid
    # Half of the noise is cut off at 0 and at 1; the other half is uniform.
    assert np.mean(change == 0) == pytest.approx(0.5, abs=0.02)


def test_rescaled_vectors_and_images(grid):
    data = linear(samples=50)
    scales = np.array([1.0, 2.0, -3.0])
    np.testing.assert_allclose(rescaled(data, scales).data, data.data * scales, rtol=1e-6)
    half = rescaled(grid, 0.5)
    np.testing.assert_allclose(half.examples(slice(None)).max(), 0.5, atol=0.5 / 255)
    assert half.provenance["scale"] == 0.5


def test_sampled_rows_are_rows_without_repetition(grid):
    part = sampled(grid, 30, key=KEY)
    index = grid.space.index(part.factors)
    assert len(np.unique(index)) == 30
    np.testing.assert_array_equal(part.data, grid.data[index])
    assert len(sampled(grid, 500, key=KEY, repeat=True)) == 500


def test_correlated_factors_follow_their_joint_distribution(grid):
    joint = np.array([[4.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    part = correlated(grid, joint, ("scale", "posX"), 20_000, key=KEY)
    counts = np.zeros((2, 3))
    np.add.at(counts, (part.factors[:, 1], part.factors[:, 3]), 1 / 20_000)
    np.testing.assert_allclose(counts, joint / 8, atol=0.02)
    assert (counts[joint == 0] == 0).all()
    for column, size in ((0, 3), (2, 3), (4, 3)):
        shares = np.bincount(part.factors[:, column], minlength=size) / 20_000
        np.testing.assert_allclose(shares, 1 / size, atol=0.02)
    np.testing.assert_array_equal(part.data, grid.data[grid.space.index(part.factors)])


def test_mixture_has_the_covariance_of_its_formula(digit):
    dataset = digit_mixture(digit, samples=20_000, noise=0.5)
    mixing = digit.reshape(2, -1).T
    expected = mixing @ mixing.T + 0.25 * np.eye(144)
    got = np.cov(dataset.data.T)
    assert np.abs(got - expected).max() < 0.12
    residual = dataset.data - dataset.factors @ mixing.T
    assert np.std(residual) == pytest.approx(0.5, rel=0.01)
    exact = digit_mixture(digit, samples=5, noise=0.0)
    np.testing.assert_allclose(exact.data, exact.factors @ mixing.T, atol=1e-5)


def test_digit_moves_by_whole_and_by_half_pixels(digit):
    middle = np.asarray(draw_digit(jnp.asarray(digit[0]), jnp.zeros(2), canvas=20))[..., 0]
    np.testing.assert_allclose(middle[4:16, 4:16], digit[0], atol=1e-6)
    moved = draw_digit(jnp.asarray(digit[0]), jnp.array([3.0, -2.0]), canvas=20)[..., 0]
    np.testing.assert_allclose(moved, np.roll(middle, (-2, 3), (0, 1)), atol=1e-6)
    half = draw_digit(jnp.asarray(digit[0]), jnp.array([0.5, 0.0]), canvas=20)[..., 0]
    np.testing.assert_allclose(half, (middle + np.roll(middle, 1, 1)) / 2, atol=1e-6)


def test_moving_digit_lies_where_its_sources_put_it(digit):
    dataset = moving_digit(digit[0], samples=4000, canvas=48)
    images = dataset.examples(slice(None))[..., 0]
    places = np.arange(48) - 23.5
    mass = images.sum((1, 2))
    assert mass.std() / mass.mean() < 0.01, "no digit leaves the canvas"
    centers = np.stack([(images.sum(1) @ places) / mass, (images.sum(2) @ places) / mass], -1)
    slope, *_ = np.linalg.lstsq(dataset.factors, centers, rcond=None)
    np.testing.assert_allclose(slope.T, MOVE, atol=0.08)
    residual = centers - dataset.factors @ np.array(MOVE).T
    np.testing.assert_allclose(residual.std(0), 1, atol=0.05)


def test_moving_digit_has_a_derivative(digit):
    one = jnp.asarray(digit[0])
    place = jnp.array([0.3, 0.6])
    jacobian = jax.jacfwd(lambda p: draw_digit(one, p, canvas=16))(place)
    for axis in range(2):
        step = jnp.zeros(2).at[axis].set(0.01)
        higher, lower = (draw_digit(one, place + s * step, canvas=16) for s in (1, -1))
        np.testing.assert_allclose(jacobian[..., axis], (higher - lower) / 0.02, atol=1e-3)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda g, d: with_noise(g, 0.0, key=KEY), "a size above 0, but got 0.0"),
        (lambda g, d: rescaled(g, 2.0), "above 0 and up to 1, but got 2.0"),
        (lambda g, d: rescaled(linear(samples=3), np.ones(2)), "each of 3 coordinates"),
        (lambda g, d: sampled(g, 0, key=KEY), "expected from 1 to 162 rows, but got 0"),
        (lambda g, d: sampled(g, 163, key=KEY), "but got 163: repeat them"),
        (lambda g, d: correlated(g, np.ones(3), ("posx",), 5, key=KEY), "but got posx"),
        (lambda g, d: correlated(g, np.ones(2), ("posX",), 5, key=KEY), r"in the shape \(3,\)"),
        (lambda g, d: correlated(g, -np.ones(3), ("posX",), 5, key=KEY), "weights of 0 or more"),
        (lambda g, d: correlated(linear(samples=3), np.ones(3), ("w1",), 5, key=KEY), "full grid"),
        (lambda g, d: digit_mixture(2 * d), r"at least one image in \[0, 1\]"),
        (lambda g, d: digit_mixture(d, samples=0), "but got samples=0"),
        (lambda g, d: moving_digit(d[0], canvas=8), "does not fit on a canvas of 8 pixels"),
    ],
)
def test_what_cannot_be_derived_is_refused(action, message, grid, digit):
    with pytest.raises(InputError, match=message):
        action(grid, digit)
