"""The fold, the patterns, and that no pixel moves farther than epsilon."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_images import LAYERS, bars, sprites

from untwist.perturbation import (
    Manipulation,
    Noise,
    check_epsilon,
    factor_features,
    fold,
    perturb,
    perturbed_dataset,
    pixel_changes,
    random_direction,
    smoothness,
)
from untwist.perturbation.features import neighbor_features
from untwist.types import InputError


def test_fold_is_reflection_at_both_ends():
    x = np.linspace(-1, 2, 301).astype(np.float32)
    wanted = np.where(x < 0, -x, np.where(x > 1, 2 - x, x))
    np.testing.assert_allclose(fold(jnp.asarray(x)), wanted, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 0.175, 1.0])
def test_perturbed_images_stay_in_range_and_within_epsilon(epsilon):
    keys = jax.random.split(jax.random.key(0))
    images = jax.random.uniform(keys[0], (10_000,)).at[:200].set(0.0).at[200:400].set(1.0)
    pattern = jax.random.uniform(keys[1], (10_000,), minval=-1, maxval=1).at[::7].set(1.0)
    changed = perturb(images, pattern, epsilon)
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert jnp.abs(changed - images).max() <= epsilon + 1e-6


@pytest.mark.parametrize("epsilon", [0.0, -0.1, 1.5, float("nan")])
def test_an_epsilon_that_is_no_size_is_refused(epsilon):
    with pytest.raises(InputError, match="above 0 and at most 1"):
        check_epsilon(epsilon)


@pytest.fixture(scope="module")
def learned():
    """A manipulation whose patterns are anything but small."""
    data = bars()
    network = Manipulation(LAYERS, 2, data.shape, key=jax.random.key(1))
    return jax.tree.map(lambda leaf: 1.5 * leaf if leaf.ndim == 2 else leaf, network)


def test_a_pattern_is_a_function_of_the_factors_through_one_number(learned):
    data = bars()
    features = jnp.asarray(factor_features(data.factors, data.space))
    neurons = jax.vmap(learned.neuron)(features)
    assert neurons.shape == (36, 1)
    jacobian = jax.jacfwd(lambda f: learned(f, jnp.int32(0)).ravel())(features[7])
    singular = jnp.linalg.svd(jacobian, compute_uv=False)
    assert singular[0] > 1e-3
    assert singular[1] < 1e-5 * singular[0]
    patterns = jax.vmap(learned, in_axes=(0, None))(features, jnp.int32(0))
    assert jnp.abs(patterns).max() <= 1


@pytest.mark.parametrize("make", [bars, sprites])
@pytest.mark.parametrize("epsilon", [0.1, 0.175])
def test_bytes_keep_within_epsilon_too(make, epsilon):
    data = make()
    dataset = perturbed_dataset(data, Noise(jnp.uint32(3), data.shape), epsilon, name="noisy")
    largest, mean = pixel_changes(data, dataset)
    assert 0.98 * epsilon - 1 / 255 < largest <= epsilon + 1e-6
    assert mean == pytest.approx(epsilon / 2, rel=0.05)
    assert dataset.peak == 255
    assert not dataset.bits
    assert dataset.likelihood == data.likelihood
    assert np.array_equal(dataset.factors, data.factors)
    assert dataset.provenance["perturbed"]


def test_noise_follows_from_seed_and_row_alone():
    data = bars()
    noise = Noise(jnp.uint32(5), data.shape)
    dataset = perturbed_dataset(data, noise, 0.1, name="noisy")
    other = perturbed_dataset(data, Noise(jnp.uint32(6), data.shape), 0.1, name="noisy")
    some = np.array([30, 2])
    np.testing.assert_array_equal(
        perturbed_dataset(data, noise, 0.1, name="again").data[some], dataset.data[some]
    )
    assert (dataset.data[2] != other.data[2]).any()
    assert (
        dataset.data[2].astype(int) - data.data[2] != dataset.data[3].astype(int) - data.data[3]
    ).any()


def test_rows_that_are_computed_when_read_are_the_rows_that_are_kept(monkeypatch, learned):
    data = bars()
    kept = perturbed_dataset(data, learned, 0.1, name="kept")
    monkeypatch.setattr("untwist.perturbation.dataset.KEPT_BYTES", 0)
    read = perturbed_dataset(data, learned, 0.1, name="read")
    assert not isinstance(read.data, np.ndarray)
    assert read.data.nbytes == kept.data.nbytes
    for index in (slice(None), slice(3, 20, 4), np.array([5, 0, 35]), 7):
        np.testing.assert_array_equal(read.data[index], kept.data[index])
    assert read.checksum() == kept.checksum()
    assert read.subset(np.array([1, 2])).checksum() == kept.subset(np.array([1, 2])).checksum()
    read.check()


def test_the_unlearned_direction_has_the_size_and_smoothness_of_the_learned_one(learned):
    data = bars()
    points = neighbor_features(data.factors, data.space, 256, seed=0)
    here, there = map(jnp.asarray, points)
    control = random_direction(learned, LAYERS, here, there, key=jax.random.key(2))
    wanted, got = smoothness(learned, here, there), smoothness(control, here, there)
    assert got["size"] == pytest.approx(wanted["size"], rel=1e-3)
    assert got["varying"] == pytest.approx(wanted["varying"], rel=0.25)
    assert got["pixel_step"] == pytest.approx(wanted["pixel_step"], rel=0.1)
    ours, theirs = (jax.vmap(c, in_axes=(0, None))(here, jnp.int32(0)) for c in (control, learned))
    ours, theirs = (p - p.mean(0) for p in (ours, theirs))
    cosine = jnp.sum(ours * theirs) / jnp.linalg.norm(ours) / jnp.linalg.norm(theirs)
    assert abs(cosine) < 0.5


def test_vectors_and_data_without_factors_are_refused():
    from dataclasses import replace

    from untwist.datasets import load
    from untwist.factors import FactorSpace

    circles, data = load("circles", samples=10), bars()
    with pytest.raises(InputError, match="holds vectors"):
        perturbed_dataset(circles, Noise(jnp.uint32(0), (2,)), 0.1, name="no")
    space = FactorSpace(("nothing",), (1,), ("ordinal",))
    bare = replace(data, factors=np.zeros((36, 1), int), space=space)
    with pytest.raises(InputError, match="no factor that varies"):
        perturbed_dataset(bare, Noise(jnp.uint32(0), data.shape), 0.1, name="no")


@pytest.mark.parametrize("limit", [None, 1024])
def test_rows_that_are_computed_go_to_the_device_whole_or_in_shards(monkeypatch, learned, limit):
    from untwist.training.source import Source

    data = bars(7).subset(np.arange(49).repeat(6))
    kept = perturbed_dataset(data, learned, 0.1, name="kept")
    monkeypatch.setattr("untwist.perturbation.dataset.KEPT_BYTES", 0)
    read = perturbed_dataset(data, learned, 0.1, name="read")
    limit = None if limit is None else read.data.nbytes // 2
    ours, theirs = (Source(d, 4, limit, lambda rows: rows) for d in (read, kept))
    assert ours.shards == theirs.shards == (1 if limit is None else 4)
    np.testing.assert_array_equal(ours.rows(0).data, theirs.rows(0).data)
    ours.close()
    theirs.close()
