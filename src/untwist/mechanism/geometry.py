"""Local geometry of a decoder: Jacobians by forward mode; Gram matrices without keeping them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import (
    AbstractDecoder,
    Decode,
    as_decoder,
    checked_codes,
    chunk_of,
    chunk_size,
    stream,
)
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class Geometry:
    """What a decoder does to small steps, at each item's code; of each member of a population.

    Attributes:
        gram: J'J of the decoder's outputs (logits, under a Bernoulli likelihood).
        information: D'A^2D, the same weighted by the likelihood's curvature in each output: what
            noise in the codes costs in nats, and minus the Hessian of the log-likelihood but for
            the decoder's own bends.
    """

    gram: Float[ndarray, "*member item latent latent"]
    information: Float[ndarray, "*member item latent latent"]

    def among(self, latents: AnyArray) -> "Geometry":
        """Returns the geometry of chosen latents: a mask, or their numbers."""
        index = np.arange(self.gram.shape[-1])[latents]
        block = (..., index[:, None], index)
        return Geometry(self.gram[block], self.information[block])


def jacobians(
    decode: Decode | AbstractDecoder,
    codes: AnyArray,
    *,
    chunk: int | None = None,
) -> Float[ndarray, "*member item pixel latent"]:
    """Returns the decoder's Jacobian at each code, by one forward pass a latent.

    All of them are kept: `item * pixel * latent` numbers. `local_geometry` keeps their Gram
    matrices only.

    Args:
        decode: From one code to one example's outputs, of any shape; or a population of such.
        codes: Where, one row an item; [member, item, latent] for a population.
        chunk: Items at a time.

    >>> jacobians(lambda z: 3 * z, np.zeros((1, 2))).tolist()
    [[[3.0, 0.0], [0.0, 3.0]]]
    """
    decoder, codes = as_decoder(decode), checked_codes(codes)
    size = chunk_size(decoder, codes, chunk)
    return stream(lambda z: decoder.local(_keep, z), codes, chunk=size, axis=codes.ndim - 2)


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
        decode: From one code to one example's outputs, of any shape; a population of such; or the
            Jacobians themselves, [*member, item, pixel, latent].
        codes: Where, one row an item; [member, item, latent] for a population.
        likelihood: Its curvature A^2 weighs the outputs (allen2024, Eq. 6 and erratum E7).
        outputs: With Jacobians of a Bernoulli decoder: its logits [*member, item, pixel].
        chunk: Items at a time.

    >>> float(local_geometry(lambda z: 3 * z, np.zeros((1, 1))).gram[0, 0, 0])
    9.0
    """
    model, codes = as_likelihood(likelihood), checked_codes(codes)
    if isinstance(decode, np.ndarray | Array):
        return _from_jacobians(np.asarray(decode), codes, model, outputs)
    decoder = as_decoder(decode)
    size, function = chunk_size(decoder, codes, chunk), PRODUCTS[model.name]
    found = stream(lambda z: decoder.local(function, z), codes, chunk=size, axis=codes.ndim - 2)
    bad = ~np.isfinite(found[0]).all((-3, -2, -1))
    if bad.any():
        whose = f" of members {', '.join(map(str, np.flatnonzero(bad)))}" if bad.ndim else ""
        raise InputError(
            f"the decoder's Jacobian{whose} is not finite at some codes: leave out members that "
            "diverged"
        )
    return _geometry(found, model)


def information_of(
    decoder: AbstractDecoder, codes: Float[AnyArray, "*member item latent"], model: Likelihood
) -> Float[Array, "*member item latent latent"]:
    """Returns D'A^2D of one chunk of codes, on the device."""
    *_, last = decoder.local(PRODUCTS[model.name], codes)
    return last if model.name == "bernoulli" else last / model.variance[..., None, None, None]


def _geometry(products: tuple[ndarray, ...], model: Likelihood) -> Geometry:
    """J'J and D'A^2D; under a Gaussian likelihood one is a multiple of the other."""
    if model.name == "bernoulli":
        return Geometry(*products)
    variance = np.asarray(model.variance)
    return Geometry(products[0], products[0] / variance[..., None, None, None])


def _from_jacobians(
    matrices: ndarray, codes: ndarray, model: Likelihood, outputs: AnyArray | None
) -> Geometry:
    """The geometry of Jacobians that came from anywhere."""
    if matrices.ndim != codes.ndim + 1 or (*matrices.shape[:-2], matrices.shape[-1]) != codes.shape:
        raise InputError(
            "Jacobians must have the shape (item, pixel, latent) with "
            f"{codes.shape[-2]} items and {codes.shape[-1]} latents, as the codes have, but got "
            f"{matrices.shape}"
        )
    if not np.isfinite(matrices).all():
        raise InputError("Jacobians must be finite, but some entries are NaN or infinite")
    if model.name == "bernoulli" and outputs is None:
        raise InputError(
            "the Jacobians of a Bernoulli decoder are weighted by its outputs: give outputs=..., "
            "the logits at the same codes"
        )
    flat = matrices.reshape(-1, *matrices.shape[-2:])
    given = np.broadcast_to(0.0, flat.shape[:2])
    if outputs is not None:
        given = np.asarray(outputs).reshape(given.shape)
    function = jax.jit(jax.vmap(PRODUCTS[model.name]))
    found = stream(function, given, flat, chunk=chunk_of(flat[0].size))
    whole = tuple(part.reshape(*codes.shape, codes.shape[-1]) for part in found)
    return _geometry(whole, model)


def _keep(output: Array, jacobian: Array) -> Array:
    return jacobian


def _product(jacobian: Array, weights: Array | float) -> Array:
    # The highest precision: tensor cores would otherwise round to 10 bits.
    return jnp.matmul(jacobian.T, weights * jacobian, precision="highest")


def _gram(output: Array, jacobian: Array) -> tuple[Array]:
    return (_product(jacobian, 1.0),)


def _bernoulli_grams(output: Array, jacobian: Array) -> tuple[Array, Array]:
    curvature = Likelihood("bernoulli", jnp.ones(())).curvature(output)
    return _product(jacobian, 1.0), _product(jacobian, curvature[:, None])


PRODUCTS = {"squared_error": _gram, "gaussian": _gram, "bernoulli": _bernoulli_grams}
"""What is kept of one item's output and Jacobian: J'J, and D'A^2D where it is no multiple of it."""
