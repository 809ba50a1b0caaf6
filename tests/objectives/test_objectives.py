"""Objectives: identities between them, schedules, and the laws that all obey."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, PARTNERS, model

from untwist.objectives import (
    DIPVAEI,
    DIPVAEII,
    OBJECTIVES,
    AnnealedVAE,
    Autoencoder,
    Batch,
    BetaTCVAE,
    BetaVAE,
)
from untwist.types import InputError

NAMES = sorted(OBJECTIVES)

# Each objective at its neutral strength, and the beta of the beta-VAE that it then is.
NEUTRAL = {
    "ae": (Autoencoder(), 0.0),
    "beta-vae": (BetaVAE(1.0), 1.0),
    "annealed-vae": (AnnealedVAE(0.0, gamma=1.0), 1.0),
    "beta-tcvae": (BetaTCVAE(1.0), 1.0),
    "dip-vae-i": (DIPVAEI(0.0), 1.0),
    "dip-vae-ii": (DIPVAEII(0.0), 1.0),
}
# Objectives whose loss is a mean over the images of the batch, each by itself.
ONE_BY_ONE = ["ae", "beta-vae", "annealed-vae"]


def terms(objective, step=0, posterior="diagonal"):
    batch = Batch(EXAMPLES, PARTNERS, jnp.array(step))
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


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_constant_factor_on_the_batch_changes_nothing(name):
    """The unit is nats an image: the same images twice have the same loss, but for the noise."""
    objective = OBJECTIVES[name]()
    point = model("deterministic")
    once = objective(point, None, Batch(EXAMPLES, None, jnp.array(9)), key=KEY).loss
    twice = jnp.concatenate([EXAMPLES, EXAMPLES])
    np.testing.assert_allclose(
        once, objective(point, None, Batch(twice, None, jnp.array(9)), key=KEY).loss, rtol=1e-6
    )


def test_every_objective_is_in_the_list_of_neutral_strengths():
    assert sorted(NEUTRAL) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("posterior", ["diagonal", "full"])
def test_at_its_neutral_strength_an_objective_is_the_vae(name, posterior):
    """The same loss and the same gradient, at the same noise."""
    objective, beta = NEUTRAL[name]

    def loss(vae, objective):
        return objective(vae, None, Batch(EXAMPLES, PARTNERS, jnp.array(7)), key=KEY).loss

    found, slope = eqx.filter_value_and_grad(loss)(model(posterior), objective)
    expected, right = eqx.filter_value_and_grad(loss)(model(posterior), BetaVAE(beta))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(slope), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_neutral_strengths_of_a_capacity():
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
        (lambda: BetaTCVAE(-1.0), "beta must be"),
        (lambda: BetaTCVAE(stratified=0.5), "stratified is 0 .* or 1 .* but got 0.5"),
        (lambda: BetaTCVAE(dataset_size=-3.0), "dataset_size must be"),
        (lambda: DIPVAEI(-1.0), "off_diagonal must be"),
        (lambda: DIPVAEII(1.0, jnp.array([2.0, -2.0])), "diagonal_ratio must be"),
    ],
)
def test_negative_strengths_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
