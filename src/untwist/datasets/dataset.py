"""The dataset record: examples, their generating factors, and where both come from."""

import abc
import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from untwist.factors import FactorSpace
from untwist.types import AnyArray, InputError, nearest

Likelihood = Literal["bernoulli", "gaussian", "squared_error"]
Provenance = dict[str, str | int | float | bool]

BLOCK_BYTES = 2**24
"""How much of a dataset is read at a time when all of it must be looked at."""


class AbstractRows(abc.ABC):
    """Rows that are computed when they are read, in place of an array that holds them."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """The type of its entries."""

    @abc.abstractmethod
    def __getitem__(self, index: slice | Int[np.ndarray, " batch"] | int) -> np.ndarray:
        """Returns these rows."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the whole array would take."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Returns all rows, for `np.asarray`."""
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples with the factors that generated them, row by row.

    Attributes:
        name: The name in the catalog.
        data: uint8 N×H×W×C images, or, with `bits`, uint8 N×ceil(H·W·C / 8) rows of packed bits,
            or float32 N×n vectors. May be a memory map, or be computed when it is read.
        factors: N×F, integers where every factor is discrete.
        space: What the factors are.
        likelihood: The name of the likelihood that suits the data.
        provenance: Source, generator version, seed, checksums; `twin` says whether a procedural
            twin stands in for real files.
        shape: The shape of one example: (H, W, C) or (n,).
        peak: The byte that stands for 1.0.
        bits: Whether `data` holds one bit a pixel, the first pixel in the highest bit.
    """

    name: str
    data: np.ndarray | AbstractRows
    factors: np.ndarray
    space: FactorSpace
    likelihood: str
    provenance: Provenance
    shape: tuple[int, ...]
    peak: int = 255
    bits: bool = False

    def __post_init__(self) -> None:
        if self.likelihood not in get_args(Likelihood):
            raise nearest("likelihood", self.likelihood, get_args(Likelihood))
        if "source" not in self.provenance or not isinstance(self.provenance.get("twin"), bool):
            raise InputError(
                f"{self.name}: provenance must hold a 'source' and say with 'twin' whether it is a "
                f"procedural twin, but it holds {', '.join(self.provenance) or 'nothing'}"
            )
        if not 1 <= self.peak <= 255:
            raise InputError(
                f"{self.name}: peak is the byte that stands for 1.0, expected 1 to 255, "
                f"but got {self.peak}"
            )
        self._check_layout()
        if len(self.data) != len(self.factors):
            raise InputError(
                f"{self.name}: expected one row of factors for each example, but got "
                f"{len(self.data)} examples and {len(self.factors)} rows of factors"
            )
        self.space.check(self.factors, f"{self.name}: factors")

    def _check_layout(self) -> None:
        """Raises unless shape and dtype of the rows are what `shape` and `bits` promise."""
        if len(self.shape) not in (1, 3) or min(self.shape) < 1:
            raise InputError(
                f"{self.name}: the shape of one example must be (height, width, channel) or "
                f"(length,), but got {self.shape}"
            )
        if self.bits and not self.is_image:
            raise InputError(f"{self.name}: only images are held as bits, but got {self.shape}")
        row = (math.ceil(math.prod(self.shape) / 8),) if self.bits else self.shape
        kind = "packed bits" if self.bits else "images" if self.is_image else "vectors"
        if self.data.ndim == 0 or self.data.shape[1:] != row:
            raise InputError(
                f"{self.name}: expected {kind} of shape (examples, {', '.join(map(str, row))}), "
                f"but got {self.data.shape}: reshape the data or correct `shape`"
            )
        dtype = np.uint8 if self.is_image else np.float32
        if self.data.dtype != dtype:
            raise InputError(
                f"{self.name}: expected {kind} as {np.dtype(dtype)}, but got {self.data.dtype}: "
                f"convert them{' to bytes from 0 to `peak`' if self.is_image else ''}"
            )
        if len(self.data) == 0:
            raise InputError(f"{self.name}: expected at least one example, but got none")

    def __len__(self) -> int:
        return len(self.data)

    @property
    def is_image(self) -> bool:
        """Whether an example is an image, not a vector."""
        return len(self.shape) == 3

    @functools.cached_property
    def has_full_grid(self) -> bool:
        """Whether the rows are the whole factor grid in grid order: row i is grid point i."""
        if not self.space.has_grid or len(self) != self.space.grid_size:
            return False
        return np.array_equal(self.space.index(self.factors), np.arange(len(self)))

    def examples(self, index: Int[np.ndarray, " batch"] | slice) -> Float[np.ndarray, "batch ..."]:
        """Returns chosen examples as float32 on the host: images in [0, 1], vectors as they are."""
        rows = np.asarray(self.data[index])
        if not self.is_image:
            return rows
        if self.bits:
            pixels = np.unpackbits(rows, axis=-1, count=math.prod(self.shape))
            return pixels.reshape(-1, *self.shape).astype(np.float32)
        return rows.astype(np.float32) * _scale(self.peak)

    def subset(self, index: Int[np.ndarray, " batch"] | slice) -> "Dataset":
        """Returns the dataset of the chosen rows; its provenance says how many there were."""
        return replace(
            self,
            data=self.data[index],
            factors=self.factors[index],
            provenance=self.provenance | {"subset_of": len(self)},
        )

    def checksum(self) -> str:
        """Returns the sha256 of dtypes, shapes, data and factors, read in blocks."""
        return self._checksum

    @functools.cached_property
    def _checksum(self) -> str:
        digest = hashlib.sha256()
        for array in (self.data, self.factors):
            digest.update(f"{array.dtype.str} {array.shape} ".encode())
            for _, block in blocks(array):
                digest.update(np.ascontiguousarray(block).data)
        return digest.hexdigest()

    def check(self) -> None:
        """Raises unless every value is usable: bytes up to `peak`, floats finite. Reads it all."""
        for what, array in ((self.name, self.data), (f"{self.name}: factors", self.factors)):
            if np.issubdtype(array.dtype, np.floating):
                _check_finite(what, array)
        if self.is_image and not self.bits and self.peak < 255:
            for start, block in blocks(self.data):
                if (top := int(block.max())) > self.peak:
                    raise InputError(
                        f"{self.name}: expected bytes from 0 to {self.peak}, the peak, but got "
                        f"{top} among examples {start} to {start + len(block) - 1}: set `peak` to "
                        "the byte that stands for 1.0"
                    )


