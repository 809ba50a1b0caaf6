"""The order of the data: a true permutation for every key, and a fair one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from untwist.training import shuffled


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 97, 1000, 5184, 49_999, 737_280])
def test_it_is_a_permutation(count):
    order = np.asarray(shuffled(jnp.arange(count), count, key=jax.random.key(count)))
    np.testing.assert_array_equal(np.sort(order), np.arange(count))


def test_any_part_of_it_can_be_asked_for():
    whole = shuffled(jnp.arange(1000), 1000, key=jax.random.key(3))
    part = shuffled(jnp.array([17, 3, 999]), 1000, key=jax.random.key(3))
    np.testing.assert_array_equal(part, whole[jnp.array([17, 3, 999])])


@pytest.mark.parametrize("count", [97, 120])
def test_every_place_is_as_likely_for_every_item(count):
    """Chi-squared over 4,000 keys of where items land; the p-value is not extreme."""
    keys = jax.random.split(jax.random.key(0), 4000)
    landed = np.asarray(
        jax.vmap(lambda key: shuffled(jnp.array([0, 1, count // 2]), count, key=key))(keys)
    )
    for item in range(3):
        observed = np.bincount(landed[:, item], minlength=count)
        assert 1e-4 < stats.chisquare(observed).pvalue < 1 - 1e-4


def test_neighbors_part():
    """The distance between the places of neighbors is that of a random permutation: N / 3."""
    order = np.asarray(shuffled(jnp.arange(10_000), 10_000, key=jax.random.key(4)))
    distance = np.abs(np.diff(order.astype(float)))
    assert abs(distance.mean() - 10_000 / 3) < 5 * distance.std() / 100
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05


def test_it_has_about_one_fixed_point():
    """A uniform permutation has one fixed point on average, with variance one."""
    keys = jax.random.split(jax.random.key(1), 400)
    fixed = jax.vmap(lambda k: jnp.sum(shuffled(jnp.arange(210), 210, key=k) == jnp.arange(210)))
    assert abs(float(jnp.mean(fixed(keys))) - 1) < 0.25
