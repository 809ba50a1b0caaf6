"""Objectives: identities between them, schedules, and the laws that all obey."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, PARTNERS, batch, model, second_player

from untwist.objectives import (
    DIPVAEI,
    DIPVAEII,
    OBJECTIVES,
    PCL,
    AnnealedVAE,
    Autoencoder,
    Batch,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
    SlowVAE,
)
from untwist.types import InputError

NAMES = sorted(OBJECTIVES)

# Each objective at its neutral strength, and the beta of the beta-VAE that it then is.
NEUTRAL = {
    "ae": (Autoencoder(), 0.0),
    "beta-vae": (BetaVAE(1.0), 1.0),
    "annealed-vae": (AnnealedVAE(0.0, gamma=1.0), 1.0),
    "factor-vae": (FactorVAE(0.0), 1.0),
    "beta-tcvae": (BetaTCVAE(1.0), 1.0),
    "dip-vae-i": (DIPVAEI(0.0), 1.0),
    "dip-vae-ii": (DIPVAEII(0.0), 1.0),
    "slow-vae": (SlowVAE(2.0, gamma=0.0), 1.0),
}
# Objectives without a variational part, which no strength turns into a VAE.
NOT_VARIATIONAL = ["pcl"]
# Objectives whose loss is a mean over the images of the batch, each by itself.
ONE_BY_ONE = ["ae", "beta-vae", "annealed-vae"]
# Objectives whose two players move against each other: the part of the loss that is the critic's.
CRITIC_LOSS = {"factor-vae": "discriminator_loss"}


def terms(objective, step=0, posterior="diagonal"):
    vae = model(posterior, decoder=objective.needs.decoder)
    return objective(vae, second_player(objective, vae), batch(step), key=KEY)


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


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_every_variational_objective_logs_the_parts_of_a_vae(name):
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


def test_every_objective_is_in_one_of_the_lists():
    assert sorted([*NEUTRAL, *NOT_VARIATIONAL]) == NAMES
    assert {type(objective) for objective, _ in NEUTRAL.values()} | {PCL} == {*OBJECTIVES.values()}


@pytest.mark.parametrize("name", sorted(NEUTRAL))
@pytest.mark.parametrize("posterior", ["diagonal", "full"])
def test_at_its_neutral_strength_an_objective_is_the_vae(name, posterior):
    """The same loss and the same gradient for the model, at the same noise.

    Where pairs are drawn, it is the VAE on both images of each.
    """
    objective, beta = NEUTRAL[name]
    vae = model(posterior)
    critic = second_player(objective, vae)
    seen = batch(7)
    if objective.needs.partners == "pairs":
        seen = Batch(jnp.concatenate([EXAMPLES, PARTNERS]), None, jnp.array(7))

    def loss(vae, objective, batch):
        terms = objective(vae, critic, batch, key=KEY)
        return terms.loss - terms.parts.get(CRITIC_LOSS.get(name, ""), 0.0)

    found, slope = eqx.filter_value_and_grad(loss)(vae, objective, batch(7))
    expected, right = eqx.filter_value_and_grad(loss)(vae, BetaVAE(beta), seen)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(slope), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CRITIC_LOSS))
def test_gradients_do_not_cross_between_players(name):
    """The critic moves by its own loss alone; its loss moves nothing of the model."""
    objective = OBJECTIVES[name]()
    vae = model()
    critic = second_player(objective, vae)

    def whole(players):
        return objective(*players, batch(), key=KEY).loss

    def own(players):
        return objective(*players, batch(), key=KEY).parts[CRITIC_LOSS[name]]

    model_slope, critic_slope = eqx.filter_grad(whole)((vae, critic))
    crossing, own_slope = eqx.filter_grad(own)((vae, critic))
    for leaf in jax.tree.leaves(crossing):
        np.testing.assert_array_equal(leaf, 0)
    for ours, theirs in zip(jax.tree.leaves(critic_slope), jax.tree.leaves(own_slope), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
        assert np.abs(ours).max() > 0
    # The estimate itself does move the model: the encoder's gradient is not that of a VAE.
    plain = eqx.filter_grad(lambda v: BetaVAE(1.0)(v, None, batch(), key=KEY).loss)(vae)
    gap = model_slope.encoder.dense.layers[0].weight - plain.encoder.dense.layers[0].weight
    assert np.abs(gap).max() > 1e-3


@pytest.mark.parametrize("name", [n for n in NAMES if OBJECTIVES[n]().needs.partners != "none"])
def test_an_objective_without_its_partners_says_so(name):
    objective = OBJECTIVES[name]()
    vae = model(objective.needs.posteriors[0], objective.needs.decoder)
    alone = Batch(EXAMPLES, None, jnp.array(0))
    with pytest.raises(InputError, match="needs partners, but the training draws none"):
        objective(vae, second_player(objective, vae), alone, key=KEY)


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
        (lambda: FactorVAE(-1.0), "gamma must be"),
        (lambda: SlowVAE(beta=-1.0), "beta must be"),
        (lambda: SlowVAE(rate=0.0), "rate must be above 0, but got 0"),
        (lambda: DIPVAEI(-1.0), "off_diagonal must be"),
        (lambda: DIPVAEII(1.0, jnp.array([2.0, -2.0])), "diagonal_ratio must be"),
    ],
)
def test_negative_strengths_are_refused(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
