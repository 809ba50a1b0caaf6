"""The generator's Jacobian against finite differences, and the grid's against its neighbors."""

import importlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import Dataset, generator, generator_jacobian, grid_jacobian, load
from untwist.datasets.generators import GENERATORS
from untwist.datasets.linear import linear_mixing
from untwist.factors import FactorSpace
from untwist.types import InputError

faces_twin, mpi3d_twin, shapes3d_twin = (
    importlib.import_module(f"untwist.datasets.{name}_twin")
    for name in ("faces", "mpi3d", "shapes3d")
)
VECTORS = ("circles", "linear", "nonlinear", "square")
SPRITES = {"size": 16, "scales": 2, "orientations": 9, "positions": 4}
TRACED = {
    "faces_twin": ((50, 21, 11, 11), faces_twin),
    "mpi3d_complex_twin": ((4, 4, 2, 3, 3, 40, 40), mpi3d_twin),
    "mpi3d_twin": ((6, 6, 2, 3, 3, 40, 40), mpi3d_twin),
    "shapes3d_twin": ((10, 10, 10, 8, 4, 15), shapes3d_twin),
}
IN_COLOR, IN_GEOMETRY = (1e-3, 1e-3), (0.035, 0.06)
"""How far derivatives of traced images may be from differences: in the median and at worst."""
STEP = {name: 1e-2 for name in VECTORS} | {"sprites": 0.02}
CLOSE = {name: 1e-3 for name in VECTORS} | {"sprites": 0.01}
"""How far the two may be apart, relative to the difference: float32, and the finite step."""


def assert_like_differences(name):
    """Derivatives at three rows are the central differences of the generator there."""
    dataset = load(name, **SPRITES if name == "sprites" else {"samples": 20})
    index = np.random.default_rng(1).integers(0, len(dataset), 3)
    jacobian = generator_jacobian(dataset, index)
    draw = jax.jit(generator(dataset))
    step = STEP[name]
    kinds = zip(dataset.space.names, dataset.space.kinds, strict=True)
    assert jacobian.names == tuple(name for name, kind in kinds if kind != "categorical")
    assert np.isfinite(jacobian.values).all()
    for item, row in enumerate(jnp.asarray(dataset.factors[index], jnp.float32)):
        for factor, factor_name in enumerate(jacobian.names):
            ahead = jnp.zeros(len(row)).at[dataset.space.names.index(factor_name)].set(step)
            slope = np.asarray((draw(row + ahead) - draw(row - ahead)) / (2 * step))
            apart = np.linalg.norm(slope - jacobian.values[item, factor])
            assert apart <= CLOSE[name] * np.linalg.norm(slope), (factor_name, item)


@pytest.mark.parametrize("name", [*VECTORS, "sprites"])
def test_derivatives_are_the_differences_of_the_generator(name):
    assert_like_differences(name)


def traced(name, items):
    """Rows of a full grid that need no drawing: one of each category, else random inner values."""
    sizes, module = TRACED[name]
    space = FactorSpace(module.NAMES, sizes, module.KINDS)
    random, columns = np.random.default_rng(0), []
    for size, kind in zip(sizes, space.kinds, strict=True):
        inner = random.integers(0 if size < 4 else 1, size - 1 + (size < 3), items)
        columns.append(np.arange(items) % size if kind == "categorical" else inner)
    channels = 1 if name == "faces_twin" else 3
    data = np.zeros((items, 64, 64, channels), np.uint8)
    source = {"source": "a test", "twin": True, "seed": 0}
    factors = np.stack(columns, -1)
    return Dataset(name, data, factors, space, "bernoulli", source, data.shape[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TRACED))
def test_derivatives_of_a_traced_image_are_its_differences(name):
    """At points between those of the grid, a hundredth of a step to either side."""
    dataset = traced(name, 6)
    generate, moving = generator(dataset), np.array(dataset.space.kinds) != "categorical"
    off = jnp.asarray(
        np.where(moving, np.random.default_rng(1).random(len(moving)), 0), jnp.float32
    )
    jacobian = generator_jacobian(dataset, np.arange(6), generate=lambda row: generate(row + off))
    draw = jax.jit(generate)
    for factor, column in enumerate(np.flatnonzero(moving)):
        ahead = jnp.zeros(len(moving)).at[column].set(0.01)
        errors = []
        for row, own in zip(dataset.factors + np.asarray(off), jacobian.values, strict=True):
            slope = np.asarray(draw(row + ahead) - draw(row - ahead)) / 0.02
            errors.append(np.linalg.norm(slope - own[factor]) / np.linalg.norm(slope))
        median, worst = IN_COLOR if jacobian.names[factor].endswith("hue") else IN_GEOMETRY
        assert np.median(errors) < median, (jacobian.names[factor], errors)
        assert max(errors) < worst, (jacobian.names[factor], errors)


