"""Temporal pairs against their distributions, computed by hand over all pairs of a small grid."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import LaplacePairs, UniformPairs, walk
from untwist.factors import FactorSpace
from untwist.types import InputError

SPACE = FactorSpace(
    ("shape", "x", "one", "turn"), (2, 4, 1, 5), ("categorical", "ordinal", "ordinal", "periodic")
)
DRAWS = 200_000

draw = jax.jit(lambda pairs, index, key: pairs(index, key), static_argnums=0)


def drawn(pairs, start):
    """How often each row is the partner of `start`."""
    index = jnp.full(DRAWS, start, jnp.int32)
    partners = draw(pairs, index, jax.random.key(start))
    assert partners.dtype == jnp.int32
    return np.bincount(np.asarray(partners), minlength=pairs.space.grid_size) / DRAWS


def assert_drawn_from(expected, frequencies):
    """Each frequency is within five standard errors, and what cannot be never is.

    Where less than one draw is expected, three may come.
    """
    assert math.isclose(expected.sum(), 1, rel_tol=1e-6)
    assert (frequencies[expected == 0] == 0).all()
    error = np.sqrt(expected * (1 - expected) / DRAWS)
    allowed = np.maximum(5 * error, 3 / DRAWS)
    np.testing.assert_array_less(np.abs(frequencies - expected), allowed + 1e-12)


def laplace_by_hand(space, rate, start, wrap):
    """The probability of every row as the partner of `start`: brute force over the grid."""
    values = space.factors(np.arange(space.grid_size))
    chances, others = np.ones(len(values)), np.zeros(len(values))
    moving = [
        i for i in range(len(space)) if space.sizes[i] > 1 and space.kinds[i] != "categorical"
    ]
    for i, size in enumerate(space.sizes):
        distance = np.abs(np.arange(size) - values[start, i])
        if wrap and space.kinds[i] == "periodic":
            distance = np.minimum(distance, size - distance)
        p = np.exp(-rate * distance / math.log(size)) if i in moving else (distance == 0) * 1.0
        p /= p.sum()
        chances *= p[values[:, i]]
        if i in moving:
            alone = (np.delete(values, i, 1) == np.delete(values[start], i)).all(1)
            again = np.where(distance == 0, 0, p) / (1 - p[values[start, i]])
            others += alone * again[values[:, i]] / len(moving)
    stayed = chances[start]
    chances[start] = 0
    return chances + stayed * others


@pytest.mark.parametrize(("rate", "wrap"), [(1.0, False), (1.0, True), (6.0, False)])
def test_laplace_pairs_have_their_distribution(rate, wrap):
    for start in (0, 27):
        expected = laplace_by_hand(SPACE, rate, start, wrap)
        assert_drawn_from(expected, drawn(LaplacePairs(SPACE, rate, wrap), start))


def test_a_random_rate_is_uniform_from_one_to_ten():
    rates = (np.arange(2000) + 0.5) / 2000 * 9 + 1
    expected = np.mean([laplace_by_hand(SPACE, rate, 7, False) for rate in rates], 0)
    assert_drawn_from(expected, drawn(LaplacePairs(SPACE, None), 7))


@pytest.mark.parametrize("changed", [1, 2, 3, None])
def test_uniform_pairs_have_their_distribution(changed):
    values = SPACE.factors(np.arange(SPACE.grid_size))
    sizes = np.array(SPACE.sizes)
    for start in (0, 33):
        expected = np.zeros(len(values))
        counts = (1, 2) if changed is None else (changed,)
        for row, value in enumerate(values):
            different = value != values[start]
            if different.sum() in counts:
                subsets = math.comb(3, int(different.sum()))
                expected[row] = 1 / len(counts) / subsets / np.prod((sizes - 1)[different])
        assert_drawn_from(expected, drawn(UniformPairs(SPACE, changed), start))


def test_partners_always_differ_and_categories_stay():
    index = jnp.arange(SPACE.grid_size).repeat(200)
    for pairs in (LaplacePairs(SPACE, 30.0), UniformPairs(SPACE)):
        assert (draw(pairs, index, jax.random.key(3)) != index).all()
    partners = draw(LaplacePairs(SPACE, 0.5), index, jax.random.key(4))
    np.testing.assert_array_equal(SPACE.factors(partners)[:, 0], SPACE.factors(index)[:, 0])


def test_equal_settings_compile_once():
    traced = []

    def count(pairs, index, key):
        traced.append(1)
        return pairs(index, key)

    compiled = jax.jit(count, static_argnums=0)
    for _ in range(3):
        space = FactorSpace(SPACE.names, SPACE.sizes, SPACE.kinds)
        compiled(LaplacePairs(space, 2.0), jnp.arange(4), jax.random.key(0))
    assert len(traced) == 1


def test_a_walk_takes_the_steps_of_its_pairs():
    pairs = UniformPairs(SPACE, 1)
    path = walk(pairs, jnp.arange(SPACE.grid_size), 50, key=jax.random.key(1))
    assert path.shape == (51, SPACE.grid_size)
    np.testing.assert_array_equal(path[0], np.arange(SPACE.grid_size))
    changes = (np.diff(np.asarray(SPACE.factors(path)), axis=0) != 0).sum(-1)
    assert (changes == 1).all()
    # The chain is symmetric, so it comes to every row alike.
    long = walk(pairs, jnp.zeros(2000, jnp.int32), 60, key=jax.random.key(2))[30:]
    visits = np.bincount(np.asarray(long).ravel(), minlength=40) / long.size
    np.testing.assert_allclose(visits, 1 / 40, rtol=0.1)


def test_rows_of_the_largest_grid_fit():
    space = FactorSpace(tuple("abcdefg"), (6, 6, 2, 3, 3, 40, 40), ("ordinal",) * 7)
    index = jnp.array([0, space.grid_size - 1], jnp.int32)
    for pairs in (LaplacePairs(space), UniformPairs(space)):
        partners = np.asarray(draw(pairs, index, jax.random.key(0)))
        assert ((partners >= 0) & (partners < 1_036_800)).all()


@pytest.mark.parametrize("pairs", list(itertools.product((LaplacePairs, UniformPairs), range(2))))
def test_pairs_without_anything_to_move_are_refused(pairs):
    build, which = pairs
    space = (
        FactorSpace(("a",), (1,), ("ordinal",)),
        FactorSpace(("a",), (3,), ("categorical",)),
    )[which]
    if build is UniformPairs and which == 1:
        assert build(space).changed is None
        return
    with pytest.raises(InputError, match="none can"):
        build(space)


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (LaplacePairs, {"rate": 0.0}, "expected a rate above 0, but got 0.0"),
        (LaplacePairs, {"rate": math.nan}, "but got nan"),
        (LaplacePairs, {"rate": math.inf}, "but got inf"),
        (UniformPairs, {"changed": 0}, "from 1 to 3 changed factors, .* but got 0"),
        (UniformPairs, {"changed": 4}, "but got 4"),
    ],
)
def test_settings_out_of_range_are_refused(build, options, message):
    with pytest.raises(InputError, match=message):
        build(SPACE, **options)
