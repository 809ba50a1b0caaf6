"""Signed distances of solids against hand-made values, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import signed_distance as solid

UNIT = jnp.ones(3)
ORIGIN = jnp.zeros(3)
SOLIDS = {
    "box": (lambda p: solid.box(p, UNIT, 0.1), [((2, 0, 0), 1), ((0, -3, 0), 2), ((0, 0, 0), -1)]),
    "cylinder": (
        lambda p: solid.cylinder(p, 0.5, 1.0, 0.1),
        [((2, 0, 0), 1.5), ((0, 3, 0), 2), ((0, 0.8, 0), -0.2)],
    ),
    "capsule": (
        lambda p: solid.capsule(p, -UNIT, UNIT, 0.25),
        [((0, 0, 0), -0.25), ((1, 1, 2), 0.75), ((1, -1, 0), 2**0.5 - 0.25)],
    ),
    "sphere": (lambda p: solid.sphere(p, 2.0), [((3, 0, 0), 1), ((0, 0, 0), -2)]),
    "prism": (lambda p: solid.prism(p, 0.8, 1.0, 0.1), [((2, 0, 0), 1.2), ((0, 3, 0), 2)]),
    "ellipsoid": (
        lambda p: solid.ellipsoid(p, jnp.array([1.0, 2.0, 3.0])),
        [((1, 0, 0), 0), ((0, 2, 0), 0), ((0, 0, 3), 0)],
    ),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_distances_are_those_of_the_solid(name):
    distance, cases = SOLIDS[name]
    places = jnp.array([place for place, _ in cases], jnp.float32)
    expected = [value for _, value in cases]
    np.testing.assert_allclose(jax.vmap(distance)(places), expected, atol=2e-4)


@pytest.mark.parametrize("name", SOLIDS)
def test_no_step_by_a_distance_passes_the_surface(name):
    """Every distance is 1-Lipschitz, and its derivative is finite everywhere, the middle too."""
    distance, _ = SOLIDS[name]
    places = jax.random.uniform(jax.random.key(0), (200, 3), minval=-3, maxval=3).at[0].set(0)
    slopes = jax.jit(jax.vmap(jax.grad(distance)))(places)
    assert np.isfinite(slopes).all()
    if name != "ellipsoid":
        assert np.linalg.norm(slopes, axis=1).max() < 1 + 1e-4


def test_the_larger_of_two_has_one_derivative():
    """That of `max` counts who equals the result: 0 / 0 where a compiler rounds it anew."""
    larger = lambda pair: solid.larger(pair[0], pair[1])  # noqa: E731
    for first, second, slope in ((1.0, 2.0, (0, 1)), (2.0, 1.0, (1, 0)), (1.0, 1.0, (1, 0))):
        pair = jnp.array([first, second])
        assert float(larger(pair)) == max(first, second)
        np.testing.assert_array_equal(jax.grad(larger)(pair), slope)


def test_a_smooth_union_of_equals_has_the_mean_of_their_derivatives():
    derive = jax.grad(lambda pair: solid.smooth_maximum(pair[0], pair[1], 0.5))
    np.testing.assert_allclose(derive(jnp.ones(2)), [0.5, 0.5])
    np.testing.assert_allclose(derive(jnp.array([1.25, 1.0])), [0.75, 0.25])


def test_derivatives_at_the_edges_of_a_box_are_finite():
    """On its diagonals, where two or three sides are equally near."""
    places = jnp.array([[0.5, 0.5, 0.5], [0.7, 0.7, 0.1], [1.0, 1.0, 1.0], [0.0, 0.3, 0.3]])
    derive = jax.jit(jax.vmap(jax.jacfwd(jax.grad(lambda p: solid.box(p, UNIT, 0.1)))))
    assert np.isfinite(derive(places)).all()