def test_every_generator_is_compared_with_its_differences():
    """By one of the two tests above."""
    assert set(GENERATORS) == {*VECTORS, "sprites", *TRACED}


@pytest.mark.parametrize("name", VECTORS)
def test_generators_draw_the_rows_of_their_datasets(name):
    dataset = load(name, samples=20)
    drawn = jax.vmap(generator(dataset))(jnp.asarray(dataset.factors))
    np.testing.assert_allclose(drawn, dataset.data, atol=1e-5)


def test_the_linear_set_has_its_mixing_everywhere():
    dataset = load("linear", ratio=3.0, samples=5)
    jacobian = generator_jacobian(dataset, np.arange(5))
    expected = np.broadcast_to(linear_mixing(3.0).T, (5, 2, 3))
    np.testing.assert_allclose(jacobian.values, expected, atol=1e-6)


def test_sprites_cut_at_one_half_are_the_dataset():
    dataset = load("sprites", **SPRITES)
    index = np.arange(0, len(dataset), 7)
    rows = jnp.asarray(dataset.factors[index], jnp.float32)
    drawn = jax.jit(jax.vmap(generator(dataset)))(rows)
    np.testing.assert_array_equal(drawn > 0.5, dataset.examples(index) == 1)


def toy(kinds, closed=False):
    """A grid of vectors whose value is known in closed form."""
    space = FactorSpace(("a", "b", "c"), (2, 5, 6), ("categorical", *kinds))
    factors = np.asarray(space.factors(np.arange(60)))
    period = 5 if closed else 6
    turn = 2 * np.pi * (factors[:, 2] % period) / period
    data = np.stack([factors[:, 1] ** 2 + 10 * factors[:, 0], np.cos(turn), np.sin(turn)], -1)
    source = {"source": "a test", "twin": False}
    return Dataset("toy", data.astype(np.float32), factors, space, "gaussian", source, (3,))


@pytest.mark.parametrize("closed", [False, True])
def test_differences_are_central_wrap_and_end_one_sided(closed):
    dataset = toy(("ordinal", "periodic"), closed)
    jacobian = grid_jacobian(dataset, np.arange(60))
    assert jacobian.names == ("b", "c")
    b, c = dataset.factors[:, 1], dataset.factors[:, 2]
    expected = np.where(b == 0, 1, np.where(b == 4, 7, 2 * b))
    np.testing.assert_allclose(jacobian.values[:, 0, 0], expected)
    assert (jacobian.values[:, 0, 1:] == 0).all()
    angle = 2 * np.pi / (5 if closed else 6)
    slope = np.sin(angle) * np.stack([-np.sin(angle * c), np.cos(angle * c)], -1)
    np.testing.assert_allclose(jacobian.values[:, 1, 1:], slope, atol=1e-6)


def test_factors_of_one_value_and_categories_have_no_differences():
    dataset = load("sprites", size=16, scales=1, orientations=1, positions=4)
    assert grid_jacobian(dataset, np.array([3])).names == ("posX", "posY")


def test_what_has_no_generator_or_no_grid_says_so():
    dataset = toy(("ordinal", "ordinal"))
    with pytest.raises(InputError, match="toy has no generator here: .*grid_jacobian"):
        generator_jacobian(dataset, np.array([0]))
    with pytest.raises(InputError, match="not a full grid in grid order"):
        grid_jacobian(dataset.subset(slice(0, 9)), np.array([0]))
    space = FactorSpace(("a",), (60,), ("categorical",))
    alone = replace(dataset, space=space, factors=np.arange(60)[:, None])
    with pytest.raises(InputError, match="every factor is categorical"):
        grid_jacobian(alone, np.array([0]))
