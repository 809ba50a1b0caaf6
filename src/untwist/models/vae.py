"""The variational autoencoder: an encoder, a posterior, a decoder and a likelihood."""

from dataclasses import replace
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from untwist.models.architectures import Architecture
from untwist.models.likelihood import AbstractLikelihood
from untwist.models.networks import Decoder, Encoder
from untwist.models.posterior import POSTERIORS, AbstractPosterior
from untwist.types import InputError, nearest

Tree = TypeVar("Tree")

MEASURED = 9
"""The compute capability, by its major number, on which the kernels were measured."""


class VAE(eqx.Module):
    """One model, written for one example: `vmap` it over a batch, and over members.

    Attributes:
        encoder: From an example to the posterior's features.
        decoder: From latents to the likelihood's parameters; None for an encoder alone.
        likelihood: p(x|z).
        posterior: The family's name in `POSTERIORS`.
        latents: The number of latents.
        precision: The type that the two networks compute in; parameters and everything after the
            networks (posterior, likelihood, loss) stay float32.
        fused: Whether the convolutions run as the GPU kernels that only training can use.
    """

    encoder: Encoder
    decoder: Decoder | None
    likelihood: AbstractLikelihood
    posterior: str = eqx.field(static=True)
    latents: int = eqx.field(static=True)
    precision: str = eqx.field(static=True, default="float32")
    fused: bool = eqx.field(static=True, default=False)

    def encode(self, x: Float[Array, "*shape"]) -> AbstractPosterior:
        """Returns q(z|x)."""
        features = _cast(self.encoder, self.precision)(x.astype(self.precision), fused=self.fused)
        return POSTERIORS[self.posterior].from_features(features.astype(jnp.float32), self.latents)

    def decode(self, z: Float[Array, " latent"]) -> Float[Array, "*shape"]:
        """Returns the likelihood's parameters at z."""
        if self.decoder is None:
            raise InputError(
                "this model is an encoder alone, as pcl trains it, so it can decode nothing: "
                "reconstructions, traversals and all that looks at a decoder need another objective"
            )
        decoder = _cast(self.decoder, self.precision)
        return decoder(z.astype(self.precision), fused=self.fused).astype(jnp.float32)

    def narrowed(self) -> "VAE":
        """Returns the model with its networks in the type they compute in; itself in float32."""
        if self.precision == "float32":
            return self
        networks = {"encoder": self.encoder, "decoder": self.decoder}
        return replace(self, **_cast(networks, self.precision))

    def reconstruct(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns E[x|z] at the posterior's mean."""
        return self.likelihood.mean(self.decode(self.encode(x).mean))


def build(
    architecture: Architecture,
    shape: tuple[int, ...],
    latents: int,
    likelihood: AbstractLikelihood,
    *,
    posterior: str = "diagonal",
    precision: str = "float32",
    decoder: bool = True,
    key: Key[Array, ""],
) -> VAE:
    """Returns a freshly initialized model for examples of this shape; `decoder` says if it has one.

    Reference: the published architectures are in `untwist.models.ARCHITECTURES`.
    """
    if latents < 1:
        raise InputError(f"a model needs at least one latent, but got {latents}")
    if posterior not in POSTERIORS:
        raise nearest("posterior", posterior, POSTERIORS)
    if precision not in ("float32", "bfloat16"):
        raise nearest("precision", precision, ["float32", "bfloat16"])
    encoder_key, decoder_key = jax.random.split(key)
    features = POSTERIORS[posterior].features(latents)
    return VAE(
        Encoder(architecture.encoder, shape, features, key=encoder_key),
        Decoder(architecture.decoder, shape, latents, key=decoder_key) if decoder else None,
        likelihood,
        posterior,
        latents,
        precision,
    )


def fuse(tree: Tree, fused: bool | None = None) -> Tree:
    """Returns the tree with every model's convolutions as GPU kernels, or as plain operations.

    The kernels differentiate backwards, and once. They are for training and for encoding.

    Args:
        tree: A model, or anything with models in it, as an optimizer's state is.
        fused: Whether to use the kernels; if None, on the GPUs where they were measured to be
            faster, and on no others.
    """
    choice = _has_kernels() if fused is None else fused
    return jax.tree.map(
        lambda node: replace(node, fused=choice) if isinstance(node, VAE) else node,
        tree,
        is_leaf=lambda node: isinstance(node, VAE),
    )


def _has_kernels() -> bool:
    """Whether the first device is a GPU of the generation on which the kernels were measured."""
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))
    major = capability.partition(".")[0]  # "9.0" of NVIDIA; "gfx942" of AMD, which has none
    return jax.default_backend() == "gpu" and major.isdecimal() and int(major) == MEASURED


def _cast(tree: Tree, precision: str) -> Tree:
    """The tree with its floating-point arrays in this type; the tree itself when it already is."""
    if precision == "float32":
        return tree
    return jax.tree.map(
        lambda leaf: leaf.astype(precision) if eqx.is_inexact_array(leaf) else leaf, tree
    )
