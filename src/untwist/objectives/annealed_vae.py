"""The capacity-annealed VAE: the KL is held near a capacity that grows."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from untwist.models import VAE
from untwist.objectives.objective import (
    AbstractObjective,
    Batch,
    Terms,
    autoencode,
    check_nonnegative,
)


class AnnealedVAE(AbstractObjective):
    """loss = -log p(x|z) + gamma |KL - C|, C rising from 0 to `capacity` nats over `ramp` steps.

    The study of the field uses gamma 1000, a ramp of 100,000 steps and capacities of 5 to 100.

    Reference: Burgess et al. 2018; disentanglement_lib's AnnealedVAE.
    """

    capacity: Float[Array, "..."]
    gamma: Float[Array, "..."]
    ramp: Float[Array, "..."]

    def __init__(
        self,
        capacity: Float[Array, "..."] | float = 25.0,
        gamma: Float[Array, "..."] | float = 1000.0,
        ramp: Float[Array, "..."] | float = 100_000.0,
    ):
        self.capacity = jnp.asarray(capacity, jnp.float32)
        self.gamma = jnp.broadcast_to(jnp.asarray(gamma, jnp.float32), self.capacity.shape)
        self.ramp = jnp.broadcast_to(jnp.asarray(ramp, jnp.float32), self.capacity.shape)
        for name in ("capacity", "gamma", "ramp"):
            check_nonnegative(name, getattr(self, name))

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss at this step's capacity."""
        _, _, parts = autoencode(model, batch.examples, key=key)
        capacity = self.capacity * jnp.minimum(1.0, batch.step / jnp.maximum(self.ramp, 1.0))
        loss = parts["reconstruction"] + self.gamma * jnp.abs(parts["kl"] - capacity)
        return Terms(loss, parts)
