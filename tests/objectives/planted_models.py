"""A small model with its batch, and one second player for each objective that has one."""

import jax
import jax.numpy as jnp

from untwist.models import ARCHITECTURES, SquaredError, build
from untwist.objectives import Batch

KEY = jax.random.key(0)
EXAMPLES = jax.random.normal(jax.random.key(1), (8, 5))
PARTNERS = EXAMPLES + 0.3 * jax.random.normal(jax.random.key(3), (8, 5))


def model(posterior="diagonal", decoder=True):
    """An affine VAE from 5 numbers to 3 latents."""
    return build(
        ARCHITECTURES["linear"],
        (5,),
        3,
        SquaredError(),
        posterior=posterior,
        decoder=decoder,
        key=jax.random.key(2),
    )


def second_player(objective, vae):
    """The critic that the objective needs, small; None if it needs none."""
    critic = objective.needs.critic
    if critic is None:
        return None
    return critic.build(vae, (16, 16) if critic.layers else (), jax.random.key(4))


def batch(step=0):
    """Examples and their partners."""
    return Batch(EXAMPLES, PARTNERS, jnp.array(step))
