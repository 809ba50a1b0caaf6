"""Random instances in float64: a numpy generator out of a JAX key, and the matrices checks draw."""

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from untwist.types import RandomKey


def generator(key: RandomKey) -> Generator:
    """Returns the numpy generator that a JAX key decides."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def orthogonal(size: int, draw: Generator) -> Float[ndarray, "latent latent"]:
    """Returns a Haar-random orthogonal matrix."""
    basis, triangle = np.linalg.qr(draw.standard_normal((size, size)))
    return basis * np.sign(np.diag(triangle))


def frame(rows: int, columns: int, draw: Generator) -> Float[ndarray, "pixel latent"]:
    """Returns a random matrix with orthonormal columns."""
    return orthogonal(rows, draw)[:, :columns]


def spectrum(size: int, draw: Generator, *, smallest: float = 0.5) -> Float[ndarray, " latent"]:
    """Returns well separated positive numbers, largest first: each 1.3 to 1.7 times the next."""
    return smallest * np.cumprod(draw.uniform(1.3, 1.7, size))[::-1]


def covariance(size: int, draw: Generator) -> Float[ndarray, "pixel pixel"]:
    """Returns a random covariance with well separated eigenvalues."""
    basis = orthogonal(size, draw)
    return (basis * spectrum(size, draw)) @ basis.T


def signed_permutation(size: int, draw: Generator) -> Float[ndarray, "latent latent"]:
    """Returns a random permutation matrix with random signs."""
    return np.eye(size)[draw.permutation(size)] * draw.choice([-1.0, 1.0], size)
