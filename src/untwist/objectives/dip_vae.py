"""DIP-VAE I and II: the covariance of the aggregate posterior is drawn to the identity."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from untwist.models import VAE, AbstractPosterior
from untwist.objectives.objective import (
    AbstractObjective,
    Batch,
    Needs,
    Terms,
    autoencode,
    strengths,
)
from untwist.types import AnyArray


class DIPVAEI(AbstractObjective):
    """loss = -log p(x|z) + KL + od (sum_{i != j} C_ij^2 + ratio sum_i (C_ii - 1)^2).

    C is the covariance of the posterior means. At `off_diagonal` 0 it is the VAE.

    Attributes:
        off_diagonal: The weight od of the off-diagonal entries.
        diagonal_ratio: How much more the diagonal weighs.

    Reference: Kumar et al. 2018, Eq. 6; Locatello et al. 2019 for od 1 to 50 and the ratio 10.
    """

    needs: ClassVar[Needs] = Needs(batch=2)

    off_diagonal: Float[Array, "..."]
    diagonal_ratio: Float[Array, "..."]

    def __init__(
        self,
        off_diagonal: Float[AnyArray, "..."] | float = 10.0,
        diagonal_ratio: Float[AnyArray, "..."] | float = 10.0,
    ):
        self.off_diagonal, self.diagonal_ratio = strengths(
            off_diagonal=off_diagonal, diagonal_ratio=diagonal_ratio
        )

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss, the parts of a VAE and the two penalties before their weights."""
        posterior, _, parts = autoencode(model, batch.examples, key=key)
        penalties = covariance_penalties(covariance_of_means(posterior))
        return _terms(parts, penalties, self.off_diagonal, self.diagonal_ratio)


class DIPVAEII(AbstractObjective):
    """loss = -log p(x|z) + KL + od (sum_{i != j} C_ij^2 + ratio sum_i (C_ii - 1)^2).

    C is the covariance of the codes: that of the means plus the mean of the posteriors' own
    covariances, as a matrix (nmichlo/disent adds one number for all latents). At `off_diagonal` 0
    it is the VAE.

    Attributes:
        off_diagonal: The weight od of the off-diagonal entries.
        diagonal_ratio: How much more the diagonal weighs.

    Reference: Kumar et al. 2018, Eq. 7; Locatello et al. 2019 for od 1 to 50 and the ratio 1.
    """

    needs: ClassVar[Needs] = Needs(batch=2)

    off_diagonal: Float[Array, "..."]
    diagonal_ratio: Float[Array, "..."]

    def __init__(
        self,
        off_diagonal: Float[AnyArray, "..."] | float = 10.0,
        diagonal_ratio: Float[AnyArray, "..."] | float = 1.0,
    ):
        self.off_diagonal, self.diagonal_ratio = strengths(
            off_diagonal=off_diagonal, diagonal_ratio=diagonal_ratio
        )

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss, the parts of a VAE and the two penalties before their weights."""
        posterior, _, parts = autoencode(model, batch.examples, key=key)
        own = jnp.mean(jax.vmap(lambda q: q.covariance)(posterior), axis=0)
        penalties = covariance_penalties(covariance_of_means(posterior) + own)
        return _terms(parts, penalties, self.off_diagonal, self.diagonal_ratio)


def covariance_of_means(posterior: AbstractPosterior) -> Float[Array, "latent latent"]:
    """Returns the covariance of the batch's posterior means, divided by the batch's size."""
    centered = posterior.mean - jnp.mean(posterior.mean, axis=0)
    return centered.T @ centered / len(centered)


def covariance_penalties(
    covariance: Float[Array, "latent latent"],
) -> dict[str, Float[Array, ""]]:
    """Returns the sum of squares off the diagonal, and that of the diagonal's distance from 1.

    >>> found = covariance_penalties(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    >>> {name: value.item() for name, value in found.items()}
    {'off_diagonal_penalty': 8.0, 'diagonal_penalty': 9.0}
    """
    diagonal = jnp.diagonal(covariance)
    return {
        "off_diagonal_penalty": jnp.sum((covariance - jnp.diag(diagonal)) ** 2),
        "diagonal_penalty": jnp.sum((diagonal - 1) ** 2),
    }


def _terms(parts: dict, penalties: dict, off_diagonal: Array, diagonal_ratio: Array) -> Terms:
    """The loss that both share, with its parts."""
    penalty = penalties["off_diagonal_penalty"] + diagonal_ratio * penalties["diagonal_penalty"]
    loss = parts["reconstruction"] + parts["kl"] + off_diagonal * penalty
    return Terms(loss, parts | penalties)
