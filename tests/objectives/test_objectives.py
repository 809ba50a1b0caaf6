"""Objectives: identities between them, schedules, and the laws that all obey."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.models import ARCHITECTURES, SquaredError, build
from untwist.objectives import OBJECTIVES, AnnealedVAE, Autoencoder, Batch, BetaVAE
from untwist.types import InputError

KEY = jax.random.key(0)
EXAMPLES = jax.random.normal(jax.random.key(1), (8, 5))
NAMES = sorted(OBJECTIVES)


def model(posterior="diagonal"):
    return build(
        ARCHITECTURES["linear"], (5,), 3, SquaredError(), posterior=posterior, key=jax.random.key(2)
    )


def terms(objective, step=0, posterior="diagonal"):
    batch = Batch(EXAMPLES, None, jnp.array(step))
    return objective(model(posterior), None, batch, key=KEY)


@pytest.mark.parametrize("posterior", ["diagonal", "full"])
def test_the_vae_is_the_elbo_computed_by_hand(posterior):
    """-log p(x|z) + KL, an image at a time, with the same noise."""
    vae, noise = model(posterior), jax.random.normal(KEY, (8, 3))
    reconstruction, kl = [], []
    for x, e in zip(EXAMPLES, noise, strict=True):
        q = vae.encode(x)
        reconstruction.append(float(jnp.sum((vae.decode(q.at(e)) - x) ** 2)))
        kl.append(float(q.kl()))
    ours = terms(BetaVAE(1.0), posterior=posterior)
    np.testing.assert_allclose(ours.loss, np.mean(reconstruction) + np.mean(kl), rtol=1e-5)
    np.testing.assert_allclose(ours.parts["reconstruction"], np.mean(reconstruction), rtol=1e-5)
    np.testing.assert_allclose(ours.parts["kl"], np.mean(kl), rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_logs_the_parts_of_a_vae(name):
    ours = terms(OBJECTIVES[name]())
    assert ours.loss.shape == ()
    assert set(ours.parts) >= {
        "reconstruction",
        "kl",
        "polarized_kl",
        "kl_per_latent",
        "variance_per_latent",
    }
    np.testing.assert_allclose(jnp.sum(ours.parts["kl_per_latent"]), ours.parts["kl"], rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_factor_on_the_batch_changes_nothing(name):
    """The unit is nats an image: the same images twice have the same loss, but for the noise."""
    objective = OBJECTIVES[name]()
    point = build(
        ARCHITECTURES["linear"], (5,), 3, SquaredError(), posterior="deterministic", key=KEY
    )
    once = objective(point, None, Batch(EXAMPLES, None, jnp.array(9)), key=KEY).loss
    twice = jnp.concatenate([EXAMPLES, EXAMPLES])
    np.testing.assert_allclose(
        once, objective(point, None, Batch(twice, None, jnp.array(9)), key=KEY).loss, rtol=1e-6
    )


def test_neutral_strengths():
    ae = terms(Autoencoder()).loss
    np.testing.assert_array_equal(terms(BetaVAE(0.0)).loss, ae)
    np.testing.assert_array_equal(terms(AnnealedVAE(0.0, gamma=0.0)).loss, ae)
    # A capacity of zero holds the KL at zero with weight gamma: a beta-VAE.
    np.testing.assert_allclose(
        terms(AnnealedVAE(0.0, gamma=3.0)).loss, terms(BetaVAE(3.0)).loss, rtol=1e-6
    )


@pytest.mark.parametrize(("step", "weight"), [(0, 0.0), (25, 0.25), (100, 1.0), (900, 1.0)])
def test_the_warmup_is_a_straight_line(step, weight):
    np.testing.assert_allclose(
        terms(BetaVAE(2.0, warmup=100.0), step).loss, terms(BetaVAE(2.0 * weight)).loss, rtol=1e-6
    )


@pytest.mark.parametrize(("step", "capacity"), [(0, 0.0), (50, 2.5), (100, 5.0), (900, 5.0)])
def test_the_capacity_rises_in_a_straight_line(step, capacity):
    ours = terms(AnnealedVAE(5.0, gamma=10.0, ramp=100.0), step)
    expected = ours.parts["reconstruction"] + 10 * abs(float(ours.parts["kl"]) - capacity)
    np.testing.assert_allclose(ours.loss, expected, rtol=1e-6)


def test_the_polarized_kl_leaves_out_passive_latents_and_the_variance_of_active_ones():
    """rolinek2019 Eq. 10 at planted posteriors: one active, one passive, one mixed."""
    mean = jnp.array([1.5, 0.01, 0.3])
    variance = jnp.array([0.01, 0.99, 0.7])
    vae = model()
    encoder = vae.encoder.dense.layers[0]
    vae = eqx.tree_at(
        lambda v: (v.encoder.dense.layers[0].weight, v.encoder.dense.layers[0].bias),
        vae,
        (jnp.zeros_like(encoder.weight), jnp.concatenate([mean, jnp.log(variance)])),
    )
    parts = BetaVAE(1.0)(vae, None, Batch(EXAMPLES, None, jnp.array(0)), key=KEY).parts
    active = np.array([True, False, True])
    expected = 0.5 * np.sum((mean**2 - jnp.log(variance) - 1)[active])
    np.testing.assert_allclose(parts["polarized_kl"], expected, rtol=1e-5)
    np.testing.assert_allclose(parts["variance_per_latent"], variance, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: BetaVAE(-1.0), "beta must be at least 0, but got -1"),
        (lambda: BetaVAE(jnp.array([1.0, jnp.nan])), "beta must be at least 0"),
        (lambda: BetaVAE(1.0, warmup=-1.0), "warmup must be"),
        (lambda: AnnealedVAE(-5.0), "capacity must be"),
        (lambda: AnnealedVAE(5.0, gamma=-1.0), "gamma must be"),
    ],
)
def test_negative_strengths_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
