"""The Jacobian of what generated a dataset: which directions of variance the data offer a model.

Rows are factors, in the dataset's own units: one step of the grid where a factor has one. So the
derivative of a drawing and the differences between neighbors on a grid can be laid side by side.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from untwist.datasets.dataset import Dataset
from untwist.datasets.generators import Generate, generator
from untwist.factors import FactorSpace
from untwist.types import InputError

CLOSING_ROWS = 64
"""On so many rows, and those asked for, a periodic factor must draw the same at both its ends."""


class Jacobian(NamedTuple):
    """How examples change with their factors.

    Attributes:
        names: The factors that have a derivative: all but categorical ones.
        values: dx/dw at each item, a row for each of these factors.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "item factor *shape"]


def generator_jacobian(
    dataset: Dataset, index: Int[np.ndarray, " item"], *, generate: Generate | None = None
) -> Jacobian:
    """Returns dx/dw of the smooth generator at the factors of some rows, by automatic derivation.

    Args:
        dataset: A drawn or synthetic dataset.
        index: The rows.
        generate: From one row of factors to its example; by default that of `generator`.

    >>> from untwist.datasets.linear import linear, linear_mixing
    >>> dataset = linear(samples=3)
    >>> jacobian = generator_jacobian(dataset, np.array([1]))
    >>> bool(np.allclose(jacobian.values[0].T, linear_mixing(), atol=1e-6))
    True
    """
    generate = generator(dataset) if generate is None else generate
    columns = _columns(dataset.space)
    derive = jax.jit(lambda row: _derivatives(generate, row, jnp.array(columns)))
    rows = jnp.asarray(dataset.factors[index], jnp.float32)
    values = np.stack([np.asarray(derive(row)) for row in rows])
    return Jacobian(tuple(dataset.space.names[i] for i in columns), values)


def grid_jacobian(dataset: Dataset, index: Int[np.ndarray, " item"]) -> Jacobian:
    """Returns dx/dw at some rows of a full grid by differences between neighbors, real or drawn.

    Between two neighbors the difference is central: half of the next minus the previous. The ends
    of an ordinal factor have one neighbor, and the difference to it. A periodic factor goes round;
    where its last value draws what its first draws, as orientation in dSprites, the two are one
    place. Factors of one value are left out.

    Args:
        dataset: Any dataset on a full grid.
        index: The rows.
    """
    if not dataset.has_full_grid:
        raise InputError(
            f"{dataset.name} is not a full grid in grid order, so its rows have no neighbors: "
            "expected one"
        )
    columns = [i for i in _columns(dataset.space) if dataset.space.grid_sizes[i] > 1]
    values = np.stack([_difference(dataset, index, column) for column in columns], 1)
    return Jacobian(tuple(dataset.space.names[i] for i in columns), values)


def _columns(space: FactorSpace) -> list[int]:
    """The factors that have a derivative."""
    columns = [i for i, kind in enumerate(space.kinds) if kind != "categorical"]
    if not columns:
        raise InputError("every factor is categorical, so none has a derivative")
    return columns


def _derivatives(
    generate: Generate, row: Float[Array, " factor"], columns: Int[Array, " moving"]
) -> Float[Array, "moving *shape"]:
    """The derivative along each of these factors, forward."""
    directions = jnp.eye(len(row))[columns]
    return jax.vmap(lambda direction: jax.jvp(generate, (row,), (direction,))[1])(directions)


def _difference(
    dataset: Dataset, index: Int[np.ndarray, " item"], column: int
) -> Float[np.ndarray, "item *shape"]:
    """The difference along one factor."""
    space = dataset.space
    size, kind = space.grid_sizes[column], space.kinds[column]
    factors = dataset.factors[index]
    place = factors[:, column]
    if kind == "periodic" and size > 2:
        period = size - 1 if _closes(dataset, factors, column) else size
        after, before = (place + 1) % period, (place - 1) % period
        step = np.full(len(place), 2)
    else:
        after, before = np.minimum(place + 1, size - 1), np.maximum(place - 1, 0)
        step = after - before
    ahead, behind = (_examples(dataset, factors, column, value) for value in (after, before))
    return (ahead - behind) / step.reshape(-1, *(1 for _ in dataset.shape)).astype(np.float32)


def _closes(dataset: Dataset, factors: Int[np.ndarray, "item factor"], column: int) -> bool:
    """Whether the last value of a periodic factor draws what the first draws."""
    spread = np.linspace(0, len(dataset) - 1, min(CLOSING_ROWS, len(dataset))).astype(int)
    rows = np.concatenate([dataset.factors[spread], factors])
    last = dataset.space.grid_sizes[column] - 1
    first, final = (_examples(dataset, rows, column, np.full(len(rows), end)) for end in (0, last))
    return np.array_equal(first, final)


def _examples(
    dataset: Dataset,
    factors: Int[np.ndarray, "item factor"],
    column: int,
    values: Int[np.ndarray, " item"],
) -> Float[np.ndarray, "item *shape"]:
    """The examples of these rows with one factor moved."""
    moved = factors.copy()
    moved[:, column] = values
    return dataset.examples(np.asarray(dataset.space.index(moved)))
