"""Latent traversals: what a decoder draws while one latent moves and the others stay."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def traverse(
    decode: Callable[[Float[Array, " latent"]], Array],
    code: Float[Array, " latent"],
    low: Float[Array, " latent"],
    high: Float[Array, " latent"],
    steps: int,
) -> Float[Array, "latent step *shape"]:
    """Returns the decodings of `code` with each latent in turn moved from `low` to `high`.

    >>> rows = traverse(lambda z: z, jnp.zeros(2), -jnp.ones(2), jnp.ones(2), 3)
    >>> rows[0].tolist()
    [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """

    def point(latent: Array, fraction: Array) -> Array:
        value = low[latent] + fraction * (high[latent] - low[latent])
        return decode(code.at[latent].set(value))

    row = jax.vmap(point, in_axes=(None, 0))
    return jax.vmap(row, in_axes=(0, None))(jnp.arange(code.size), jnp.linspace(0, 1, steps))
