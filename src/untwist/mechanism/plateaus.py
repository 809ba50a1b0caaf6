"""Singular values along traversals, and whether decoders are flat at the data: plateaus."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Decode
from untwist.mechanism.geometry import local_geometry
from untwist.mechanism.independence import squared_distances
from untwist.mechanism.orthogonality import column_norms, distance_to_orthogonality, spectrum
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class Profile:
    """A decoder along one line through a code, parallel to a latent's axis.

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
    positions: Float[ndarray, " step"]
    singular_values: Float[ndarray, "step latent"]
    vectors: Float[ndarray, "step latent latent"]
    length: Float[ndarray, " step"]
    distance: Float[ndarray, " step"]
    flat: float


def profile(
    decode: Decode | AbstractDecoder,
    code: Float[AnyArray, " latent"],
    latent: int,
    positions: Float[AnyArray, " step"],
    *,
    chunk: int | None = None,
) -> Profile:
    """Returns the decoder's singular values along a traversal of one latent.

    Args:
        decode: From one code to one example's outputs.
        code: The code that the line goes through.
        latent: Which latent moves.
        positions: The values it takes.
        chunk: Positions at a time.

    Reference: allen2024, Sec. 4.

    >>> import jax.numpy as jnp
    >>> profile(jnp.tanh, np.zeros(1), 0, np.array([-3.0, 0.0, 3.0])).flat.__round__(4)
    0.6667
    """
    code, positions = np.asarray(code, np.float32), np.asarray(positions, np.float32)
    if not 0 <= latent < len(code):
        raise InputError(f"latent {latent} does not exist: expected 0 to {len(code) - 1}")
    codes = np.tile(code, (len(positions), 1))
    codes[:, latent] = positions
    gram = local_geometry(decode, codes, chunk=chunk).gram
    found, length = spectrum(gram), column_norms(gram)[:, latent]
    distance = distance_to_orthogonality(found.vectors)
    flat = float(np.mean(length < length.mean() / 2))
    return Profile(latent, positions, found.values, found.vectors, length, distance, flat)


@dataclass(frozen=True)
class PlateauContrast:
    """Steepness at the data beside steepness between the data.

    Attributes:
        ratio: Geometric mean of ||J||_F at codes over that half way to their nearest codes. Below
            1 the decoder is flat at the data and jumps between them.
        per_item: The logarithm of the ratio at each item.
    """

    ratio: float
    per_item: Float[ndarray, " item"]


def plateau_contrast(
    decode: Decode | AbstractDecoder,
    codes: Float[AnyArray, "item latent"],
    *,
    chunk: int | None = None,
) -> PlateauContrast:
    """Returns how much flatter the decoder is at codes of data than between them.

    The objective pays for singular values at the data only, so it favors plateaus with jumps
    between them (allen2024, Eq. 14 with the logarithm that it drops, erratum E19).

    Args:
        decode: From one code to one example's outputs.
        codes: At most a few thousand codes of different examples.
        chunk: Items at a time.

    >>> plateau_contrast(lambda z: 2 * z, np.array([[0.0], [1.0]])).ratio
    1.0
    """
    codes = np.asarray(codes, np.float32)
    if len(codes) < 2:
        raise InputError("between the data needs at least two codes, but got one")
    distances = squared_distances(codes.astype(np.float64))
    np.fill_diagonal(distances, np.inf)
    middle = (codes + codes[distances.argmin(1)]) / 2
    here, between = (
        np.trace(local_geometry(decode, points, chunk=chunk).gram, axis1=1, axis2=2)
        for points in (codes, middle)
    )
    used = (here > 0) & (between > 0)
    if not used.any():
        return PlateauContrast(1.0, np.zeros(0))
    logs = 0.5 * (np.log(here[used].astype(np.float64)) - np.log(between[used].astype(np.float64)))
    return PlateauContrast(float(np.exp(logs.mean())), logs)
