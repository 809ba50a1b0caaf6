"""The model under explanation, how deeply to look, and the parts as they are found."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Number, Traceable, number
from untwist.mechanism.likelihood import Likelihood
from untwist.mechanism.members import member_of
from untwist.mechanism.polarized import ACTIVE_VARIANCE
from untwist.mechanism.posterior import Posteriors
from untwist.types import AnyArray, InputError

Part = TypeVar("Part")
Directions = Callable[[int], tuple[Float[ndarray, "item pixel axis"], str]]
"""So many local directions of the data at the items of the fits, and where they came from."""

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

    def __post_init__(self) -> None:
        least = {"items": 1, "costly_items": 0, "fit_items": 0, "draws": 1, "steps": 2}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InputError(
                    f"depth.{name} must be at least {bound}, but got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class Subject:
    """What is explained: the arguments of `explain`, checked; of one model or of a population."""

    decoder: AbstractDecoder | None
    jacobians: Float[ndarray, "*member item pixel latent"] | None
    outputs: Float[ndarray, "*member item pixel"] | None
    posteriors: Posteriors
    x: AnyArray | None
    data: Directions
    likelihood: Likelihood
    beta: Number | None
    active: Bool[ndarray, "*member latent"]
    depth: Depth
    keys: list[Array]
    order: ndarray

    @property
    def members(self) -> int | None:
        """How many members a population has; None for a single model."""
        return len(self.posteriors.mean) if self.posteriors.mean.ndim == 3 else None

    @property
    def encoder_alone(self) -> bool:
        """Whether there is neither a decoder nor its Jacobians."""
        return self.decoder is None and self.jacobians is None

    def of(self, member: int | ndarray) -> "Subject":
        """Returns one member of a population, or some of them as a smaller one."""
        decoder, beta, model = self.decoder, self.beta, self.likelihood
        variance = model.variance[jnp.asarray(member)] if model.variance.ndim else model.variance
        return replace(
            self,
            decoder=decoder.of(member) if isinstance(decoder, Traceable) else decoder,
            jacobians=member_of(self.jacobians, member),
            outputs=member_of(self.outputs, member),
            posteriors=member_of(self.posteriors, member),
            likelihood=Likelihood(model.name, variance),
            beta=beta if beta is None or not np.ndim(beta) else number(np.asarray(beta)[member]),
            active=self.active[member],
        )

    def rows(self, count: int) -> ndarray:
        """Some items, the same first ones for every count and member."""
        return np.sort(self.order[:count])

    def some(self, count: int) -> Posteriors:
        """Their posteriors."""
        return self.posteriors.at(self.rows(count))

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

    def of(self, member: int) -> "Parts":
        """Returns one member's, of a population's."""
        made = {name: member_of(part, member) for name, part in self.made.items()}
        return Parts(made, dict(self.reasons))


def active_latents(posteriors: Posteriors) -> Bool[ndarray, "*member latent"]:
    """Returns latents with a mean variance below 0.8; of points, those that move at all."""
    if posteriors.sigma is None:
        spread = posteriors.mean.astype(np.float64).std(-2)
        largest = np.maximum(spread.max(-1, keepdims=True), np.finfo(np.float32).tiny)
        return spread > 1e-3 * largest
    return posteriors.variance.mean(-2) < ACTIVE_VARIANCE


def among(posteriors: Posteriors, active: ndarray) -> Posteriors:
    """Returns the active latents' part of posteriors."""
    if active.sum() < 2:
        raise InputError("fewer than two latents are active, so there is no dependence")
    mean, sigma = posteriors.mean[:, active], posteriors.sigma
    if sigma is None or posteriors.diagonal:
        return Posteriors(mean, None if sigma is None else sigma[:, active])
    block = posteriors.covariance[:, active][:, :, active]
    return Posteriors(mean, np.linalg.cholesky(block))
