"""FactorVAE: what the discriminator sees, and the total correlation that it finds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, batch, model, second_player

from untwist.datasets import Dataset
from untwist.factors import FactorSpace
from untwist.models import ARCHITECTURES, Discriminator, SquaredError, build
from untwist.objectives import OBJECTIVES, Batch, FactorVAE
from untwist.objectives.factor_vae import discriminate, permute_latents
from untwist.training import INDEPENDENT, Optimizer, Recipe, fit, start_population


def test_each_latent_is_permuted_by_itself():
    codes = jax.random.normal(KEY, (50, 4))
    permuted = np.asarray(permute_latents(codes, key=jax.random.key(1)))
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(codes, axis=0))
    ranks = [np.searchsorted(np.sort(codes[:, j]), permuted[:, j]) for j in range(4)]
    orders = [np.argsort(np.argsort(codes[:, j]))[np.argsort(ranks[j])] for j in range(4)]
    assert len({tuple(order) for order in orders}) == 4


def test_the_published_discriminator():
    """Six leaky layers of 1000 and two logits, with an Adam of its own (Kim and Mnih 2018)."""
    critic = OBJECTIVES["factor-vae"].needs.critic
    assert (critic.layers, critic.optimizer) == ((1000,) * 6, "adam-adversarial")
    assert critic.learning_rate == 1e-4
    shapes = jax.eval_shape(lambda key: critic.build(model(), critic.layers, key), KEY)
    sizes = [layer.weight.shape for layer in shapes.dense.layers]
    assert sizes == [(1000, 3), *[(1000, 1000)] * 5, (2, 1000)]
    assert shapes.dense.activation == "leaky_relu"


def test_the_discriminator_is_a_leaky_network_computed_by_hand():
    found = Discriminator.of(model(), (4, 4), key=KEY)
    x = np.array([0.5, -1.0, 2.0], np.float32)
    h = x
    for i, layer in enumerate(found.dense.layers):
        h = np.asarray(layer.weight) @ h + np.asarray(layer.bias)
        if i < 2:
            h = np.where(h > 0, h, 0.2 * h)
    np.testing.assert_allclose(found(jnp.asarray(x)), h, rtol=1e-5, atol=1e-6)


def test_its_loss_is_the_cross_entropy_of_two_labels():
    codes, permuted = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
    critic = second_player(FactorVAE(), model())
    told = discriminate(critic, jnp.asarray(codes), jnp.asarray(permuted))
    logits = [np.asarray(jax.vmap(critic)(each), float) for each in (codes, permuted)]
    log_softmax = [each - np.log(np.exp(each).sum(1, keepdims=True)) for each in logits]
    expected = -0.5 * (log_softmax[0][:, 0].mean() + log_softmax[1][:, 1].mean())
    np.testing.assert_allclose(told["discriminator_loss"], expected, rtol=1e-5)
    right = [(logits[0].argmax(1) == 0).mean(), (logits[1].argmax(1) == 1).mean()]
    np.testing.assert_allclose(told["discriminator_accuracy"], np.mean(right), rtol=1e-6)


def test_permuted_codes_come_from_the_second_batch():
    """Algorithm 2: another second batch changes the discriminator's loss and nothing else."""
    objective, vae = FactorVAE(7.0), model()
    critic = second_player(objective, vae)
    ours = objective(vae, critic, batch(), key=KEY)
    other = objective(vae, critic, Batch(EXAMPLES, 3 * EXAMPLES, jnp.array(0)), key=KEY)
    assert float(ours.parts["discriminator_loss"]) != float(other.parts["discriminator_loss"])
    rest = [t.loss - t.parts["discriminator_loss"] for t in (ours, other)]
    np.testing.assert_allclose(rest[0], rest[1], rtol=1e-6)
    expected = ours.parts["reconstruction"] + ours.parts["kl"]
    expected = expected + 7 * ours.parts["total_correlation"]
    np.testing.assert_allclose(rest[0], expected, rtol=1e-5)


def identity(key):
    """A model whose codes are the data."""
    vae = build(ARCHITECTURES["linear"], (2,), 2, SquaredError(), key=key)
    weight = jnp.concatenate([jnp.eye(2), jnp.zeros((2, 2))])
    bias = jnp.array([0.0, 0.0, -18.0, -18.0])
    first = vae.encoder.dense.layers[0]
    return eqx.tree_at(
        lambda v: (v.encoder.dense.layers[0].weight, v.encoder.dense.layers[0].bias),
        vae,
        (weight + 0 * first.weight, bias),
    )


@pytest.mark.parametrize(("correlation", "steps"), [(0.0, 400), (0.8, 1600)])
def test_the_density_ratio_reaches_the_total_correlation_of_a_gaussian(correlation, steps):
    """-log(1 - rho^2) / 2 of the data themselves, whose model stands still.

    A finite discriminator stays below: at 0.51 nats it misses about 0.015 after 1600 steps. Without
    correlation it must find nothing.
    """
    draws = np.random.default_rng(0).standard_normal((20_000, 2))
    root = np.linalg.cholesky(np.cov(draws.T))
    target = np.linalg.cholesky([[1, correlation], [correlation, 1]])
    data = ((draws - draws.mean(0)) @ np.linalg.inv(root).T @ target.T).astype(np.float32)
    space = FactorSpace(("a", "b"), (None, None), ("continuous", "continuous"))
    source = {"source": "test", "twin": False}
    dataset = Dataset("gaussian", data, data, space, "squared_error", source, (2,))
    recipe = Recipe(
        FactorVAE(jnp.array([5.0])),
        Optimizer(jnp.array([1e-30]), "sgd"),
        Optimizer(jnp.array([1e-3]), "adam-adversarial"),
        batch=512,
        partners=INDEPENDENT,
    )
    members = start_population(
        np.array([0]), recipe, identity, lambda m, key: Discriminator.of(m, (64,) * 3, key=key)
    )
    *_, last = fit(dataset, members, recipe, steps, log_every=400)
    found = last.parts["total_correlation"][0]
    np.testing.assert_allclose(found, -0.5 * np.log(1 - correlation**2), atol=0.03)
