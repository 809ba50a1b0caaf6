"""The game: what it pays, that it goes on as if never stopped, and who wins it."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from planted_images import bars, models, same

from untwist.models import DiagonalGaussian
from untwist.perturbation import (
    Procedure,
    choose_members,
    factor_r2,
    learn,
    measure_preservation,
    nearest_originals,
    reconstruction,
    stack_members,
    start_players,
)
from untwist.types import InputError

FAST = Procedure(rounds=8, batch=8, learning_rate=1e-2, architecture="small", log_every=2)


def test_reconstruction_is_the_mean_square_over_latent_samples():
    data = bars()
    stacked = models(data)
    model = stack_members(stacked, np.array([0]))
    model = jax.tree.map(lambda leaf: leaf[0], model)
    originals = jnp.asarray(data.examples(np.arange(3)))
    targets, key = originals[::-1], jax.random.key(4)
    got = reconstruction(model, originals, targets, 5, key)
    total = 0.0
    for x, target, one in zip(originals, targets, jax.random.split(key, 3), strict=True):
        posterior = model.encode(x)
        for noise in jax.random.normal(one, (5, 2)):
            total += float(jnp.sum((model.decode(posterior.at(noise)) - target) ** 2)) / 15
    assert isinstance(posterior, DiagonalGaussian)
    assert float(got) == pytest.approx(total, rel=1e-5)


def test_learning_goes_on_as_if_it_had_never_stopped():
    data, stacked = bars(), models(bars())
    straight = list(learn(data, stacked, FAST))
    half = list(learn(data, stacked, replace(FAST, rounds=8)))[1]
    rest = list(learn(data, stacked, FAST, players=half.players, first=half.round))
    assert [step.round for step in straight] == [2, 4, 6, 8]
    assert [step.logs for step in rest] == [step.logs for step in straight[2:]]
    same(rest[-1].players, straight[-1].players)


def test_encoders_stay_and_decoders_move():
    data, stacked = bars(), models(bars())
    players = start_players(data, stacked, FAST)
    same(players.decoders, stacked.decoder)
    moved = list(learn(data, stacked, FAST))[-1].players
    before, after = (p.decoders.dense.layers[0].weight for p in (players, moved))
    assert not np.allclose(before, after)


def test_the_manipulation_makes_the_disentangled_side_pay():
    """It changes the images by the factor that the disentangled side is blind to."""
    data, stacked = bars(), certain_of(bars())
    procedure = replace(FAST, rounds=150, batch=36, log_every=150, learning_rate=3e-3, epsilon=0.3)
    for order in ((0, 1), (1, 0)):
        pair = stack_members(stacked, np.array(order))
        (last,) = learn(data, pair, procedure)
        assert last.logs["gap"] < 0
        change = last.players.manipulation
        patterns = jax.vmap(change, in_axes=(0, None))(features_of(data), jnp.int32(0))
        variation = np.asarray(patterns).reshape(6, 6, -1)
        over_rows = variation.mean(1).var(0).sum()
        over_columns = variation.mean(0).var(0).sum()
        blind_to_columns = order == (0, 1)
        assert (over_columns > 3 * over_rows) == blind_to_columns
        assert (over_rows > 3 * over_columns) != blind_to_columns


def features_of(data):
    from untwist.perturbation import factor_features

    return jnp.asarray(factor_features(data.factors, data.space))


def certain_of(data):
    """Two models: one whose code is the row, and knows no column, and one the other way round."""
    stacked = models(data, latents=1)
    images = data.examples(slice(None)).reshape(36, -1)
    weights = []
    for factor in (0, 1):
        target = 2 * data.factors[:, factor] / 5 - 1
        solution, *_ = np.linalg.lstsq(images - images.mean(0), target, rcond=None)
        weights.append((solution, -images.mean(0) @ solution))
    return eqx.tree_at(lambda m: m.encoder, stacked, LinearReading.of(weights))


class LinearReading(eqx.Module):
    """An encoder that gives a linear reading of the image, and is sure of it."""

    weight: jax.Array
    bias: jax.Array

    @classmethod
    def of(cls, weights):
        return cls(
            jnp.asarray(np.stack([w for w, _ in weights]), jnp.float32),
            jnp.asarray(np.stack([b for _, b in weights]), jnp.float32),
        )

    def __call__(self, x, *, fused=False):
        return jnp.stack([x.ravel() @ self.weight + self.bias, jnp.float32(-6.0)])


def test_without_the_common_pattern_the_mean_over_images_gets_no_gradient():
    """All images have one row of factors, so that nothing but the mean is left to learn.

    Adam makes steps of any gradient, also of rounding's; so its first moment is looked at, to
    which all gradients add up.
    """
    data, stacked = bars(), models(bars())
    alike = replace(data, factors=np.zeros_like(data.factors))
    moments = {}
    for common in (True, False):
        (*_, last) = learn(alike, stacked, replace(FAST, common=common))
        moments[common] = optax.tree.norm(optax.tree.get(last.players.manipulation_state, "mu"))
    assert moments[False] < 1e-4 * moments[True]


def test_a_learning_that_diverges_says_so():
    data, stacked = bars(), models(bars())
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, stacked)
    with pytest.raises(InputError, match="diverged between rounds 0 and 2.*lower the learning"):
        list(learn(data, broken, FAST))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"epsilon": 0.0}, "above 0 and at most 1"),
        ({"epsilon": 1.1}, "above 0 and at most 1"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"learning_rate": 0.0}, "learning rate must be above 0"),
        ({"architecture": "smal"}, "did you mean 'small'"),
        ({"seed": -1}, "seed must be from 0"),
    ],
)
def test_a_procedure_that_makes_no_sense_is_refused(setting, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(FAST, **setting).check()


def test_models_without_decoders_are_refused():
    stacked = eqx.tree_at(lambda m: m.decoder, models(bars()), None)
    with pytest.raises(InputError, match="have none"):
        start_players(bars(), stacked, FAST)


def test_members_are_chosen_by_score_and_status():
    scores = np.array([0.3, 0.9, np.nan, 0.1, 0.5, 0.05])
    status = np.array(["ok", "ok", "ok", "ok", "ok", "collapsed"])
    best, worst = choose_members(scores, status, 2)
    assert best.tolist() == [1, 4]
    assert worst.tolist() == [3, 0]
    best, worst = choose_members(scores, status, 1, lower_is_better=True)
    assert (best.tolist(), worst.tolist()) == ([3], [1])
    with pytest.raises(InputError, match="at least 6 members.*only 4 of 6"):
        choose_members(scores, status, 3)
    with pytest.raises(InputError, match="all 6 members collapsed"):
        choose_members(scores, np.array(["collapsed"] * 6))
    with pytest.raises(InputError, match="at least one member of each kind"):
        choose_members(scores, status, 0)


def test_hidden_factors_are_found_missing():
    """Where the columns are left out, the regressor loses them and only them."""
    result = measure_preservation(bars(7), bars(7, columns=False), steps=600)
    assert result.factors == ("row", "column")
    assert (result.original > 0.9).all()
    assert result.perturbed[0] > 0.9
    assert result.perturbed[1] < 0.2
    assert result.largest_loss == pytest.approx(100 * (result.original - result.perturbed).max())
    assert result.found < 0.5


def test_every_image_finds_itself_and_small_data_are_refused():
    data = bars()
    assert nearest_originals(data, data, seed=0) == (1.0, 36, 36)
    with pytest.raises(InputError, match="too few to teach"):
        factor_r2(data.subset(np.arange(4)))
    with pytest.raises(InputError, match="the same images perturbed"):
        measure_preservation(data, data.subset(np.arange(30)))
