"""Permutation-contrastive learning: an encoder learns to tell pairs from strangers."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from untwist.models import VAE, Regression
from untwist.objectives.objective import AbstractObjective, Batch, Critic, Needs, Terms


class PCL(AbstractObjective):
    """loss = (E softplus(-r(z, z')) over pairs + E softplus(r(z, z*)) over strangers) / 2.

    z and z' are the codes of an image and of the one before it; z* is the code before another
    image, so that nothing but the pairing is lost. At chance the loss is log 2. There is no decoder
    and no distribution over latents. The regression function r is a sum over latents: where the
    sources are independent, depend on their past, and are mixed invertibly, the encoder recovers
    them up to a function of each (Theorem 1).

    Strangers are the pairs of the batch shifted by one, not shuffled: a shuffle leaves one pair as
    it was, on average, and teaches that it is none.

    Reference: Hyvarinen and Morioka 2017; zietlow2021, Section 5.1.
    """

    needs: ClassVar[Needs] = Needs(
        posteriors=("deterministic",),
        batch=2,
        partners="pairs",
        critic=Critic(lambda model, layers, key: Regression.of(model.latents), (), "adam", 1e-3),
        decoder=False,
    )

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the logistic loss, the share of right answers, and the codes' variances."""
        codes = jax.vmap(model.encode)(batch.second).mean
        before = jax.vmap(model.encode)(batch.examples).mean
        pairs = jax.vmap(critic)(codes, before)
        strangers = jax.vmap(critic)(codes, jnp.roll(before, 1, axis=0))
        loss = jnp.mean(jax.nn.softplus(-pairs)) + jnp.mean(jax.nn.softplus(strangers))
        right = jnp.mean(pairs > 0) + jnp.mean(strangers < 0)
        parts = {"accuracy": 0.5 * right, "code_variance_per_latent": jnp.var(codes, axis=0)}
        return Terms(0.5 * loss, parts)
