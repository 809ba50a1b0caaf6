"""What the twins share: the values of a factor, and the refusal of grids that cannot be drawn."""

from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped, UInt8

from untwist.types import AnyArray, InputError

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
    draw: Callable[..., PyTree], *columns: Shaped[np.ndarray, " item"]
) -> Iterator[PyTree]:
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
        pending = fresh
    left = count - BATCH * ((count - 1) // BATCH)
    yield jax.tree.map(lambda part: part[:left], pending)


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
    name: str, images: UInt8[np.ndarray, "..."], options: Mapping[str, str | None]
) -> None:
    """Raises where one step of a factor changes no byte of an image.

    Args:
        name: The dataset.
        images: One axis for each factor, then the axes of an image.
        options: For each factor the option that counts its values; None if it need not be checked.
    """
    for axis, (factor, option) in enumerate(options.items()):
        if option is None:
            continue
        moved = np.moveaxis(images, axis, 0)
        for one, other in zip(moved, moved[1:], strict=False):
            same = (one == other).reshape(*one.shape[: len(options) - 1], -1).all(-1)
            if same.any():
                raise InputError(
                    f"{name}: at {images.shape[-2]} pixels neighboring values of {factor} draw the "
                    f"same image: expected fewer `{option}`, or a larger `size`"
                )


@jax.jit
def color(
    light: Float[Array, "item height width part"], colors: Float[AnyArray, "choice part channel"]
) -> UInt8[Array, "choice item height width channel"]:
    """Returns the bytes of all pictures in all choices of colors for their parts."""

    def paint(chosen: Float[Array, "part channel"]) -> UInt8[Array, "item height width channel"]:
        picture = sum(light[..., part, None] * chosen[part] for part in range(light.shape[-1]))
        return jnp.floor(255 * picture + 0.5).astype(jnp.uint8)

    return jax.vmap(paint)(jnp.asarray(colors))
