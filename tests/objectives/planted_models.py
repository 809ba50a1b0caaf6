"""A small model with its batch, and one second player for each objective that has one."""

import jax

from untwist.models import ARCHITECTURES, SquaredError, build

KEY = jax.random.key(0)
EXAMPLES = jax.random.normal(jax.random.key(1), (8, 5))
PARTNERS = EXAMPLES + 0.1 * jax.random.normal(jax.random.key(3), (8, 5))


def model(posterior="diagonal"):
    """An affine VAE from 5 numbers to 3 latents."""
    return build(
        ARCHITECTURES["linear"], (5,), 3, SquaredError(), posterior=posterior, key=jax.random.key(2)
    )
