"""The model under explanation, how deeply to look, and the parts as they are found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder
from untwist.mechanism.likelihood import Likelihood
from untwist.mechanism.polarized import ACTIVE_VARIANCE
from untwist.mechanism.posterior import Posteriors
from untwist.types import AnyArray, InputError

Part = TypeVar("Part")

NO_DECODER = "needs a decoder, and the model is an encoder alone"


@dataclass(frozen=True)
class Depth:
    """How much to look at; the posteriors themselves are always used whole.

    Attributes:
        items: Items for Gram matrices and everything made of them.
        costly_items: Items for Hessians, the loss split and steepness between the data; 0 leaves
            them out.
        fit_items: Items for local fits, and for directions of the data; 0 leaves them out.
        draws: Noisy codes an item for the loss split.
        steps: Points of a traversal.
        chunk: Items at a time; what bounded memory allows if None.
    """

    items: int = 2000
    costly_items: int = 256
    fit_items: int = 32
    draws: int = 32
    steps: int = 33
    chunk: int | None = None


@dataclass(frozen=True)
class Subject:
    """What is explained: the arguments of `explain`, checked."""

    decoder: AbstractDecoder | None
    jacobians: Float[ndarray, "item pixel latent"] | None
    outputs: Float[ndarray, "item pixel"] | None
    posteriors: Posteriors
    x: AnyArray | None
    likelihood: Likelihood
    beta: float
    active: ndarray
    depth: Depth
    keys: list[Array]
    order: ndarray

    @property
    def encoder_alone(self) -> bool:
        """Whether there is neither a decoder nor its Jacobians."""
        return self.decoder is None and self.jacobians is None

    def rows(self, count: int) -> ndarray:
        """Some items, the same first ones for every count."""
        return np.sort(self.order[:count])

    def some(self, count: int) -> Posteriors:
        """Their posteriors."""
        return take(self.posteriors, self.rows(count))

    def examples(self, count: int) -> AnyArray:
        """Their examples."""
        if self.x is None:
            raise InputError("needs the examples: give x")
        return self.x[self.rows(count)]

    def decode(self) -> AbstractDecoder:
        """The decoder."""
        if self.encoder_alone:
            raise InputError(NO_DECODER)
        if self.decoder is None:
            raise InputError("needs a decoder to call, and only Jacobians were given")
        return self.decoder


@dataclass
class Parts:
    """Parts as they are made, and the reasons for those that are not."""

    made: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, make: Callable[[], Part]) -> Part | None:
        """Returns and keeps a part, or keeps the sentence that says why it does not apply."""
        try:
            self.made[name] = make()
        except InputError as error:
            self.reasons[name] = str(error)
        return self.made.get(name)


def active_latents(posteriors: Posteriors) -> ndarray:
    """Returns latents with a mean variance below 0.8; of points, those that move at all."""
    if posteriors.sigma is None:
        spread = posteriors.mean.astype(np.float64).std(0)
        return spread > 1e-3 * max(spread.max(), np.finfo(np.float32).tiny)
    return posteriors.variance.mean(0) < ACTIVE_VARIANCE


def take(posteriors: Posteriors, rows: ndarray) -> Posteriors:
    """Returns the posteriors of chosen items."""
    sigma = None if posteriors.sigma is None else posteriors.sigma[rows]
    return Posteriors(posteriors.mean[rows], sigma)


def among(posteriors: Posteriors, active: ndarray) -> Posteriors:
    """Returns the active latents' part of posteriors."""
    if active.sum() < 2:
        raise InputError("fewer than two latents are active, so there is no dependence")
    mean, sigma = posteriors.mean[:, active], posteriors.sigma
    if sigma is None or posteriors.diagonal:
        return Posteriors(mean, None if sigma is None else sigma[:, active])
    block = posteriors.covariance[:, active][:, :, active]
    return Posteriors(mean, np.linalg.cholesky(block))
