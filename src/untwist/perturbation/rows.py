"""Perturbed images as an array that is computed when it is read."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from untwist.datasets import AbstractRows, Dataset, decode_examples
from untwist.perturbation.change import AbstractChange, perturb
from untwist.perturbation.features import factor_features

CHUNK = 1024
"""Images computed at a time."""
SLACK = 1e-3
"""Of a byte: what float32 may be off where epsilon is a whole number of bytes."""


@dataclass(frozen=True, eq=False)
class PerturbedRows(AbstractRows):
    """The bytes of fold(x + epsilon change), one image a row, 255 for 1: read like an array.

    Nothing is kept: whoever gathers rows on a device, or streams a dataset through it in shards,
    gets them computed from the source, of which there is one copy only.

    Attributes:
        source: The original images.
        change: What is done to them.
        epsilon: The largest change of a pixel.
    """

    source: Dataset
    change: AbstractChange
    epsilon: float

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return (len(self.source), *self.source.shape)

    @property
    def dtype(self) -> np.dtype:
        """Bytes."""
        return np.dtype(np.uint8)

    def __getitem__(
        self, index: slice | Int[np.ndarray, " batch"] | int
    ) -> UInt8[np.ndarray, "*batch height width channel"]:
        """Returns these rows."""
        if isinstance(index, int | np.integer):
            return self[np.array([index])][0]
        numbers = np.arange(len(self))[index]
        rows = np.empty((len(numbers), *self.source.shape), np.uint8)
        for first in range(0, len(numbers), CHUNK):
            part = numbers[first : first + CHUNK]
            rows[first : first + CHUNK] = self._compute(part)
        return rows

    def _compute(self, numbers: Int[np.ndarray, " batch"]) -> UInt8[np.ndarray, "batch *shape"]:
        """The rows of these numbers, filled up to a whole chunk so that one program serves all."""
        source, full = self.source, np.resize(numbers, min(CHUNK, _whole(len(numbers))))
        features = factor_features(source.factors[full], source.space, among=source.factors)
        layout = (source.shape, source.peak, source.bits)
        rows = jnp.asarray(source.data[full])
        places = jnp.asarray(full)
        changed = _perturb_rows(
            self.change, rows, jnp.asarray(features), places, self.epsilon, layout
        )
        return np.asarray(changed)[: len(numbers)]


def _whole(count: int) -> int:
    """The next power of two, so that few sizes are compiled."""
    return 1 << (count - 1).bit_length()


@eqx.filter_jit
def _perturb_rows(
    change: AbstractChange,
    rows: Array,
    features: Float[Array, "batch feature"],
    numbers: Int[Array, " batch"],
    epsilon: float,
    layout: tuple[tuple[int, ...], int, bool],
) -> UInt8[Array, "batch height width channel"]:
    """One chunk of changed images as bytes."""
    shape, peak, bits = layout
    images = decode_examples(rows, shape=shape, peak=peak, bits=bits)
    changed = perturb(images, jax.vmap(change)(features, numbers), epsilon)
    # Bytes are rounded towards the original where they would otherwise pass epsilon.
    lowest = jnp.ceil(255 * (images - epsilon) - SLACK)
    highest = jnp.floor(255 * (images + epsilon) + SLACK)
    return jnp.clip(jnp.round(255 * changed), lowest, highest).astype(jnp.uint8)
