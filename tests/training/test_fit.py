"""The engine: a population equals its members, compiled once, split, streamed, and interrupted."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import Dataset, load
from untwist.factors import FactorSpace
from untwist.models import ARCHITECTURES, SquaredError, build
from untwist.objectives import AbstractObjective, BetaVAE, Terms, autoencode
from untwist.training import Optimizer, Recipe, fit, program, shuffled, start_population
from untwist.training.member import Rows, Streams, draw, start, step
from untwist.training.source import Source
from untwist.types import InputError

LINEAR = load("linear", samples=2000)
SPRITES = load("sprites", size=16, scales=2, orientations=1, positions=8)


def population(seeds, *, dataset=LINEAR, architecture="linear", beta=1e-2, rate=1e-2, batch=32):
    count = len(seeds)
    objective = BetaVAE(jnp.broadcast_to(jnp.asarray(beta, jnp.float32), count))
    optimizer = Optimizer(jnp.broadcast_to(jnp.asarray(rate, jnp.float32), count))
    recipe = Recipe(objective, optimizer, batch=batch)
    model = partial(build, ARCHITECTURES[architecture], dataset.shape, 2, SquaredError())
    return start_population(np.array(seeds), recipe, lambda key: model(key=key)), recipe


def run(members, recipe, steps=40, dataset=LINEAR, **options):
    """The last snapshot, on the host, and all losses [log, member]."""
    losses = []
    for snapshot in fit(dataset, members, recipe, steps, **{"log_every": 20} | options):
        losses.append(snapshot.parts["loss"])
        last = snapshot
    return jax.device_get(eqx.filter(last.members, eqx.is_array)), np.array(losses), last


def leaves(tree, member):
    return [np.asarray(leaf)[member] for leaf in jax.tree.leaves(tree)]


@pytest.fixture(scope="module")
def three():
    return run(*population([5, 6, 7], beta=[1e-3, 1e-2, 1e-1]))


def test_training_learns(three):
    _, losses, _ = three
    members, recipe = population([5, 6, 7], beta=[1e-3, 1e-2, 1e-1])
    _, longer, _ = run(members, recipe, 400)
    assert (longer[-1] < 0.5 * losses[0]).all()


@pytest.mark.parametrize("member", [0, 2])
def test_a_small_member_alone_agrees_with_the_population_after_a_thousand_steps(member):
    """Products over members may round otherwise than one alone: what grows of that stays small."""
    betas = [1e-3, 1e-2, 1e-1]
    together, _, _ = run(*population([5, 6, 7], beta=betas, rate=1e-3), 1000)
    alone, _, _ = run(*population([5 + member], beta=betas[member], rate=1e-3), 1000)
    for ours, theirs in zip(leaves(alone.model, 0), leaves(together.model, member), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


def test_the_order_of_members_does_not_matter(three):
    turned, _, _ = run(*population([7, 5, 6], beta=[1e-1, 1e-3, 1e-2]))
    for ours, theirs in zip(leaves(turned, 0), leaves(three[0], 2), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("architecture", ["mlp", "convolutional"])
@pytest.mark.slow
def test_a_large_member_alone_has_the_same_bits_as_in_a_population(architecture):
    """On a CPU large members run one after another, each by the same code."""
    make = partial(population, dataset=SPRITES, architecture=architecture, rate=1e-3, beta=1.0)
    together, _, _ = run(*make([1, 2]), 20, SPRITES)
    alone, _, _ = run(*make([2]), 20, SPRITES)
    for ours, theirs in zip(leaves(alone, 0), leaves(together, 1), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_members_abreast_agree_with_members_alone(monkeypatch):
    """The two forms of the loop compute the same step: 1% of the loss after a thousand of them."""
    make = partial(population, dataset=SPRITES, architecture="small", rate=1e-4, beta=1.0)
    _, apart, _ = run(*make([1, 2]), 1000, SPRITES, log_every=100)
    monkeypatch.setattr(program, "COMPANIONABLE", 10**9)
    monkeypatch.setattr(program, "_programs", {})
    _, abreast, _ = run(*make([1, 2]), 1000, SPRITES, log_every=100)
    np.testing.assert_allclose(abreast, apart, rtol=1e-2)
    assert (abreast != apart).any(), "the switch changed nothing"


def test_steps_in_pieces_are_the_same_steps(three):
    members, recipe = population([5, 6, 7], beta=[1e-3, 1e-2, 1e-1])
    halfway, _, _ = run(members, recipe, 20)
    members = eqx.combine(halfway, members)
    resumed, _, _ = run(members, recipe, 40, first=20)
    for ours, theirs in zip(jax.tree.leaves(resumed), jax.tree.leaves(three[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_logs_are_means_over_their_steps():
    members, recipe = population([1])
    _, fine, _ = run(members, recipe, 40, log_every=1)
    _, coarse, _ = run(members, recipe, 40, log_every=20)
    np.testing.assert_allclose(coarse[:, 0], fine[:, 0].reshape(2, 20).mean(1), rtol=1e-5)


def test_one_program_serves_every_step_and_log():
    """The objective's Python code runs for the shapes and for the compilation, and never again."""
    calls = []

    class Counted(AbstractObjective):
        def __call__(self, model, critic, batch, *, key):
            calls.append(1)
            _, _, parts = autoencode(model, batch.examples, key=key)
            return Terms(parts["reconstruction"], parts)

    members, _ = population([1, 2])
    recipe = Recipe(Counted(), Optimizer(jnp.full(2, 1e-3)), batch=32)
    traced = []
    for _ in fit(LINEAR, members, recipe, 95, log_every=10):
        traced.append(len(calls))
    assert len(traced) == 10
    assert traced[0] == traced[-1]
    for _ in fit(LINEAR, population([3, 4])[0], recipe, 50, log_every=25):
        pass
    assert len(calls) <= traced[-1] + 4  # shapes again, but no compilation


