"""Linear assignments of many small matrices: one at a time on a CPU, all at once elsewhere.

Both are exact. SciPy solves a 10x10 assignment in under ten microseconds, which no program over the
whole batch does on a CPU. An accelerator has no such solver; there the best value of the first k
rows is found for every set of k columns, from those of k - 1 rows, for all matrices at a time:
d 2^(d - 1) additions each.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray
from scipy.optimize import linear_sum_assignment

from untwist.mechanism.decoder import stream

MOST = 12
"""Rows up to which all sets of columns are gone through on an accelerator."""

BATCH = 2**16
"""Matrices at a time there."""


def assign(gains: Float[ndarray, "batch row column"]) -> Int[ndarray, "batch row"]:
    """Returns the column of each row in the assignment whose sum of gains is the largest.

    >>> assign(np.array([[[3.0, 2.0], [2.0, 0.0]]])).tolist()
    [[1, 0]]
    """
    size = gains.shape[-1]
    if jax.default_backend() == "cpu" or not 0 < size <= MOST:
        costs, found = -gains, np.empty(gains.shape[:2], int)
        for index, cost in enumerate(costs):
            found[index] = linear_sum_assignment(cost)[1]
        return found
    with jax.enable_x64(True):
        return stream(assign_by_sets, gains, chunk=BATCH)


@jax.jit
def assign_by_sets(gains: Float[Array, "batch row column"]) -> Int[Array, "batch row"]:
    """Returns the same by going through all sets of columns, for the whole batch at a time."""
    gains = jnp.moveaxis(gains, 0, -1)
    best, choices, layers = jnp.zeros((1, gains.shape[-1]), gains.dtype), [], _layers(len(gains))
    for row, (columns, before) in zip(gains, layers, strict=True):
        reached = best[before[:, 0]] + row[columns[:, 0]]
        choice = jnp.zeros(reached.shape, jnp.int8)
        for last in range(1, columns.shape[1]):
            other = best[before[:, last]] + row[columns[:, last]]
            choice = jnp.where(other > reached, jnp.int8(last), choice)
            reached = jnp.maximum(reached, other)
        best, choices = reached, [*choices, choice]
    place, found = jnp.zeros(gains.shape[-1], jnp.int32), []
    for (columns, before), choice in zip(reversed(layers), reversed(choices), strict=True):
        last = jnp.take_along_axis(choice, place[None], axis=0)[0]
        found.append(jnp.asarray(columns)[place, last])
        place = jnp.asarray(before)[place, last]
    return jnp.stack(found[::-1], axis=1)


@functools.cache
def _layers(size: int) -> list[tuple[ndarray, ndarray]]:
    """For k = 1, 2, ...: the columns of each set of k, and the place of the set without each."""
    sets = [[s for s in range(2**size) if s.bit_count() == count] for count in range(size + 1)]
    place = {s: index for layer in sets for index, s in enumerate(layer)}
    layers = []
    for layer in sets[1:]:
        columns = np.array([[c for c in range(size) if s >> c & 1] for s in layer], np.int32)
        before = [
            [place[s - 2**c] for c in row] for s, row in zip(layer, columns.tolist(), strict=True)
        ]
        layers.append((columns, np.array(before, np.int32)))
    return layers