def decode_examples(
    rows: Num[AnyArray, "batch ..."], *, shape: tuple[int, ...], peak: int, bits: bool
) -> Float[Array, "batch ..."]:
    """Returns gathered rows of `Dataset.data` as float32 examples of `shape`, on the device.

    The same numbers as `Dataset.examples`, as a pure function for compiled code.

    >>> rows = jnp.array([[0b10100000]], jnp.uint8)
    >>> decode_examples(rows, shape=(2, 2, 1), peak=1, bits=True).ravel().tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    if bits:
        pixels = jnp.unpackbits(jnp.asarray(rows), axis=-1, count=math.prod(shape))
        return pixels.reshape(-1, *shape).astype(jnp.float32)
    values = jnp.asarray(rows, jnp.float32)
    return values * _scale(peak) if rows.dtype == jnp.uint8 else values


def blocks(array: np.ndarray | AbstractRows) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (first row, rows) pieces of a long array, so that a memory map is never read whole."""
    rows = max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


def _scale(peak: int) -> np.float32:
    """1 / peak. XLA turns a division by a constant into this product; so the host does it too."""
    return np.float32(1 / peak)


def _check_finite(what: str, array: np.ndarray | AbstractRows) -> None:
    """Raises at the first row that holds a NaN or an infinity."""
    for start, block in blocks(array):
        good = np.isfinite(block).reshape(len(block), -1).all(1)
        if not good.all():
            raise InputError(
                f"{what}: expected finite numbers, but row {start + int(np.argmin(good))} holds a "
                "NaN or an infinity: clean the data or leave the row out with `subset`"
            )
