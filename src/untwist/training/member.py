"""A member of a population: its evolving state, the recipe it learns by, and one step of it.

Everything here is written for one member; `program` maps it over a population.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt8, UInt32

from untwist.datasets import AbstractRows, Dataset, decode_examples
from untwist.models import VAE
from untwist.objectives import AbstractObjective, Batch, Terms
from untwist.training.optimizer import Optimizer
from untwist.training.order import shuffled
from untwist.types import AnyArray

INDEPENDENT = "independent"
Partners = Callable[[Int[Array, " batch"], Key[Array, ""]], Int[Array, " batch"]]
BuildModel = Callable[[Key[Array, ""]], VAE]
BuildCritic = Callable[[VAE, Key[Array, ""]], PyTree]


class Streams(NamedTuple):
    """The independent random streams of a member; all follow from its seed alone."""

    model: Key[Array, ""]
    critic: Key[Array, ""]
    order: Key[Array, ""]
    noise: Key[Array, ""]

    @classmethod
    def of(cls, seed: UInt32[Array, ""]) -> "Streams":
        """Returns the streams of this seed."""
        return cls(*jax.random.split(jax.random.key(seed), 4))


class Recipe(eqx.Module):
    """How a member learns. Array leaves are hyperparameters and carry the member axis.

    Attributes:
        objective: What it minimizes.
        optimizer: How the model moves.
        critic_optimizer: How the critic moves, if there is one.
        batch: Examples a step.
        partners: From row numbers and a key to the rows of their partners; `INDEPENDENT` for a
            second batch in an order of its own; None where none are drawn.
    """

    objective: AbstractObjective
    optimizer: Optimizer
    critic_optimizer: Optimizer | None = None
    batch: int = eqx.field(static=True, default=64)
    partners: Partners | str | None = eqx.field(static=True, default=None)


class Member(eqx.Module):
    """What evolves: the players, their optimizers' states, and whether the member still runs.

    Attributes:
        model: The model.
        critic: The second player; None without one.
        optimizer_state: The state of the model's optimizer.
        critic_state: The state of the critic's optimizer.
        seed: All of the member's randomness.
        alive: False once a loss or gradient was not finite: then nothing changes any more.
        failed_at: The step at which that happened, or -1.
    """

    model: VAE
    critic: PyTree
    optimizer_state: PyTree
    critic_state: PyTree
    seed: UInt32[Array, "..."]
    alive: Bool[Array, "..."]
    failed_at: Int[Array, "..."]


class Rows(eqx.Module):
    """Examples on the device as they are stored, made into numbers when a batch is gathered.

    Attributes:
        data: The rows of a dataset, or the same bytes as words of four, little end first.
        shape: The shape of one example.
        peak: The byte that stands for 1.0.
        bits: Whether there is one bit a pixel.
    """

    data: (
        UInt8[AnyArray, "row *stored"] | UInt32[AnyArray, "row word"] | Float[AnyArray, "row entry"]
    )
    shape: tuple[int, ...] = eqx.field(static=True)
    peak: int = eqx.field(static=True)
    bits: bool = eqx.field(static=True)

    @classmethod
    def of(cls, dataset: Dataset, data: np.ndarray | AbstractRows) -> "Rows":
        """Returns rows of a dataset, as words if they divide into them.

        Words are gathered faster, and of bytes there may be more than 32 bits can number.
        """
        data = np.ascontiguousarray(np.asarray(data))
        if data.dtype == np.uint8 and math.prod(data.shape[1:]) % 4 == 0:
            data = data.reshape(len(data), -1).view(np.uint32)
        return cls(data, dataset.shape, dataset.peak, dataset.bits)

    def examples(self, index: Int[Array, " batch"]) -> Float[Array, "batch *shape"]:
        """Returns these rows as numbers."""
        rows = jnp.asarray(self.data)[index]
        if rows.dtype == jnp.uint32:
            stored = (-1,) if self.bits else self.shape
            rows = jax.lax.bitcast_convert_type(rows, jnp.uint8).reshape(len(rows), *stored)
        return decode_examples(rows, shape=self.shape, peak=self.peak, bits=self.bits)


def start(
    seed: UInt32[Array, ""], recipe: Recipe, model: BuildModel, critic: BuildCritic | None
) -> Member:
    """Returns the member before its first step."""
    streams = Streams.of(seed)
    player = model(streams.model)
    rival = critic(player, streams.critic) if critic else None
    rival_optimizer = recipe.critic_optimizer or recipe.optimizer
    return Member(
        player,
        rival,
        recipe.optimizer.init(_parameters(player)),
        rival_optimizer.init(_parameters(rival)),
        seed,
        jnp.array(True),
        jnp.array(-1, jnp.int32),
    )


def step(
    member: Member,
    recipe: Recipe,
    rows: Rows,
    number: Int[Array, ""],
    narrowed: VAE | None = None,
) -> tuple[Member, dict[str, Array], Bool[Array, ""]]:
    """Returns the member after step `number`, the loss's parts, and whether it took the step.

    `narrowed` is `member.model.narrowed()` for who has it at hand.
    """
    streams = Streams.of(member.seed)
    batch = draw(recipe, rows, number, streams.order)
    key = jax.random.fold_in(streams.noise, number)
    players = (member.model.narrowed() if narrowed is None else narrowed, member.critic)
    (_, terms), (gradient, critic_gradient) = _descend(players, recipe.objective, batch, key)
    norm = optax.tree.norm((gradient, critic_gradient))
    parts = {"loss": terms.loss, **terms.parts, "gradient_norm": norm}
    model, optimizer_state = _move(recipe.optimizer, member.model, gradient, member.optimizer_state)
    critic, critic_state = _move(
        recipe.critic_optimizer or recipe.optimizer,
        member.critic,
        critic_gradient,
        member.critic_state,
    )
    finite = jnp.isfinite(terms.loss) & jnp.isfinite(norm)
    taken = member.alive & finite
    failed_at = jnp.where(member.alive & ~finite, number.astype(jnp.int32), member.failed_at)
    moved = Member(model, critic, optimizer_state, critic_state, member.seed, taken, failed_at)
    kept = eqx.tree_at(lambda m: (m.alive, m.failed_at), member, (taken, failed_at))
    return _where(taken, moved, kept), parts, taken


def draw(recipe: Recipe, rows: Rows, number: Int[Array, ""], order: Key[Array, ""]) -> Batch:
    """Returns the batch of step `number`: each pass over the rows is a permutation of its own.

    A pass takes rows // batch steps; the remainder, different in every pass, is left out of it.
    """
    count = len(rows.data)
    passes, position = jnp.divmod(number, count // recipe.batch)
    order_key, partner_key = jax.random.split(jax.random.fold_in(order, passes))
    places = position * recipe.batch + jnp.arange(recipe.batch)
    index = shuffled(places, count, key=order_key)
    partners = None
    if callable(recipe.partners):
        drawn = recipe.partners(index, jax.random.fold_in(partner_key, position))
        partners = rows.examples(drawn)
    elif recipe.partners == INDEPENDENT:
        partners = rows.examples(shuffled(places, count, key=partner_key))
    return Batch(rows.examples(index), partners, number)


def _descend(players: tuple[VAE, PyTree], objective: AbstractObjective, batch: Batch, key):
    """The loss, its terms, and the gradient for both players at once."""

    def loss(players: tuple[VAE, PyTree]) -> tuple[Float[Array, ""], Terms]:
        terms = objective(*players, batch, key=key)
        return terms.loss, terms

    value, gradients = eqx.filter_value_and_grad(loss, has_aux=True)(players)
    widened = jax.tree.map(lambda g: g.astype(jnp.promote_types(g.dtype, jnp.float32)), gradients)
    return value, widened


def _move(optimizer: Optimizer, player: PyTree, gradient: PyTree, state: PyTree):
    """The player after one step of its optimizer, and the optimizer's new state."""
    moved, state = optimizer.update(gradient, state, _parameters(player))
    return eqx.combine(moved, player), state


def _parameters(player: PyTree) -> PyTree:
    """The leaves that learn."""
    return eqx.filter(player, eqx.is_inexact_array)


def _where(condition: Bool[Array, ""], yes: Member, no: Member) -> Member:
    """`yes` where the condition holds, else `no`, leaf by leaf."""

    def choose(a, b):
        return jnp.where(condition, a, b) if eqx.is_array(a) else a

    return jax.tree.map(choose, yes, no)
