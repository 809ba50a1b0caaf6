"""What every metric returns: its value first, then the evidence for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Float, Shaped
from numpy import ndarray

from untwist.types import InputError

Setting = str | int | float | bool | None


def check_counts(least: int, **counts: int) -> None:
    """Raises unless every count, given by its name, is a whole number no less than `least`."""
    for name, count in counts.items():
        if count != int(count) or count < least:
            raise InputError(f"{name} must be a whole number from {least} on, but got {count}")


class NotApplicable(InputError):
    """The metric is not defined on this input, and the sentence says why.

    `score` lists the sentence as the reason beside an empty value; a direct call raises it.
    """


@dataclass(frozen=True)
class Score:
    """A value and its evidence.

    Columns of `matrix` and entries of `per_factor` belong to the factors in `factors`, which are
    those that vary in the data; rows of `matrix` and entries of `per_latent` to all latents.

    Attributes:
        value: the score itself.
        estimator: how the quantities inside it were estimated, in a few words.
        settings: the constants that the value depends on.
        factors: names of the factors that entered.
        matrix: the latent by factor matrix that the score summarizes.
        per_factor: its contribution of each factor.
        per_latent: its contribution of each latent.
        parts: further evidence, by name.
    """

    value: float
    estimator: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    factors: tuple[str, ...] = ()
    matrix: Float[ndarray, "latent factor"] | None = None
    per_factor: Float[ndarray, " factor"] | None = None
    per_latent: Float[ndarray, " latent"] | None = None
    parts: Mapping[str, float | Shaped[ndarray, "..."]] = field(default_factory=dict)
