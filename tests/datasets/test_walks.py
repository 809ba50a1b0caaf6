"""Walks of continuous factors and natural pairs against their distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from untwist.datasets import NaturalPairs, generalized_normal_walk, read_changes
from untwist.factors import FactorSpace
from untwist.types import InputError

KEY = jax.random.key(0)
SPACE = FactorSpace(("shape", "x", "y"), (2, 11, 6), ("categorical", "ordinal", "ordinal"))


@pytest.mark.parametrize("power", [1.0, 2.0, 6.0])
def test_innovations_are_generalized_normal(power):
    start = jnp.full((20_000, 1), 0.5)
    path = generalized_normal_walk(start, 1, scale=0.02, power=power, key=KEY)
    innovation = np.asarray(path[1] - path[0])[:, 0]
    expected = scipy.stats.gennorm(power, scale=0.02)
    assert scipy.stats.kstest(innovation, expected.cdf).pvalue > 1e-3


def test_a_walk_stays_in_the_box_and_comes_everywhere():
    path = generalized_normal_walk(jnp.zeros((200, 2)), 400, scale=0.3, power=1.0, key=KEY)
    assert path.shape == (401, 200, 2)
    assert ((path >= 0) & (path <= 1)).all()
    shares, _ = np.histogram(path[50:], bins=10, range=(0, 1), density=True)
    np.testing.assert_allclose(shares, 1, atol=0.05)


def test_natural_pairs_replay_their_changes_together():
    changes = np.array([[0, 0.2, 0.4], [0, -0.1, 0.0]])
    pairs = NaturalPairs(SPACE, changes)
    start = int(SPACE.index(np.array([[1, 5, 2]]))[0])
    partners = pairs(jnp.full(4000, start), KEY)
    moved, counts = np.unique(SPACE.factors(np.asarray(partners)), axis=0, return_counts=True)
    np.testing.assert_array_equal(moved, [[1, 4, 2], [1, 7, 4]])
    assert counts.min() > 1800


def test_natural_changes_between_steps_keep_their_mean_and_ends_reflect():
    pairs = NaturalPairs(SPACE, np.array([[0, 0.03, 0.0]]))
    partners = SPACE.factors(np.asarray(pairs(jnp.full(20_000, 30), KEY)))
    assert partners[:, 1].mean() - 5 == pytest.approx(0.3, abs=0.02)
    far = NaturalPairs(SPACE, np.array([[0, 0.3, 0.0]]))
    edge = jnp.full(10, int(SPACE.index(np.array([[0, 10, 0]]))[0]))
    np.testing.assert_array_equal(SPACE.factors(np.asarray(far(edge, KEY)))[:, 1], 7)


def test_changes_are_read_by_the_names_of_their_columns(tmp_path):
    (tmp_path / "a.csv").write_text("y,x\n0.5,-0.25\n0,1\n")
    changes = read_changes(tmp_path / "a.csv", SPACE)
    np.testing.assert_array_equal(changes, [[0, -0.25, 0.5], [0, 1, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,z\n1,2\n", "unknown factors z: expected some of shape, x, y"),
        ("x,y\n1,two\n", "expected a number in each of 2 columns"),
        ("x,y\n1\n", "expected a number in each of 2 columns"),
        ("", "cannot read changes from"),
    ],
)
def test_a_damaged_file_of_changes_is_refused(text, message, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_changes(tmp_path / "a.csv", SPACE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (np.zeros((0, 3)), "expected changes from -1 to 1"),
        (np.full((1, 3), np.nan), "expected changes from -1 to 1"),
        (np.zeros((2, 2)), r"but got an array of shape \(2, 2\)"),
        (np.array([[1.0, 0, 0]]), "no changes of categorical factors"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        NaturalPairs(SPACE, changes)


def test_a_walk_without_size_is_refused():
    with pytest.raises(InputError, match="scale and power above 0"):
        generalized_normal_walk(jnp.zeros((1, 1)), 2, scale=0.0, power=1.0, key=KEY)
