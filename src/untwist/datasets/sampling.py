"""Drawing factors for the sets that are sampled, not enumerated."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from untwist.factors import FactorSpace
from untwist.types import InputError


def sample_factors(
    name: str, space: FactorSpace, samples: int, *, seed: int
) -> Float[np.ndarray, "item factor"]:
    """Returns independent rows of factors: continuous ones uniform on [0, 1), others on values."""
    if samples < 1:
        raise InputError(f"{name}: expected at least one sample, but got samples={samples}")
    if not 0 <= seed < 2**32:
        raise InputError(f"{name}: expected a seed from 0 to 2^32 - 1, but got {seed}")
    keys = jax.random.split(jax.random.key(seed), len(space))
    columns = [
        jax.random.uniform(key, (samples,))
        if size is None
        else jax.random.randint(key, (samples,), 0, size).astype(jnp.float32)
        for key, size in zip(keys, space.sizes, strict=True)
    ]
    return np.asarray(jnp.stack(columns, -1))


def check_positive(name: str, **values: int | float) -> None:
    """Raises unless every option is above 0."""
    for option, value in values.items():
        if not 0 < value < float("inf"):
            raise InputError(f"{name}: expected {option} above 0, but got {value}")
