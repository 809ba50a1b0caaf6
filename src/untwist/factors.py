"""The factor space: what the generating factors of a dataset are, and how a grid counts them."""

import functools
import math
import operator
from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from untwist.types import AnyArray, InputError

Kind = Literal["categorical", "ordinal", "periodic", "continuous"]


@dataclass(frozen=True)
class FactorSpace:
    """Names, sizes and kinds of the factors; the grid they span, in C order (last fastest).

    A discrete factor takes the integers 0 to size - 1. A continuous factor has size `None` and
    takes real values, so a space that holds one has no grid: it cannot count its points or hold a
    factor fixed, and says so. A periodic factor is ordinal with its last value next to its first.

    >>> space = FactorSpace(("shape", "x"), (3, 4), ("categorical", "ordinal"))
    >>> space.grid_size
    12
    >>> int(space.index(jnp.array([[2, 1]]))[0])
    9
    >>> space.factors(jnp.array([9])).tolist()
    [[2, 1]]
    """

    names: tuple[str, ...]
    sizes: tuple[int | None, ...]
    kinds: tuple[Kind, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise InputError("a factor space needs at least one factor, but got none")
        if not len(self.names) == len(self.sizes) == len(self.kinds):
            raise InputError(
                "a factor space needs one size and one kind for each name, but got "
                f"{len(self.names)} names, {len(self.sizes)} sizes and {len(self.kinds)} kinds"
            )
        if len(set(self.names)) < len(self.names):
            raise InputError(f"factor names must differ, but got {', '.join(self.names)}")
        for name, size, kind in zip(self.names, self.sizes, self.kinds, strict=True):
            if kind not in get_args(Kind):
                raise InputError(
                    f"factor {name!r} has kind {kind!r}: "
                    f"expected one of {', '.join(get_args(Kind))}"
                )
            if (kind == "continuous") != (size is None):
                raise InputError(
                    f"factor {name!r} is {kind} with size {size}: a continuous factor has size "
                    "None, every other kind has a whole number of values"
                )
            if size is not None and size < 1:
                raise InputError(
                    f"factor {name!r} has {size} values, so the grid is empty: give at least one"
                )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def has_grid(self) -> bool:
        """Whether every factor is discrete, so that the space is a finite grid."""
        return None not in self.sizes

    @property
    def grid_sizes(self) -> tuple[int, ...]:
        """The sizes of a grid; an error where a factor is continuous."""
        sizes = tuple(size for size in self.sizes if size is not None)
        if len(sizes) < len(self.sizes):
            names = [n for n, s in zip(self.names, self.sizes, strict=True) if s is None]
            raise InputError(
                f"{', '.join(names)} vary continuously, so there is no grid of factor values: "
                "interventions need a dataset whose factors are all discrete"
            )
        return sizes

    @property
    def grid_size(self) -> int:
        """The number of points of the grid, the product of the sizes."""
        return math.prod(self.grid_sizes)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far the index moves when a factor moves by one."""
        sizes = self.grid_sizes
        return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))

    def index(self, factors: Int[AnyArray, "*batch factor"]) -> Int[AnyArray, "*batch"]:
        """Returns the grid index of each row of factor values, in mixed radix."""
        terms = [factors[..., i] * stride for i, stride in enumerate(self.strides)]
        return functools.reduce(operator.add, terms)

    def factors(self, index: Int[AnyArray, "*batch"]) -> Int[AnyArray, "*batch factor"]:
        """Returns the factor values at each grid index: the inverse of `index`."""
        columns = [
            index // stride % size
            for stride, size in zip(self.strides, self.grid_sizes, strict=True)
        ]
        return (jnp if isinstance(index, Array) else np).stack(columns, -1)

    def sample(self, count: int, *, key: Key[Array, ""]) -> Int[Array, "item factor"]:
        """Returns `count` independent uniform rows of factor values."""
        sizes = jnp.asarray(self.grid_sizes)
        return jax.random.randint(key, (count, len(self)), 0, sizes)

    def sample_fixed(
        self, count: int, factor: int, value: Int[Array, ""] | int, *, key: Key[Array, ""]
    ) -> Int[Array, "item factor"]:
        """Returns uniform rows in which `factor` is held at `value`."""
        return self.sample(count, key=key).at[:, factor].set(value)

    def check(self, factors: AnyArray, what: str = "factors") -> None:
        """Raises unless `factors` is one row an item, each value inside its declared size."""
        if factors.ndim != 2 or factors.shape[1] != len(self):
            raise InputError(
                f"{what} must have one column for each of {', '.join(self.names)}, "
                f"but got an array of shape {factors.shape}"
            )
        if self.has_grid and not jnp.issubdtype(factors.dtype, jnp.integer):
            raise InputError(
                f"{what} must be integers, since every factor is discrete, but got {factors.dtype}"
            )
        for column, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            values = factors[:, column]
            if size is not None and len(values) and not (values.min() >= 0 and values.max() < size):
                raise InputError(
                    f"{what} has values of {name!r} from {values.min()} to {values.max()}: "
                    f"expected 0 to {size - 1}"
                )
