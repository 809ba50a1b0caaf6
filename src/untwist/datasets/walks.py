"""Walks of continuous factors, and pairs whose changes come from measured motion."""

import csv
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from untwist.factors import FactorSpace
from untwist.types import InputError


def generalized_normal_walk(
    start: Float[Array, "batch factor"],
    steps: int,
    *,
    scale: float,
    power: float,
    key: Key[Array, ""],
) -> Float[Array, "step batch factor"]:
    """Returns walks of continuous factors in the unit box: the start, then `steps` innovations.

    w_t = w_(t-1) + e with e of density ∝ exp(-(|e| / scale)^power): Laplace at a power of 1, normal
    at 2, nearly uniform for large ones. A walk that would leave the box is reflected at its side.

    Args:
        start: Factors from 0 to 1.
        steps: How many innovations.
        scale: The scale of the innovations.
        power: Their shape.
        key: The randomness.
    """
    if not 0 < scale < float("inf") or not 0 < power < float("inf"):
        raise InputError(
            f"walk: expected scale and power above 0, but got scale={scale} and power={power}"
        )

    def step(
        factors: Float[Array, "batch factor"], key: Key[Array, ""]
    ) -> tuple[Float[Array, "batch factor"], Float[Array, "batch factor"]]:
        moved = factors + scale * jax.random.generalized_normal(key, power, factors.shape)
        folded = jnp.abs(jnp.mod(moved + 1, 2) - 1)  # a triangle wave: reflection at 0 and 1
        return folded, folded

    _, after = jax.lax.scan(step, start, jax.random.split(key, steps))
    return jnp.concatenate([start[None], after])


@dataclass(frozen=True, eq=False)
class NaturalPairs:
    """Pairs whose changes are drawn from measured ones, row by row, so that they stay correlated.

    A change is a fraction of the range of each factor. It is rounded up or down at random, so that
    its mean is kept; where it would leave the grid it is reflected. Factors without a change stay.
    Unlike in the authors' code, the first of a pair is any row, not one with a measured place.

    Attributes:
        space: The factors of the grid.
        changes: One row a measured change, one column a factor.

    Reference:
        Klindt et al. 2021, section 4, "natural" transitions.
    """

    space: FactorSpace
    changes: Float[np.ndarray, "change factor"]

    def __post_init__(self) -> None:
        if self.changes.ndim != 2 or self.changes.shape[1] != len(self.space):
            raise InputError(
                f"natural pairs: expected one column for each of {', '.join(self.space.names)}, "
                f"but got an array of shape {self.changes.shape}"
            )
        if not len(self.changes) or not (np.abs(self.changes) <= 1).all():
            raise InputError(
                "natural pairs: expected changes from -1 to 1, as fractions of a range"
            )
        kinds = np.array(self.space.kinds) == "categorical"
        if self.changes[:, kinds].any():
            raise InputError("natural pairs: expected no changes of categorical factors")

    def __call__(self, index: Int[Array, " batch"], key: Key[Array, ""]) -> Int[Array, " batch"]:
        """Returns the partner of each row."""
        change_key, round_key = jax.random.split(key)
        first = jnp.asarray(self.space.factors(index))
        last = jnp.array(self.space.grid_sizes) - 1
        which = jax.random.randint(change_key, index.shape, 0, len(self.changes))
        change = jnp.asarray(self.changes, jnp.float32)[which] * last
        steps = jnp.floor(change + jax.random.uniform(round_key, change.shape)).astype(first.dtype)
        period = jnp.maximum(2 * last, 1)
        folded = last - jnp.abs(jnp.mod(first + steps, period) - last)
        return jnp.asarray(self.space.index(folded.astype(first.dtype)))


def read_changes(path: Path, space: FactorSpace) -> Float[np.ndarray, "change factor"]:
    """Returns measured changes from a CSV whose columns are named after factors.

    Every cell is a change as a fraction of the factor's range; factors without a column get 0.
    """
    try:
        with path.open(newline="") as file:
            header, *rows = list(csv.reader(file))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read changes from {path}: {error}") from error
    unknown = [name for name in header if name not in space.names]
    if unknown:
        raise InputError(
            f"{path}: unknown factors {', '.join(unknown)}: expected some of "
            f"{', '.join(space.names)}"
        )
    changes = np.zeros((len(rows), len(space)), np.float32)
    try:
        if any(len(row) != len(header) for row in rows):
            raise ValueError("a row of another length")
        changes[:, [space.names.index(name) for name in header]] = np.array(rows, np.float32)
    except ValueError as error:
        raise InputError(
            f"{path}: expected a number in each of {len(header)} columns: {error}"
        ) from error
    return changes
