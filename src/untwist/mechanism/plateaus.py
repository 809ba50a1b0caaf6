"""Singular values along traversals, and whether decoders are flat at the data: plateaus."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Decode, Number, checked_codes, number
from untwist.mechanism.geometry import local_geometry
from untwist.mechanism.independence import squared_distances
from untwist.mechanism.orthogonality import column_norms, distance_to_orthogonality, spectrum
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class Profile:
    """A decoder along one line through a code, parallel to a latent's axis; of each member.

    Attributes:
        latent: The latent that moves.
        positions: Its values.
        singular_values: Of the Jacobian, descending.
        vectors: Right singular vectors as columns, each up to its sign.
        length: ||c_j||, how fast the output moves as this latent does.
        distance: Distance to orthogonality.
        flat: Share of the line on which `length` is below half its mean: 0 for a straight line.
    """

    latent: int
    positions: Float[ndarray, "*member step"]
    singular_values: Float[ndarray, "*member step latent"]
    vectors: Float[ndarray, "*member step latent latent"]
    length: Float[ndarray, "*member step"]
    distance: Float[ndarray, "*member step"]
    flat: Number


def profile(
    decode: Decode | AbstractDecoder,
    code: Float[AnyArray, "*member latent"],
    latent: int,
    positions: Float[AnyArray, "*member step"],
    *,
    chunk: int | None = None,
) -> Profile:
    """Returns the decoder's singular values along a traversal of one latent.

    Args:
        decode: From one code to one example's outputs; or a population of such.
        code: The code that the line goes through, one for each member.
        latent: Which latent moves.
        positions: The values it takes, for each member.
        chunk: Positions at a time.

    Reference: allen2024, Sec. 4.

    >>> import jax.numpy as jnp
    >>> profile(jnp.tanh, np.zeros(1), 0, np.array([-3.0, 0.0, 3.0])).flat.__round__(4)
    0.6667
    """
    code, positions = np.asarray(code, np.float32), np.asarray(positions, np.float32)
    latents = code.shape[-1]
    if not 0 <= latent < latents:
        raise InputError(f"latent {latent} does not exist: expected 0 to {latents - 1}")
    codes = np.repeat(code[..., None, :], positions.shape[-1], axis=-2)
    codes[..., latent] = positions
    gram = local_geometry(decode, codes, chunk=chunk).gram
    found, length = spectrum(gram), column_norms(gram)[..., latent]
    distance = distance_to_orthogonality(found.vectors)
    flat = number(np.mean(length < length.mean(-1, keepdims=True) / 2, axis=-1))
    return Profile(latent, positions, found.values, found.vectors, length, distance, flat)


@dataclass(frozen=True)
class PlateauContrast:
    """Steepness at the data beside steepness between the data; of each member.

    Attributes:
        ratio: Geometric mean of ||J||_F at codes over that half way to their nearest codes. Below
            1 the decoder is flat at the data and jumps between them.
        per_item: The logarithm of the ratio at each item; 0 where the decoder stands still.
    """

    ratio: Number
    per_item: Float[ndarray, "*member item"]


def plateau_contrast(
    decode: Decode | AbstractDecoder,
    codes: Float[AnyArray, "*member item latent"],
    *,
    chunk: int | None = None,
) -> PlateauContrast:
    """Returns how much flatter the decoder is at codes of data than between them.

    The objective pays for singular values at the data only, so it favors plateaus with jumps
    between them (allen2024, Eq. 14 with the logarithm that it drops, erratum E19).

    Args:
        decode: From one code to one example's outputs; or a population of such.
        codes: At most a few thousand codes of different examples.
        chunk: Items at a time.

    >>> plateau_contrast(lambda z: 2 * z, np.array([[0.0], [1.0]])).ratio
    1.0
    """
    codes = checked_codes(codes)
    if codes.shape[-2] < 2:
        raise InputError("between the data needs at least two codes, but got one")
    nearest = _nearest(codes.reshape(-1, *codes.shape[-2:])).reshape(codes.shape[:-1])
    middle = (codes + np.take_along_axis(codes, nearest[..., None], axis=-2)) / 2
    here, between = (
        np.trace(local_geometry(decode, points, chunk=chunk).gram, axis1=-2, axis2=-1)
        for points in (codes, middle)
    )
    used = (here > 0) & (between > 0)
    steep, steeper = (np.where(used, side, 1).astype(np.float64) for side in (here, between))
    logs = 0.5 * (np.log(steep) - np.log(steeper))
    mean = logs.sum(-1) / np.maximum(used.sum(-1), 1)
    return PlateauContrast(number(np.exp(mean)), logs)


def _nearest(codes: Float[ndarray, "member item latent"]) -> ndarray:
    """The nearest other code of each."""
    found = np.empty(codes.shape[:2], int)
    for member, own in enumerate(codes.astype(np.float64)):
        distances = squared_distances(own)
        np.fill_diagonal(distances, np.inf)
        found[member] = distances.argmin(1)
    return found
