"""Every objective on the engine: population and member, checkpoints, second players, partners."""

import importlib
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import LaplacePairs, UniformPairs, load
from untwist.objectives import OBJECTIVES, BetaVAE
from untwist.store import open_run
from untwist.training import (
    INDEPENDENT,
    Conduct,
    NextRow,
    Optimizer,
    Recipe,
    Spec,
    fit,
    load_population,
    partners_of,
    resume,
    train,
)
from untwist.training.member import Rows, Streams, draw
from untwist.training.spec import prepare, resolve
from untwist.types import InputError

QUIET = Conduct(progress=False)
LINEAR = load("linear", samples=500)
SMALL = {"size": 16, "scales": 2, "orientations": 1, "positions": 4}
SPRITES = load("sprites", **SMALL)
# What varies over the members of each objective: every one of its hyperparameters, if it has any.
VARIED = {
    "ae": {},
    "beta-vae": {"beta": (0.1, 1.0), "warmup": (0.0, 10.0)},
    "annealed-vae": {"capacity": (0.5, 2.0), "gamma": (1.0, 5.0), "ramp": (10.0, 20.0)},
    "factor-vae": {"gamma": (0.0, 5.0), "critic_learning_rate": (1e-4, 1e-2)},
    "beta-tcvae": {"beta": (1.0, 6.0), "stratified": (0.0, 1.0), "dataset_size": (0.0, 500.0)},
    "dip-vae-i": {"off_diagonal": (1.0, 5.0), "diagonal_ratio": (1.0, 10.0)},
    "dip-vae-ii": {"off_diagonal": (1.0, 5.0), "diagonal_ratio": (1.0, 10.0)},
    "slow-vae": {"beta": (0.5, 1.0), "gamma": (0.0, 10.0), "rate": (1.0, 6.0)},
    "pcl": {"critic_learning_rate": (1e-3, 1e-2)},
}


def spec_of(name, **changes):
    needs = OBJECTIVES[name].needs
    spec = Spec(
        "linear",
        {"samples": 500},
        "linear",
        latents=2,
        objective=name,
        batch=20,
        steps=30,
        log_every=10,
        seeds=(3,),
        vary={"learning_rate": (1e-2,)},
        pairs={"kind": "next"} if needs.partners == "pairs" else {},
        critic_layers=(8, 8) if needs.critic and needs.critic.layers else None,
    )
    return replace(spec, **changes)


