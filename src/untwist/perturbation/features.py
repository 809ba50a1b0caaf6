"""Factors as numbers that a network reads."""

import math

import numpy as np
from jaxtyping import Float

from untwist.factors import FactorSpace
from untwist.types import AnyArray, Factors, InputError


def factor_features(
    factors: Factors, space: FactorSpace, *, among: AnyArray | None = None
) -> Float[np.ndarray, "item feature"]:
    """Returns each factor as features of about unit size, in the order of the space.

    A categorical factor becomes indicators, a periodic one the cosine and sine of its angle, an
    ordinal one a number from -1 to 1, a continuous one its standard score. A factor of one value
    becomes nothing.

    Args:
        factors: One row an item.
        space: What the factors are.
        among: The rows that give the mean and deviation of a continuous factor; `factors` itself
            by default.

    >>> space = FactorSpace(("shape", "x"), (2, 3), ("categorical", "ordinal"))
    >>> factor_features(np.array([[1, 0], [0, 2]]), space).tolist()
    [[0.0, 1.0, -1.0], [1.0, 0.0, 1.0]]
    """
    table, whole = np.asarray(factors), np.asarray(factors if among is None else among)
    columns = [
        _columns(table[:, i], whole[:, i], space.kinds[i], space.sizes[i])
        for i in range(len(space))
    ]
    return np.concatenate([np.empty((len(table), 0)), *columns], axis=1).astype(np.float32)


def feature_owners(space: FactorSpace) -> list[int]:
    """Returns the number of the factor that each feature belongs to.

    >>> feature_owners(FactorSpace(("shape", "x"), (2, 3), ("categorical", "ordinal")))
    [0, 0, 1]
    """
    point = np.zeros((1, len(space)), int)
    return [
        i
        for i in range(len(space))
        for _ in _columns(point[:, i], point[:, i], space.kinds[i], space.sizes[i])[0]
    ]


def check_factors(name: str, space: FactorSpace) -> None:
    """Raises where no factor varies, so that there is nothing for a manipulation to depend on."""
    if not feature_owners(space):
        raise InputError(
            f"{name} has no factor that varies, and a manipulation is a function of the factors: "
            "give a dataset with factors"
        )


def _columns(values: np.ndarray, whole: np.ndarray, kind: str, size: int | None) -> np.ndarray:
    """The features of one factor."""
    if size is None:
        spread = whole.std() or 1.0
        return ((values - whole.mean()) / spread)[:, None]
    if size == 1:
        return np.empty((len(values), 0))
    if kind == "categorical":
        return np.eye(size)[values]
    if kind == "periodic":
        angle = 2 * math.pi * values / size
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return (2 * values / (size - 1) - 1)[:, None]


def neighbor_features(
    factors: Factors, space: FactorSpace, count: int, *, seed: int
) -> tuple[Float[np.ndarray, "point feature"], Float[np.ndarray, "point feature"]]:
    """Returns features of random rows, and of the same with one factor moved by one step.

    A step is to the next value, back from the last one unless the factor is periodic; of a
    continuous factor it is a tenth of its deviation.
    """
    rng = np.random.default_rng(seed)
    here = np.asarray(factors)[rng.integers(len(factors), size=count)]
    there, varying = here.copy(), list(dict.fromkeys(feature_owners(space)))
    for row, factor in enumerate(rng.choice(varying, size=count)):
        size, value = space.sizes[factor], here[row, factor]
        if size is None:
            there[row, factor] = value + 0.1 * np.asarray(factors)[:, factor].std()
        elif value + 1 < size:
            there[row, factor] = value + 1
        else:
            there[row, factor] = 0 if space.kinds[factor] == "periodic" else value - 1
    return (
        factor_features(here, space, among=factors),
        factor_features(there, space, among=factors),
    )