def test_an_epoch_shows_every_example_once_in_an_order_of_its_own():
    rows = Rows(np.arange(120, dtype=np.float32)[:, None], (1,), 255, False)
    recipe = Recipe(BetaVAE(1.0), Optimizer(jnp.array(1e-3)), batch=10)
    streams = Streams.of(jnp.uint32(3))
    seen = [
        np.asarray(draw(recipe, rows, jnp.array(step), streams.order).examples).ravel()
        for step in range(24)
    ]
    first, second = np.concatenate(seen[:12]), np.concatenate(seen[12:])
    np.testing.assert_array_equal(np.sort(first), np.arange(120))
    np.testing.assert_array_equal(np.sort(second), np.arange(120))
    assert (first != second).any()
    other = draw(recipe, rows, jnp.array(0), Streams.of(jnp.uint32(4)).order).examples
    assert (np.asarray(other).ravel() != seen[0]).any()


def test_a_diverged_member_is_frozen_and_the_others_go_on(three):
    """The member with an absurd rate stops at its last finite state; the others keep their bits."""
    members, recipe = population([5, 6, 7], beta=[1e-3, 1e-2, 1e-1], rate=[1e-2, 1e30, 1e-2])
    ended, _, last = run(members, recipe)
    assert np.asarray(ended.alive).tolist() == [True, False, True]
    assert 0 <= int(ended.failed_at[1]) < 20
    assert last.taken.tolist() == [20, 0, 20]
    assert all(np.isfinite(leaf).all() for leaf in leaves(ended.model, 1))
    for member in (0, 2):
        for ours, theirs in zip(leaves(ended, member), leaves(three[0], member), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_training_ends_early_where_every_member_diverged():
    members, recipe = population([1, 2], rate=1e30)
    _, losses, last = run(members, recipe, 4000)
    assert len(losses) < 10
    assert not np.asarray(last.members.alive).any()


def test_a_population_too_large_is_split_and_trains_alike():
    """Three members at a time and five abreast differ in their last bits."""
    members, recipe = population([1, 2, 3, 4, 5], dataset=SPRITES, architecture="small", rate=1e-3)
    state = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(members)) // 5
    _, whole, last = run(members, recipe, dataset=SPRITES)
    assert last.splits == 1
    ended, split, last = run(members, recipe, dataset=SPRITES, memory=6 * state)
    assert 2 <= last.splits <= 5
    assert np.asarray(ended.seed).tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(split, whole, rtol=1e-4)


