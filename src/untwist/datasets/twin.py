"""What the twins share: the values of a factor, and the refusal of grids that cannot be drawn."""

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from untwist.types import InputError

SIZES = (16, 32, 64)

BATCH = 32
"""Geometries that are traced at once: always so many, so that one program serves every grid."""


def grid_values(
    count: int, first: float, last: float, alone: float | None = None
) -> Float[np.ndarray, " value"]:
    """Returns evenly spaced values with both ends, or the middle one if it stands alone."""
    if count == 1:
        return np.array([(first + last) / 2 if alone is None else alone])
    return np.linspace(first, last, count)


def in_batches(
    draw: Callable[..., Array], *columns: Shaped[np.ndarray, " item"]
) -> Iterator[Array]:
    """Yields what `draw` makes of equal pieces of the columns; the last piece may be shorter.

    While the caller handles one piece, the next is computed.
    """
    count = len(columns[0])
    pending = None
    for start in range(0, count, BATCH):
        index = np.minimum(np.arange(start, start + BATCH), count - 1)
        fresh = draw(*(jnp.asarray(column[index]) for column in columns))
        if pending is not None:
            yield pending
        pending = fresh[: count - start]
    if pending is not None:
        yield jax.block_until_ready(pending)


def check_size(name: str, size: int) -> None:
    """Raises unless a twin can be drawn at this size."""
    if size not in SIZES:
        raise InputError(
            f"{name}: size must be one of {', '.join(map(str, SIZES))}, but got {size}"
        )


def check_counts(name: str, **counts: int) -> None:
    """Raises unless every factor has at least one value."""
    if min(counts.values()) < 1:
        given = ", ".join(f"{option}={count}" for option, count in counts.items())
        raise InputError(
            f"{name}: the grid is empty: expected at least one value of each factor, but got "
            f"{given}"
        )


def check_distinct(
    name: str,
    pictures: Float[np.ndarray, "..."],
    factors: Sequence[str | None],
    size: int,
) -> None:
    """Raises where one step of a factor changes no byte of a picture.

    Args:
        name: The dataset.
        pictures: One axis for each factor, then the axes of a picture, in [0, 1].
        factors: The names of the factors; None where any step may be taken for granted.
        size: The pixels of a side.
    """
    levels = np.floor(255 * pictures + 0.5)
    for axis, factor in enumerate(factors):
        if factor is None:
            continue
        moved = np.moveaxis(levels, axis, 0)
        same = (moved[1:] == moved[:-1]).reshape(*moved[1:].shape[: len(factors)], -1).all(-1)
        if same.any():
            raise InputError(
                f"{name}: at {size} pixels neighboring values of {factor} draw the same image: "
                f"expected fewer `{factor}s`, or a larger `size`"
            )
