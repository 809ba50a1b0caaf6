"""The one interface of every objective, and the parts that objectives on a VAE share.

`objective(model, critic, batch, key=key) -> Terms`: the loss of one member on one batch and its
named parts, in nats an image: summed over pixels and latents, averaged over the batch. The
hyperparameters are array fields, so that a population stacks them.

- A second player (FactorVAE's discriminator, PCL's regressor) is the `critic`: any pytree with an
  optimizer of its own. Both players' losses go into the one `loss`, with `stop_gradient` across
  the boundary, so that one step trains both.
- A method on pairs (SlowVAE, PCL), or on two independent batches (FactorVAE), reads
  `batch.partners`, which the trainer draws with the function given to it.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from untwist.models import VAE, AbstractPosterior
from untwist.types import AnyArray, InputError, known

ACTIVE_VARIANCE = 0.8
"""A latent is active where its mean posterior variance is below this (zietlow2021, Section 5.3)."""


class Batch(eqx.Module):
    """What a step sees.

    Attributes:
        examples: The batch.
        partners: The second of each pair, or an independent second batch; None if none are drawn.
        step: How many steps were taken before this one.
    """

    examples: Float[Array, "batch *shape"]
    partners: Float[Array, "batch *shape"] | None
    step: Int[Array, ""]

    @property
    def second(self) -> Float[Array, "batch *shape"]:
        """The partners; an error where none were drawn."""
        if self.partners is None:
            raise InputError("this objective needs partners, but the training draws none")
        return self.partners


class Terms(eqx.Module):
    """A loss in nats an image and its named parts, scalars or one number a latent."""

    loss: Float[Array, ""]
    parts: dict[str, Float[Array, "..."]]


@dataclass(frozen=True)
class Critic:
    """A second player: how it is built, and the settings of its paper.

    Attributes:
        build: From the model, the widths of the hidden layers and a key to the player.
        layers: The published widths; empty where it has no hidden layers to choose.
        optimizer: Its optimizer's name.
        learning_rate: Its learning rate.
    """

    build: Callable[[VAE, tuple[int, ...], Key[Array, ""]], PyTree]
    layers: tuple[int, ...]
    optimizer: str
    learning_rate: float


@dataclass(frozen=True)
class Needs:
    """What an objective asks of the rest of a training.

    Attributes:
        posteriors: The families that it works with; the first is what it gets by default.
        batch: The fewest examples a step.
        partners: What `batch.partners` holds: nothing, an independent second batch, or the second
            of each pair.
        critic: The second player, if there is one.
        decoder: Whether the model has a decoder.
    """

    posteriors: tuple[str, ...] = ("diagonal", "full")
    batch: int = 1
    partners: Literal["none", "independent", "pairs"] = "none"
    critic: Critic | None = None
    decoder: bool = True


class AbstractObjective(eqx.Module):
    """What a population minimizes. Its array fields are hyperparameters, one value a member."""

    needs: ClassVar[Needs] = Needs()

    @abc.abstractmethod
    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss on this batch and its parts."""


def autoencode(
    model: VAE, examples: Float[Array, "batch *shape"], *, key: Key[Array, ""]
) -> tuple[AbstractPosterior, Float[Array, "batch latent"], dict[str, Float[Array, "..."]]]:
    """Returns the posteriors, one code of each example, and the parts common to all VAEs.

    The parts: `reconstruction` (minus log p(x|z) at one sample), `kl`, `kl_per_latent`,
    `variance_per_latent` (the mean of sigma^2), and `polarized_kl`, the KL in the polarized regime:
    half the sum over active latents of mu^2 - log sigma^2 - 1 (rolinek2019, Eq. 10).
    """
    posterior = jax.vmap(model.encode)(examples)
    noise = jax.random.normal(key, posterior.mean.shape)
    codes = jax.vmap(lambda q, e: q.at(e))(posterior, noise)
    decoded = jax.vmap(model.decode)(codes)
    log_prob = jax.vmap(model.likelihood.log_prob)(decoded, examples)
    variance = jax.vmap(lambda q: q.variance)(posterior)
    active = jnp.mean(variance, axis=0) < ACTIVE_VARIANCE
    per_latent = jnp.mean(jax.vmap(lambda q: q.kl_per_latent())(posterior), axis=0)
    polarized = per_latent - 0.5 * jnp.mean(variance, axis=0)  # Eq. 10
    parts = {
        "reconstruction": -jnp.mean(log_prob),
        "kl": jnp.mean(jax.vmap(lambda q: q.kl())(posterior)),
        "polarized_kl": jnp.sum(jnp.where(active, polarized, 0)),
        "kl_per_latent": per_latent,
        "variance_per_latent": jnp.mean(variance, axis=0),
    }
    return posterior, codes, parts


def check_nonnegative(name: str, value: Float[Array, "..."]) -> None:
    """Raises where a hyperparameter, if it is known yet, is negative or not a number."""
    if known(value) and not (np.asarray(value) >= 0).all():
        raise InputError(f"{name} must be at least 0, but got {value}")


def strengths(**values: Float[AnyArray, "..."] | float) -> list[Float[Array, "..."]]:
    """Returns these hyperparameters as arrays of one shape; an error where one is negative.

    >>> [value.tolist() for value in strengths(beta=np.array([1.0, 4.0]), ratio=10.0)]
    [[1.0, 4.0], [10.0, 10.0]]
    """
    arrays = {name: jnp.asarray(value, jnp.float32) for name, value in values.items()}
    for name, array in arrays.items():
        check_nonnegative(name, array)
    return list(jnp.broadcast_arrays(*arrays.values()))