def test_a_dataset_too_large_streams_from_a_memory_map(tmp_path):
    np.save(tmp_path / "data.npy", LINEAR.data)
    mapped = Dataset(
        "mapped",
        np.load(tmp_path / "data.npy", mmap_mode="r"),
        LINEAR.factors,
        LINEAR.space,
        LINEAR.likelihood,
        LINEAR.provenance,
        LINEAR.shape,
    )
    members, recipe = population([1, 2])
    whole, losses, _ = run(members, recipe, 300, mapped)
    ended, streamed, last = run(
        members, recipe, 300, mapped, memory=LINEAR.data.nbytes, log_every=20
    )
    assert last.shards == 4
    assert streamed[-1].mean() < 1.3 * losses[-1].mean()  # it learns the same data
    halfway, _, _ = run(members, recipe, 140, mapped, memory=LINEAR.data.nbytes)
    resumed, _, _ = run(
        eqx.combine(halfway, members), recipe, 300, mapped, memory=LINEAR.data.nbytes, first=140
    )
    for ours, theirs in zip(jax.tree.leaves(resumed), jax.tree.leaves(ended), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_shards_of_an_epoch_are_disjoint_and_differ_between_epochs():
    source = Source(LINEAR, 32, LINEAR.data.nbytes // 2, lambda rows: rows)
    epochs = [
        np.concatenate([source._choose(epoch * source.shards + s) for s in range(source.shards)])
        for epoch in (0, 1)
    ]
    for rows in epochs:
        assert len(set(rows)) == len(rows) >= len(LINEAR) - source.shards * 64
    assert (np.sort(epochs[0][:64]) != np.sort(epochs[1][:64])).any()


def test_a_batch_larger_than_the_data_is_refused():
    members, recipe = population([1], batch=2001)
    with pytest.raises(InputError, match="batch of 2001 is larger than the 2000 examples"):
        run(members, recipe)
    members, recipe = population([1], batch=2000)
    run(members, recipe, 2, log_every=1)


@pytest.mark.parametrize("options", [{"steps": 0}, {"log_every": 0}, {"first": 3}])
def test_impossible_lengths_are_refused(options):
    members, recipe = population([1])
    with pytest.raises(InputError, match="at least one step"):
        run(members, recipe, **options)


class Discriminator(AbstractObjective):
    """Two players in one scalar: the critic learns to tell codes from permuted codes."""

    gamma: jax.Array

    def __call__(self, model, critic, batch, *, key):
        code_key, order_key, other_key = jax.random.split(key, 3)
        _, codes, parts = autoencode(model, batch.examples, key=code_key)
        _, others, _ = autoencode(model, batch.partners, key=other_key)
        permuted = jax.vmap(jax.random.permutation, in_axes=(0, 1), out_axes=1)(
            jax.random.split(order_key, codes.shape[1]), others
        )
        frozen = jax.lax.stop_gradient
        total_correlation = jnp.mean(jax.vmap(frozen_critic(critic))(codes))
        told = jax.vmap(critic)
        loss = jnp.mean(jax.nn.softplus(-told(frozen(codes)))) + jnp.mean(
            jax.nn.softplus(told(frozen(permuted)))
        )
        model_loss = parts["reconstruction"] + parts["kl"] + self.gamma * total_correlation
        return Terms(model_loss + loss, {**parts, "critic_loss": loss})


def frozen_critic(critic):
    arrays, statics = eqx.partition(critic, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), statics)


def linear_critic(model, key):
    return eqx.nn.Linear(model.latents, "scalar", key=key)


def test_two_players_train_in_one_step_each_with_its_own_optimizer():
    count = 2
    recipe = Recipe(
        Discriminator(jnp.array([0.0, 5.0])),
        Optimizer(jnp.full(count, 1e-3)),
        critic_optimizer=Optimizer(jnp.full(count, 1e-2), "sgd"),
        batch=32,
        partners=lambda index, key: jax.random.randint(key, index.shape, 0, len(LINEAR)),
    )
    model = partial(build, ARCHITECTURES["linear"], LINEAR.shape, 2, SquaredError())
    members = start_population(
        np.array([1, 1]), recipe, lambda key: model(key=key), critic=linear_critic
    )
    ended, _, last = run(members, recipe, 60)
    assert (np.abs(ended.critic.weight - members.critic.weight) > 1e-4).any()
    assert last.parts["critic_loss"].shape == (2,)
    # At gamma 0 the critic does not touch the model: it is a VAE, step for step, up to the noise.
    assert (leaves(ended.model, 0)[0] != leaves(ended.model, 1)[0]).any()


class Slow(AbstractObjective):
    """A pairwise objective: the codes of partners should agree."""

    rate: jax.Array

    def __call__(self, model, critic, batch, *, key):
        _, codes, parts = autoencode(model, batch.examples, key=key)
        partners = jax.vmap(model.encode)(batch.partners).mean
        apart = jnp.mean(jnp.sum(jnp.abs(codes - partners), axis=1))
        return Terms(
            parts["reconstruction"] + parts["kl"] + self.rate * apart, parts | {"apart": apart}
        )


def test_a_pairwise_objective_draws_partners_of_its_examples():
    """Partners are the next point of the grid; the codes of such pairs grow alike."""
    recipe = Recipe(
        Slow(jnp.array([0.0, 20.0])),
        Optimizer(jnp.full(2, 1e-3)),
        batch=32,
        partners=lambda index, key: (index + 1) % len(SPRITES),
    )
    model = partial(build, ARCHITECTURES["small"], SPRITES.shape, 2, SquaredError())
    members = start_population(np.array([1, 1]), recipe, lambda key: model(key=key))
    _, _, last = run(members, recipe, 100, SPRITES)
    assert last.parts["apart"][1] < 0.5 * last.parts["apart"][0]


@pytest.mark.parametrize(
    ("shape", "bits", "words"),
    [((8, 8, 1), True, np.uint32), ((4, 4, 3), False, np.uint32), ((3, 3, 1), False, np.uint8)],
)
def test_rows_as_words_are_the_same_examples(shape, bits, words):
    stored = (int(np.prod(shape)) // 8,) if bits else shape
    data = np.random.default_rng(0).integers(0, 256, (20, *stored), np.uint8)
    space = FactorSpace(("item",), (20,), ("categorical",))
    source = {"source": "random", "twin": False}
    factors, peak = np.arange(20)[:, None], 1 if bits else 200
    dataset = Dataset("noise", data, factors, space, "bernoulli", source, shape, peak, bits)
    rows, index = Rows.of(dataset, data), np.array([3, 0, 19])
    assert rows.data.dtype == words
    np.testing.assert_array_equal(rows.examples(jnp.asarray(index)), dataset.examples(index))


@pytest.mark.slow
def test_narrow_weights_at_hand_are_those_a_step_makes_itself():
    model = partial(build, ARCHITECTURES["small"], SPRITES.shape, 2, SquaredError())
    recipe = Recipe(BetaVAE(1e-2), Optimizer(jnp.array(1e-2)), batch=8)
    narrow = partial(model, precision="bfloat16")
    member = start(jnp.uint32(0), recipe, lambda key: narrow(key=key), None)
    rows = Rows.of(SPRITES, SPRITES.data)
    assert member.model.narrowed().encoder.dense.layers[0].weight.dtype == jnp.bfloat16
    alone, *_ = step(member, recipe, rows, jnp.int32(0))
    given, *_ = step(member, recipe, rows, jnp.int32(0), member.model.narrowed())
    for ours, theirs in zip(jax.tree.leaves(alone), jax.tree.leaves(given), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_partners_are_the_rows_asked_for():
    space = FactorSpace(("w",), (None,), ("continuous",))
    values = np.arange(100, dtype=np.float32)[:, None]
    source = {"source": "test", "twin": False}
    data = Dataset("line", values, values, space, "gaussian", source, (1,))
    rows = Rows(data.data, data.shape, 255, False)
    recipe = Recipe(
        BetaVAE(1.0), Optimizer(jnp.array(1.0)), batch=10, partners=lambda index, key: 99 - index
    )
    batch = draw(recipe, rows, jnp.array(4), jax.random.key(0))
    np.testing.assert_array_equal(batch.partners, 99 - batch.examples)
    assert sorted(np.asarray(batch.examples).ravel()) != list(range(10))
    assert shuffled(jnp.arange(3), 3, key=jax.random.key(0)).dtype == jnp.int32
