"""The beta-VAE: reconstruction plus beta times the KL; the VAE at beta 1."""

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


class BetaVAE(AbstractObjective):
    """loss = -log p(x|z) + w beta KL(q(z|x) || N(0, I)).

    w rises from 0 to 1 in a straight line over the first `warmup` steps, and is 1 from the start
    if `warmup` is 0. What beta means under each likelihood is in `untwist.models.likelihood`.

    Reference: Higgins et al. 2017; rolinek2019, Eq. 4.
    """

    beta: Float[Array, "..."]
    warmup: Float[Array, "..."]

    def __init__(
        self, beta: Float[Array, "..."] | float = 1.0, warmup: Float[Array, "..."] | float = 0.0
    ):
        self.beta = jnp.asarray(beta, jnp.float32)
        self.warmup = jnp.broadcast_to(jnp.asarray(warmup, jnp.float32), self.beta.shape)
        check_nonnegative("beta", self.beta)
        check_nonnegative("warmup", self.warmup)

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss at this step of the warm-up."""
        _, _, parts = autoencode(model, batch.examples, key=key)
        risen = jnp.minimum(1.0, batch.step / jnp.maximum(self.warmup, 1.0))
        weight = jnp.where(self.warmup > 0, risen, 1.0)
        return Terms(parts["reconstruction"] + weight * self.beta * parts["kl"], parts)