def same(ours, theirs, **tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def quick(names):
    """All objectives, those not among these names marked as slow: the compiler takes the time."""
    return [
        name if name in names else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted(OBJECTIVES)
    ]


@pytest.mark.parametrize("name", quick(["beta-tcvae", "pcl"]))
def test_a_member_of_a_grid_of_strengths_is_the_member_alone(name):
    """The last of all combinations of hyperparameters, in one program, against it alone.

    After 30 steps; the arithmetic over members may round otherwise than that of one.
    """
    assert set(VARIED) == set(OBJECTIVES)
    together = train(spec_of(name, vary=VARIED[name] | {"learning_rate": (1e-2,)}), conduct=QUIET)
    assert (together.members["status"] == "ok").all()
    vary = {field: values[-1:] for field, values in VARIED[name].items()}
    alone = train(spec_of(name, vary=vary | {"learning_rate": (1e-2,)}), conduct=QUIET)
    same(alone.model(0), together.model(-1), rtol=1e-4, atol=1e-5)
    if len(together) > 1:
        first, last = (jax.tree.leaves(together.model(i)) for i in (0, -1))
        assert any((a != b).any() for a, b in zip(first, last, strict=True))


@pytest.mark.parametrize("name", ["factor-vae", pytest.param("pcl", marks=pytest.mark.slow)])
def test_a_second_player_is_checkpointed_and_resumed_to_the_same_bits(name, tmp_path, monkeypatch):
    spec = spec_of(name, seeds=(3, 4))
    straight = train(spec, conduct=QUIET)
    module = importlib.import_module("untwist.training.train")
    write = module._write_checkpoint

    def stopping(*arguments):
        write(*arguments)
        raise RuntimeError("killed")

    monkeypatch.setattr(module, "_write_checkpoint", stopping)
    with pytest.raises(RuntimeError, match="killed"):
        train(spec, tmp_path / "run", conduct=Conduct(progress=False, checkpoint_seconds=0.0))
    monkeypatch.undo()
    resumed = resume(tmp_path / "run", conduct=QUIET)
    same(resumed.models, straight.models, rtol=0)
    for part, column in straight.history.items():
        np.testing.assert_array_equal(resumed.history[part], column)
    stored = load_population(open_run(tmp_path / "run"))
    same(stored.models, straight.models, rtol=0)
    assert (stored.models.decoder is None) == (name == "pcl")


def test_the_second_player_moves_and_has_its_own_optimizer():
    spec, data = resolve(spec_of("factor-vae"), LINEAR)
    members, recipe = prepare(spec, data.shape, partners_of("factor-vae", {}, data))
    assert recipe.optimizer.name == "adam"
    assert recipe.critic_optimizer.name == "adam-adversarial"
    assert recipe.critic_optimizer.learning_rate.tolist() == [np.float32(1e-4)]
    before = [layer.weight.copy() for layer in members.critic.dense.layers]
    assert [weight.shape for weight in before] == [(1, 8, 2), (1, 8, 8), (1, 2, 8)]
    *_, last = fit(data, members, recipe, 20, log_every=20)
    after = [np.asarray(layer.weight) for layer in last.members.critic.dense.layers]
    # Adam's steps are about as long as its rate, whatever the gradient.
    for old, new in zip(before, after, strict=True):
        assert 1e-4 < np.abs(new - old).max() < 20 * 1e-4 * 3


def test_an_independent_batch_is_a_permutation_of_its_own():
    rows = Rows(np.arange(120, dtype=np.float32)[:, None], (1,), 255, False)
    recipe = Recipe(BetaVAE(), Optimizer(jnp.array(1.0)), batch=10, partners=INDEPENDENT)
    order = Streams.of(jnp.uint32(3)).order
    batches = [draw(recipe, rows, jnp.array(step), order) for step in range(12)]
    second = np.concatenate([np.asarray(batch.second).ravel() for batch in batches])
    first = np.concatenate([np.asarray(batch.examples).ravel() for batch in batches])
    np.testing.assert_array_equal(np.sort(second), np.arange(120))
    assert (first != second).mean() > 0.9
    alone = draw(replace_partners(recipe, None), rows, jnp.array(0), order)
    np.testing.assert_array_equal(alone.examples, batches[0].examples)


def replace_partners(recipe, partners):
    return Recipe(recipe.objective, recipe.optimizer, None, recipe.batch, partners)


def test_pairs_come_from_the_rule_that_the_spec_names():
    assert partners_of("beta-vae", {}, SPRITES) is None
    assert partners_of("factor-vae", {}, SPRITES) == INDEPENDENT
    assert partners_of("slow-vae", {}, SPRITES) == LaplacePairs(SPRITES.space, 6.0)
    random = partners_of("pcl", {"rate": "random"}, SPRITES)
    assert random == LaplacePairs(SPRITES.space, None)
    uniform = {"kind": "uniform", "changed": 1.0}
    assert partners_of("pcl", uniform, SPRITES) == UniformPairs(SPRITES.space, 1)
    assert partners_of("pcl", {"kind": "next"}, LINEAR) == NextRow(500)


def test_a_spec_stores_its_second_player_and_pairs():
    factor, _ = resolve(Spec("sprites", {"size": 16}, objective="factor-vae"), SPRITES)
    assert factor.critic_layers == (1000,) * 6
    assert factor.critic_optimizer == "adam-adversarial"
    assert factor.vary["critic_learning_rate"] == (1e-4,)
    slow, _ = resolve(Spec("sprites", {"size": 16}, objective="slow-vae"), SPRITES)
    assert slow.pairs == {"kind": "laplace", "rate": 6.0}
    alone, _ = resolve(Spec("sprites", {"size": 16}, objective="pcl"), SPRITES)
    assert (alone.likelihood, alone.posterior) == (None, "deterministic")
    for spec in (factor, slow, alone):
        assert resolve(Spec.of(spec.table()), SPRITES)[0] == spec


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"critic_layers": (8,)}, "beta-vae has no second player"),
        ({"critic_optimizer": "adam"}, "beta-vae has no second player"),
        ({"pairs": {"kind": "laplace"}}, "beta-vae learns from no pairs"),
        ({"objective": "factor-vae", "critic_optimizer": "adm"}, "did you mean 'adam'"),
        (
            {"objective": "factor-vae", "critic_layers": ()},
            r"width of at least 1 each, but got \[\]",
        ),
        ({"objective": "factor-vae", "critic_layers": (8, 0)}, r"but got \[8, 0\]"),
        ({"objective": "factor-vae", "posterior": "deterministic"}, "use diagonal or full"),
        ({"objective": "factor-vae", "batch": 1}, "factor-vae compares .* at least 2"),
        ({"objective": "pcl", "critic_layers": (8,)}, "pcl has no hidden layers to choose"),
        ({"objective": "pcl", "likelihood": "gaussian"}, "pcl trains an encoder alone"),
        ({"objective": "pcl", "posterior": "diagonal"}, "pcl works with the posterior determin"),
        ({"objective": "pcl", "vary": {"beta": (1.0,)}}, "unknown hyperparameter of pcl 'beta'"),
        ({"objective": "pcl", "pairs": {"kind": "lapalce"}}, "did you mean 'laplace'"),
        ({"objective": "pcl", "pairs": {"changed": 1}}, "setting of laplace pairs 'changed'"),
        ({"objective": "pcl", "pairs": {"rate": "fast"}}, "is a number or random, but got 'fast'"),
        (
            {"objective": "pcl", "pairs": {"rate": -1.0}, "dataset": "sprites", "options": SMALL},
            "expected a rate above 0, but got -1",
        ),
        ({"objective": "slow-vae"}, "laplace pairs move on the whole grid .* linear does not"),
        (
            {"objective": "slow-vae", "vary": {"rate": (0.0,)}, "pairs": {"kind": "next"}},
            "rate must be above 0",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_made(change, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        train(replace(spec_of("beta-vae"), **change), tmp_path / "run", conduct=QUIET)
    assert not (tmp_path / "run").exists()


def test_pairs_of_a_dataset_that_does_not_fit_the_device_are_refused():
    spec, data = resolve(spec_of("pcl"), LINEAR)
    members, recipe = prepare(spec, data.shape, NextRow(len(data)))
    with pytest.raises(InputError, match="so all 6,000 bytes of it must fit on the device"):
        next(fit(data, members, recipe, 10, memory=data.data.nbytes))


def test_large_second_players_count_when_members_are_arranged(monkeypatch):
    """A small model with a large critic does not share its steps on a CPU."""
    program = importlib.import_module("untwist.training.program")
    spec, data = resolve(spec_of("factor-vae"), LINEAR)
    members, _ = prepare(spec, data.shape)
    sizes = [
        sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(player, eqx.is_array)))
        for player in (members.model, members.critic)
    ]
    monkeypatch.setattr(program, "COMPANIONABLE", sum(sizes))
    assert program._abreast(members)
    monkeypatch.setattr(program, "COMPANIONABLE", sum(sizes) - 1)
    assert not program._abreast(members) or jax.default_backend() != "cpu"


def test_a_population_of_encoders_starts_like_one_with_decoders():
    """The decoder takes nothing from the encoder's randomness."""
    alone, data = resolve(spec_of("pcl"), LINEAR)
    both, _ = resolve(spec_of("ae"), LINEAR)
    ours, theirs = (prepare(spec, data.shape)[0].model for spec in (alone, both))
    same(ours.encoder, theirs.encoder, rtol=0)
