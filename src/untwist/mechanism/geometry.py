"""Local geometry of a decoder: Jacobians by forward mode; Gram matrices without keeping them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import (
    CHUNK_NUMBERS,
    AbstractDecoder,
    Decode,
    as_decoder,
    checked_codes,
    chunk_size,
    stream,
)
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class Geometry:
    """What a decoder does to small steps, at each item's code.

    Attributes:
        gram: J'J of the decoder's outputs (logits, under a Bernoulli likelihood).
        information: D'A^2D, the same weighted by the likelihood's curvature in each output: what
            noise in the codes costs in nats, and minus the Hessian of the log-likelihood but for
            the decoder's own bends.
    """

    gram: Float[ndarray, "item latent latent"]
    information: Float[ndarray, "item latent latent"]

    def among(self, latents: AnyArray) -> "Geometry":
        """Returns the geometry of chosen latents: a mask, or their numbers."""
        index = np.arange(self.gram.shape[-1])[latents]
        rows = np.ix_(np.arange(len(self.gram)), index, index)
        return Geometry(self.gram[rows], self.information[rows])


def jacobians(
    decode: Decode | AbstractDecoder,
    codes: AnyArray,
    *,
    chunk: int | None = None,
) -> Float[ndarray, "item pixel latent"]:
    """Returns the decoder's Jacobian at each code, by one forward pass a latent.

    All of them are kept: `item * pixel * latent` numbers. `local_geometry` keeps their Gram
    matrices only.

    Args:
        decode: From one code to one example's outputs, of any shape.
        codes: Where, one row an item.
        chunk: Items at a time.

    >>> jacobians(lambda z: 3 * z, np.zeros((1, 2))).tolist()
    [[[3.0, 0.0], [0.0, 3.0]]]
    """
    decoder, codes = as_decoder(decode), checked_codes(codes)
    size = chunk_size(decoder, codes, chunk)
    return stream(lambda z: decoder.local(_keep, z), codes, chunk=size)


def local_geometry(
    decode: Decode | AbstractDecoder | AnyArray,
    codes: AnyArray,
    *,
    likelihood: str | Likelihood = "squared_error",
    outputs: AnyArray | None = None,
    chunk: int | None = None,
) -> Geometry:
    """Returns J'J and D'A^2D at each code; memory grows by d^2 an item, not by n d.

    Args:
        decode: From one code to one example's outputs, of any shape; or the Jacobians themselves,
            [item, pixel, latent].
        codes: Where, one row an item.
        likelihood: Its curvature A^2 weighs the outputs (allen2024, Eq. 6 and erratum E7).
        outputs: With Jacobians of a Bernoulli decoder: its logits [item, pixel].
        chunk: Items at a time.

    >>> float(local_geometry(lambda z: 3 * z, np.zeros((1, 1))).gram[0, 0, 0])
    9.0
    """
    model, codes = as_likelihood(likelihood), checked_codes(codes)
    if isinstance(decode, np.ndarray | Array):
        return _from_jacobians(np.asarray(decode), codes, model, outputs)
    decoder = as_decoder(decode)
    size = chunk_size(decoder, codes, chunk)

    def grams(chunk_of_codes: AnyArray) -> tuple[Array, Array]:
        weights = jnp.broadcast_to(model.variance, len(chunk_of_codes))
        return decoder.local(GRAMS[model.name], chunk_of_codes, weights)

    gram, information = stream(grams, codes, chunk=size)
    if not np.isfinite(gram).all():
        raise InputError(
            "the decoder's Jacobian is not finite at some codes: leave out members that diverged"
        )
    return Geometry(gram, information)


def _from_jacobians(
    matrices: ndarray, codes: ndarray, model: Likelihood, outputs: AnyArray | None
) -> Geometry:
    """The geometry of Jacobians that came from anywhere."""
    if matrices.ndim != 3 or (len(matrices), matrices.shape[2]) != codes.shape:
        raise InputError(
            f"Jacobians must have the shape (item, pixel, latent) with {codes.shape[0]} items and "
            f"{codes.shape[1]} latents, as the codes have, but got {matrices.shape}"
        )
    if not np.isfinite(matrices).all():
        raise InputError("Jacobians must be finite, but some entries are NaN or infinite")
    if model.name == "bernoulli" and outputs is None:
        raise InputError(
            "the Jacobians of a Bernoulli decoder are weighted by its outputs: give outputs=..., "
            "the logits at the same codes"
        )
    given = np.broadcast_to(0.0, matrices.shape[:2]) if outputs is None else np.asarray(outputs)
    variance = np.broadcast_to(model.variance, len(codes))
    size = max(1, CHUNK_NUMBERS // matrices[0].size)
    function = jax.jit(jax.vmap(GRAMS[model.name]))
    return Geometry(*stream(function, given, matrices, variance, chunk=size))


def _keep(output: Array, jacobian: Array) -> Array:
    return jacobian


def _product(jacobian: Array, weights: Array | float) -> Array:
    # The highest precision: tensor cores would otherwise round to 10 bits.
    return jnp.matmul(jacobian.T, weights * jacobian, precision="highest")


def _gaussian_grams(output: Array, jacobian: Array, variance: Array) -> tuple[Array, Array]:
    gram = _product(jacobian, 1.0)
    return gram, gram / variance


def _bernoulli_grams(output: Array, jacobian: Array, variance: Array) -> tuple[Array, Array]:
    curvature = Likelihood("bernoulli", variance).curvature(output)
    return _product(jacobian, 1.0), _product(jacobian, curvature[:, None])


GRAMS = {
    "squared_error": _gaussian_grams,
    "gaussian": _gaussian_grams,
    "bernoulli": _bernoulli_grams,
}
