"""Which partners the batches of a training bring: a second batch, or the second of each pair."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from untwist.datasets import Dataset, LaplacePairs, UniformPairs
from untwist.objectives import OBJECTIVES
from untwist.training.member import INDEPENDENT, Partners
from untwist.types import InputError, nearest

RANDOM = "random"
"""The value of a setting of pairs that is drawn anew for each pair."""


@dataclass(frozen=True)
class NextRow:
    """Pairs of a sequence: the partner of a row is the row after it, of the last the one before.

    >>> NextRow(3)(jnp.arange(3), None).tolist()
    [1, 2, 1]
    """

    count: int

    def __call__(self, index: Int[Array, " batch"], key: Key[Array, ""] | None) -> Array:
        """Returns the partner of each row, whatever the key."""
        return jnp.where(index + 1 < self.count, index + 1, self.count - 2)


PAIRS: dict[str, dict[str, Any]] = {
    "laplace": {"rate": 6.0},
    "uniform": {"changed": RANDOM},
    "next": {},
}
"""The kinds of pairs, and their settings with the defaults."""


def pair_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings of pairs with every default filled in and every name checked.

    >>> pair_settings({"rate": 2.0})
    {'kind': 'laplace', 'rate': 2.0}
    """
    kind = given.get("kind", "laplace")
    if kind not in PAIRS:
        raise nearest("kind of pairs", str(kind), PAIRS)
    known = {"kind": kind} | PAIRS[kind]
    for name, value in given.items():
        if name not in known:
            raise nearest(f"setting of {kind} pairs", name, known)
        if name != "kind" and value != RANDOM and not isinstance(value, int | float):
            raise InputError(f"{name} of {kind} pairs is a number or {RANDOM}, but got {value!r}")
    return known | dict(given)


def partners_of(
    objective: str, settings: Mapping[str, Any], dataset: Dataset
) -> Partners | str | None:
    """Returns how the partners that an objective needs are drawn from a dataset.

    Args:
        objective: A name in `OBJECTIVES`.
        settings: Of the pairs, if it needs any: `kind` and what else `PAIRS` lists for it.
        dataset: What the rows are.
    """
    needed = OBJECTIVES[objective].needs.partners
    if needed != "pairs":
        if settings:
            raise InputError(
                f"{objective} learns from no pairs, so leave the settings of pairs out"
            )
        return INDEPENDENT if needed == "independent" else None
    settings = pair_settings(settings)
    if settings["kind"] == "next":
        if len(dataset) < 2:
            raise InputError(f"{dataset.name} has one row only, so none follows another")
        return NextRow(len(dataset))
    if not dataset.has_full_grid:
        raise InputError(
            f"{settings['kind']} pairs move on the whole grid of factors, but {dataset.name} does "
            "not hold one: use a dataset that does, or kind=next where its rows are a sequence"
        )
    if settings["kind"] == "laplace":
        rate = settings["rate"]
        return LaplacePairs(dataset.space, None if rate == RANDOM else float(rate))
    changed = settings["changed"]
    return UniformPairs(dataset.space, None if changed == RANDOM else int(changed))
