"""Factor spaces: mixed radix, sampling, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.factors import FactorSpace
from untwist.types import InputError, nearest

SPACE = FactorSpace(("a", "b", "c"), (3, 4, 5), ("categorical", "ordinal", "periodic"))
MIXED = FactorSpace(("a", "w"), (3, None), ("ordinal", "continuous"))


def test_index_counts_the_grid_like_numpy():
    grid = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), -1)
    np.testing.assert_array_equal(SPACE.factors(np.arange(60)), grid)
    np.testing.assert_array_equal(SPACE.index(grid), np.arange(60))
    assert isinstance(SPACE.factors(np.arange(2)), np.ndarray)
    assert isinstance(SPACE.factors(jnp.arange(2)), jax.Array)


def test_samples_are_uniform_and_keyed():
    sample = SPACE.sample(6000, key=jax.random.key(1))
    counts = np.bincount(np.asarray(SPACE.index(sample)), minlength=60)
    # Each of 60 cells expects 100; five standard errors of a binomial count are 50.
    assert counts.min() > 50
    assert counts.max() < 150
    np.testing.assert_array_equal(sample, SPACE.sample(6000, key=jax.random.key(1)))


def test_a_held_factor_stays_and_the_others_move():
    sample = np.asarray(SPACE.sample_fixed(500, 1, 2, key=jax.random.key(0)))
    assert set(sample[:, 1]) == {2}
    assert set(sample[:, 0]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((), (), ()), "at least one factor"),
        ((("a",), (0,), ("ordinal",)), "grid is empty"),
        ((("a", "a"), (2, 2), ("ordinal",) * 2), "must differ"),
        ((("a",), (2, 3), ("ordinal",)), "one size and one kind"),
        ((("a",), (2,), ("continuous",)), "size None"),
        ((("a",), (None,), ("ordinal",)), "size None"),
    ],
)
def test_bad_spaces_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        FactorSpace(*arguments)


def test_no_grid_where_a_factor_is_continuous():
    assert not MIXED.has_grid
    with pytest.raises(InputError, match="w vary continuously"):
        _ = MIXED.grid_size


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        (np.zeros((2, 2), int), "one column for each of a, b, c"),
        (np.zeros((2, 3)), "must be integers"),
        (np.array([[0, 4, 0]]), "'b' from 4 to 4: expected 0 to 3"),
        (np.array([[-1, 0, 0]]), "'a' from -1 to -1"),
    ],
)
def test_bad_factors_are_refused(factors, sentence):
    with pytest.raises(InputError, match=sentence):
        SPACE.check(factors)


def test_the_largest_value_is_allowed():
    SPACE.check(np.array([[2, 3, 4]]))


def test_nearest_names_the_known_ones_without_a_close_one():
    assert str(nearest("model", "zzz", ["b", "a"])) == "unknown model 'zzz': Known: a, b"
