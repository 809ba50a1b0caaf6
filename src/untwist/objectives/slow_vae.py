"""SlowVAE: the codes of a pair lie a sparse step apart."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from untwist.models import VAE
from untwist.objectives.objective import (
    AbstractObjective,
    Batch,
    Needs,
    Terms,
    autoencode,
    strengths,
)
from untwist.types import AnyArray, InputError, known


class SlowVAE(AbstractObjective):
    """loss = -log p(x|z) + (beta KL(q(z|x) || N(0, I)) + gamma T) / 2, an image of a pair.

    A pair has two reconstructions, one KL to the normal prior of its first code and one, T, to the
    Laplace prior of the step to its second, p(z_t | z_t-1) = prod_j rate/2 exp(-rate |step_j|), in
    expectation over both codes. Either image may be the first: both terms are means over the two
    directions. At gamma 0 and beta 2 it is the VAE on all images of the pairs.

    Attributes:
        beta: The weight of the KL to the normal prior.
        gamma: The weight of the transition's KL.
        rate: The rate of the Laplace prior.

    Reference: Klindt et al. 2021, Eq. 8; beta 1, gamma 10, rate 6 as there and in zietlow2021,
    Table 2. The authors' code adds the transition's cross-entropies of both directions, subtracts
    one entropy for the two, and leaves out the variance of the code that the step starts from.
    """

    needs: ClassVar[Needs] = Needs(partners="pairs")

    beta: Float[Array, "..."]
    gamma: Float[Array, "..."]
    rate: Float[Array, "..."]

    def __init__(
        self,
        beta: Float[AnyArray, "..."] | float = 1.0,
        gamma: Float[AnyArray, "..."] | float = 10.0,
        rate: Float[AnyArray, "..."] | float = 6.0,
    ):
        self.beta, self.gamma, self.rate = strengths(beta=beta, gamma=gamma, rate=rate)
        if known(self.rate) and not (np.asarray(self.rate) > 0).all():
            raise InputError(f"rate must be above 0, but got {self.rate}")

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss, the parts of a VAE over both images, and the transition's."""
        images = jnp.concatenate([batch.examples, batch.second])
        posterior, _, parts = autoencode(model, images, key=key)
        variance = jax.vmap(lambda q: q.variance)(posterior)
        half = len(batch.examples)
        center, spread = jnp.roll(posterior.mean, half, axis=0), jnp.roll(variance, half, axis=0)
        per_latent = transition_kl(posterior.mean, variance, center, spread, self.rate)
        # Where latents are correlated given x, the joint KL exceeds that of the marginals alike.
        joint = parts["kl"] - jnp.sum(parts["kl_per_latent"])
        transition = jnp.sum(jnp.mean(per_latent, axis=0)) + joint
        step = jnp.mean(jnp.abs(posterior.mean - center), axis=0)
        loss = parts["reconstruction"] + 0.5 * (self.beta * parts["kl"] + self.gamma * transition)
        return Terms(loss, parts | {"transition_kl": transition, "step_per_latent": step})


def transition_kl(
    mean: Float[Array, "*code"],
    variance: Float[Array, "*code"],
    center: Float[Array, "*code"],
    spread: Float[Array, "*code"],
    rate: Float[Array, ""] | float,
) -> Float[Array, "*code"]:
    """Returns E_c KL(N(mean, variance) || Laplace(c, 1 / rate)), with c from N(center, spread).

    = rate E|d| - log(rate / 2) - log(2 pi e variance) / 2, with d ~ N(mean - center, variance +
    spread) and E|d| = s sqrt(2 / pi) exp(-m^2 / 2 s^2) + m erf(m / s sqrt(2)).

    Reference: Klindt et al. 2021, Appendix A.3, there at a fixed center (spread 0).

    >>> round(transition_kl(*jnp.array([0.0, 1.0, 0.0, 0.0]), 1.0).item(), 4)
    0.0721
    """
    gap, total = mean - center, variance + spread
    folded = jnp.sqrt(2 * total / math.pi) * jnp.exp(-0.5 * gap**2 / total)
    distance = folded + gap * jax.lax.erf(gap / jnp.sqrt(2 * total))
    entropy = 0.5 * jnp.log(2 * math.pi * math.e * variance)
    return rate * distance - jnp.log(rate / 2) - entropy
