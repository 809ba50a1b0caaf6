"""Temporal pairs and walks on a grid: which rows follow which, for SlowVAE and PCL.

A rule of pairs maps row numbers of a full grid and a key to the rows of their partners; it is a
pure function, to be called inside compiled code. Rules are records: two with the same settings are
equal, so a trainer that holds one compiles once. Factors with a single value never change.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from untwist.factors import FactorSpace
from untwist.types import InputError

Pairs = Callable[[Int[Array, " batch"], Key[Array, ""]], Int[Array, " batch"]]

RATES = (1.0, 10.0)
"""Between these a random rate is uniform, as in the authors' code."""


@dataclass(frozen=True)
class LaplacePairs:
    """Pairs with sparse changes: every factor moves by a Laplace step cut off at its ends.

    p(v' | v) ∝ exp(-rate |v' - v| / log(size)) over the values of a factor. Categorical factors
    stay. Where no factor moved, one of those that can, chosen uniformly, is drawn once more among
    its other values, so that the two of a pair always differ.

    Attributes:
        space: The factors of the grid.
        rate: The rate; None draws one for each pair, uniformly from 1 to 10.
        wrap: Whether the distance of a periodic factor goes round; the authors' code does not.

    Reference:
        Klindt et al. 2021, section 4; the step, the unit log(size) and the second draw follow the
        authors' code.

    >>> pairs = LaplacePairs(FactorSpace(("x",), (2,), ("ordinal",)))
    >>> pairs(jnp.array([0, 1]), jax.random.key(0)).tolist()
    [1, 0]
    """

    space: FactorSpace
    rate: float | None = 6.0
    wrap: bool = False

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InputError(f"laplace pairs: expected a rate above 0, but got {self.rate}")
        if not any(self._moves):
            raise InputError(
                "laplace pairs: every factor is categorical or has one value, so none can move: "
                "use uniform pairs"
            )

    @property
    def _moves(self) -> tuple[bool, ...]:
        """Which factors can move."""
        parts = zip(self.space.grid_sizes, self.space.kinds, strict=True)
        return tuple(size > 1 and kind != "categorical" for size, kind in parts)

    def __call__(self, index: Int[Array, " batch"], key: Key[Array, ""]) -> Int[Array, " batch"]:
        """Returns the partner of each row."""
        rate_key, step_key, again_key, which_key = jax.random.split(key, 4)
        first = jnp.asarray(self.space.factors(index))
        low, high = RATES if self.rate is None else (self.rate, self.rate)
        rate = jax.random.uniform(rate_key, index.shape, minval=low, maxval=high)
        second = self._step(first, rate, step_key, stay=True)
        again = self._step(first, rate, again_key, stay=False)
        same = jnp.all(first == second, axis=-1, keepdims=True)
        chosen = _choose(jnp.array(self._moves), jnp.ones_like(index), which_key)
        return jnp.asarray(self.space.index(jnp.where(same & chosen, again, second)))

    def _step(
        self,
        first: Int[Array, "batch factor"],
        rate: Float[Array, " batch"],
        key: Key[Array, ""],
        *,
        stay: bool,
    ) -> Int[Array, "batch factor"]:
        """Each factor that can move after one step; without `stay`, each at another value."""
        columns = [first[:, i] for i in range(len(self.space))]
        for i, (size, move) in enumerate(zip(self.space.grid_sizes, self._moves, strict=True)):
            if move:
                distance = jnp.abs(jnp.arange(size) - columns[i][:, None])
                if self.wrap and self.space.kinds[i] == "periodic":
                    distance = jnp.minimum(distance, size - distance)
                logits = -rate[:, None] * distance / math.log(size)
                if not stay:
                    logits = jnp.where(distance == 0, -jnp.inf, logits)
                drawn = jax.random.categorical(jax.random.fold_in(key, i), logits)
                columns[i] = drawn.astype(first.dtype)
        return jnp.stack(columns, -1)


@dataclass(frozen=True)
class UniformPairs:
    """Pairs in which some factors take another value, uniformly, and the others stay.

    Attributes:
        space: The factors of the grid.
        changed: How many factors change; None draws the number for each pair, uniformly from 1 to
            one less than there are.

    Reference:
        Locatello et al. 2020, section 5 (`changed` fixed or random), as used in Klindt et al. 2021.

    >>> pairs = UniformPairs(FactorSpace(("x", "y"), (2, 2), ("ordinal", "ordinal")), changed=2)
    >>> pairs(jnp.arange(4), jax.random.key(0)).tolist()
    [3, 2, 1, 0]
    """

    space: FactorSpace
    changed: int | None = None

    def __post_init__(self) -> None:
        most = sum(size > 1 for size in self.space.grid_sizes)
        if most == 0:
            raise InputError("uniform pairs: every factor has one value, so none can change")
        if self.changed is not None and not 1 <= self.changed <= most:
            raise InputError(
                f"uniform pairs: expected from 1 to {most} changed factors, since so many have "
                f"more than one value, but got {self.changed}"
            )

    def __call__(self, index: Int[Array, " batch"], key: Key[Array, ""]) -> Int[Array, " batch"]:
        """Returns the partner of each row."""
        count_key, which_key, value_key = jax.random.split(key, 3)
        first = jnp.asarray(self.space.factors(index))
        sizes = jnp.array(self.space.grid_sizes, first.dtype)
        moves = [size > 1 for size in self.space.grid_sizes]
        if self.changed is None:
            counts = jax.random.randint(count_key, index.shape, 1, max(2, sum(moves)))
        else:
            counts = jnp.full(index.shape, self.changed)
        chosen = _choose(jnp.array(moves), counts, which_key)
        step = jax.random.randint(value_key, first.shape, 1, jnp.maximum(sizes, 2), first.dtype)
        return jnp.asarray(self.space.index(jnp.where(chosen, (first + step) % sizes, first)))


def walk(
    pairs: Pairs, start: Int[Array, " batch"], steps: int, *, key: Key[Array, ""]
) -> Int[Array, "step batch"]:
    """Returns the rows that walks come through: the start, then `steps` partners of partners.

    >>> pairs = LaplacePairs(FactorSpace(("x",), (2,), ("ordinal",)))
    >>> walk(pairs, jnp.array([0, 1]), 2, key=jax.random.key(0)).tolist()
    [[0, 1], [1, 0], [0, 1]]
    """

    def step(
        index: Int[Array, " batch"], key: Key[Array, ""]
    ) -> tuple[Int[Array, " batch"], Int[Array, " batch"]]:
        partner = pairs(index, key)
        return partner, partner

    _, after = jax.lax.scan(step, start, jax.random.split(key, steps))
    return jnp.concatenate([start[None], after])


def _choose(
    allowed: Bool[Array, " factor"], counts: Int[Array, " batch"], key: Key[Array, ""]
) -> Bool[Array, "batch factor"]:
    """For each row, a uniform choice of so many of the allowed factors."""
    score = jax.random.uniform(key, (len(counts), len(allowed)))
    rank = jnp.argsort(jnp.argsort(jnp.where(allowed, score, 2), axis=-1), axis=-1)
    return rank < counts[:, None]
