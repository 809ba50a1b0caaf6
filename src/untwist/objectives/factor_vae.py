"""FactorVAE: a discriminator estimates the total correlation of the codes."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from untwist.models import VAE, Discriminator
from untwist.objectives.objective import (
    AbstractObjective,
    Batch,
    Critic,
    Needs,
    Terms,
    autoencode,
    strengths,
)
from untwist.types import AnyArray


class FactorVAE(AbstractObjective):
    """loss = -log p(x|z) + KL + gamma E[D_code(z) - D_permuted(z)], and the discriminator's own.

    The discriminator D learns to tell codes from codes of a second, independent batch whose latents
    are permuted, each over the batch by itself; the difference of its logits estimates the log
    density ratio, whose mean is the total correlation. At gamma 0 the model is the VAE.

    Both players move in the same step. In the paper's Algorithm 2 the second batch is encoded after
    the model's move, here before it: the permuted codes are one step older.

    Reference: Kim and Mnih 2018, Algorithm 2; zietlow2021, Table 2; Locatello et al. 2019 for gamma
    10 to 100.
    """

    needs: ClassVar[Needs] = Needs(
        batch=2,
        partners="independent",
        critic=Critic(
            lambda model, layers, key: Discriminator.of(model, layers, key=key),
            (1000,) * 6,
            "adam-adversarial",
            1e-4,
        ),
    )

    gamma: Float[Array, "..."]

    def __init__(self, gamma: Float[AnyArray, "..."] | float = 10.0):
        (self.gamma,) = strengths(gamma=gamma)

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the sum of both players' losses, the parts of a VAE, and what D achieves."""
        second_key, order_key = jax.random.split(jax.random.fold_in(key, 1))
        _, codes, parts = autoencode(model, batch.examples, key=key)
        second = jax.lax.stop_gradient(_codes(model, batch.second, key=second_key))
        permuted = permute_latents(second, key=order_key)
        # The two calls see the same numbers, so the compiler makes one forward pass of them.
        told = discriminate(critic, codes, permuted)
        frozen = jax.lax.stop_gradient(critic)
        logits = jax.vmap(frozen)(jnp.concatenate([codes, permuted]))[: len(codes)]
        ratio = jnp.mean(logits[:, 0] - logits[:, 1])
        model_loss = parts["reconstruction"] + parts["kl"] + self.gamma * ratio
        parts = parts | {"total_correlation": ratio} | told
        return Terms(model_loss + told["discriminator_loss"], parts)


def discriminate(
    critic: PyTree,
    codes: Float[Array, "batch latent"],
    permuted: Float[Array, "batch latent"],
) -> dict[str, Float[Array, ""]]:
    """Returns the discriminator's cross-entropy and its share of right answers.

    The codes are taken as they are: no gradient goes back to the encoder.

    Reference: Kim and Mnih 2018, Algorithm 2: half the sum of the means over the two batches.
    """
    both = jax.lax.stop_gradient(jnp.concatenate([codes, permuted]))
    logits = jax.vmap(critic)(both)
    margins = logits[:, 0] - logits[:, 1]
    margins = jnp.where(jnp.arange(len(both)) < len(codes), margins, -margins)
    return {
        "discriminator_loss": jnp.mean(jax.nn.softplus(-margins)),
        "discriminator_accuracy": jnp.mean(margins > 0),
    }


def permute_latents(
    codes: Float[Array, "batch latent"], *, key: Key[Array, ""]
) -> Float[Array, "batch latent"]:
    """Returns codes with each latent shuffled over the batch by itself."""
    return jax.random.permutation(key, codes, axis=0, independent=True)


def _codes(
    model: VAE, examples: Float[Array, "batch *shape"], *, key: Key[Array, ""]
) -> Float[Array, "batch latent"]:
    """One code of each example."""
    posterior = jax.vmap(model.encode)(examples)
    noise = jax.random.normal(key, posterior.mean.shape)
    return jax.vmap(lambda q, e: q.at(e))(posterior, noise)
