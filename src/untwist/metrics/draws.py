"""Random draws from a JAX key in NumPy: generators, and splits into training and test items."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Int
from numpy import ndarray

from untwist.metrics.record import NotApplicable
from untwist.types import InputError, RandomKey


def generator(key: RandomKey) -> np.random.Generator:
    """Returns a NumPy generator seeded by the key: the same key, the same draws.

    >>> first, second = (generator(jax.random.key(3)).integers(1000) for _ in range(2))
    >>> bool(first == second)
    True
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key), dtype=np.uint32))


@dataclass(frozen=True)
class Split:
    """Rows to fit on and rows to judge by."""

    train: Int[ndarray, " train"]
    test: Int[ndarray, " test"]

    def check(self, items: int) -> None:
        """Raises unless both parts are rows of `items` items."""
        for rows in (self.train, self.test):
            if len(rows) == 0 or rows.min() < 0 or rows.max() >= items:
                raise InputError(
                    f"a split needs training and test rows between 0 and {items - 1}, "
                    f"but got {len(self.train)} and {len(self.test)} rows"
                )


def split(items: int, split: Split | None, *, key: RandomKey, test: float = 1 / 3) -> Split:
    """Returns the split given, or a random one with a third of the items for testing.

    >>> halves = split(9, None, key=jax.random.key(0))
    >>> len(halves.train), len(halves.test)
    (6, 3)
    """
    if split is not None:
        split.check(items)
        return split
    count = round(items * test)
    if count < 1 or items - count < 2:
        raise NotApplicable(
            f"{items} items cannot be split into training and test items: give ten or more"
        )
    order = generator(key).permutation(items)
    return Split(order[count:], order[:count])
