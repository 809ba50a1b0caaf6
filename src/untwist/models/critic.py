"""Second players: the discriminator of FactorVAE and the regression function of PCL.

Both are written for one code and know nothing of the model beyond the number of its latents.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from untwist.models.dense import Dense
from untwist.models.vae import VAE


class Discriminator(eqx.Module):
    """Tells codes from codes whose latents were permuted over the batch.

    Reference: Kim and Mnih 2018, Appendix A: six leaky layers, two logits.
    """

    dense: Dense

    @classmethod
    def of(cls, model: VAE, layers: tuple[int, ...], *, key: Key[Array, ""]) -> "Discriminator":
        """Returns a fresh discriminator of this model's codes, with hidden layers so wide."""
        return cls(Dense((model.latents, *layers, 2), "leaky_relu", key=key))

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " answer"]:
        """Returns the logits of "a code" and of "permuted"."""
        return self.dense(z)


class Regression(eqx.Module):
    """r(z, z') = sum_j (c_j z_j^2 - |a_j z_j + b_j z'_j + d_j|) + m, with z' before z.

    The log ratio of a transition's density to the product of its marginals, where the sources
    follow an autoregression with Laplace noise; each latent has a term of its own. It starts at
    a = 1, b = -1, c = 1 and zeros.

    Reference: Hyvarinen and Morioka 2017, Section 5.1; the start is that of the authors' code.

    >>> regression = Regression.of(2)
    >>> regression(jnp.array([1.0, 2.0]), jnp.array([0.0, 2.0])).item()
    4.0
    """

    first: Float[Array, " latent"]
    second: Float[Array, " latent"]
    offset: Float[Array, " latent"]
    square: Float[Array, " latent"]
    level: Float[Array, ""]

    @classmethod
    def of(cls, latents: int) -> "Regression":
        """Returns the function that learning starts from."""
        one, none = jnp.ones(latents), jnp.zeros(latents)
        return cls(one, -one, none, one, jnp.zeros(()))

    def __call__(self, z: Float[Array, " latent"], before: Float[Array, " latent"]) -> Array:
        """Returns r(z, z')."""
        change = self.first * z + self.second * before + self.offset
        return jnp.sum(self.square * z**2 - jnp.abs(change)) + self.level
