"""Mutual information of draws from the encoder's posterior with the factors (Chen 2018)."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from untwist.metrics.draws import generator
from untwist.types import RandomKey

CHUNK = 4
# Means further from zero than this many deviations need double precision in their differences.
FAR = 1e3
# A squared distance at which the density is zero in single precision.
NOTHING = 1e4


def posterior_information(
    means: Float[ndarray, "item latent"],
    variances: Float[ndarray, "item latent"],
    levels: Int[ndarray, "item factor"],
    sizes: tuple[int, ...],
    *,
    draws: int,
    key: RandomKey,
) -> Float[ndarray, "latent factor"]:
    r"""Returns I(z_j; v_k) = E[log q(z_j | v_k) - log q(z_j)] over draws z ~ q(z|x).

    Both densities are mixtures of posteriors, over the items with the same level of v_k and over
    all items. Memory is bounded by chunks of draws.
    """
    items = len(means)
    rng = generator(key)
    picked = rng.permutation(items)[:draws] if draws <= items else rng.integers(items, size=draws)
    noise = rng.standard_normal((len(picked), means.shape[1]))
    z = means[picked] + np.sqrt(variances[picked]) * noise
    counts = np.stack([np.bincount(c, minlength=max(sizes)) for c in levels.T])
    own = np.stack([counts[k][levels[picked, k]] for k in range(len(sizes))], 1)
    scale = np.sqrt(0.5 / variances).T
    far = np.abs(means).max() * scale.max() > FAR
    dtype = np.float64 if far else np.float32
    scale, z = scale.astype(dtype), z.astype(dtype)
    centers = np.ascontiguousarray(means.T, dtype)
    # Only ratios of densities matter, so the highest of each latent may count as one.
    height = (np.sqrt(variances.min(0)) / np.sqrt(variances)).T.astype(np.float32)
    total = np.zeros((means.shape[1], len(sizes)))
    for low in range(0, len(picked), CHUNK):
        rows = slice(low, low + CHUNK)
        gaps = (z[rows].T[:, :, None] - centers[:, None]) * scale[:, None]
        squares = np.minimum(gaps * gaps, NOTHING).astype(np.float32)
        density = np.exp(-squares) * height[:, None]
        same = (levels[picked[rows], None] == levels[None]).astype(np.float32)
        inside = np.einsum("jsn,snk->sjk", density, same, optimize=True)
        ratio = (inside / own[rows][:, None]) / (density.sum(2).T[:, :, None] / items)
        total += np.log(ratio).sum(0)
    return np.maximum(total / len(picked), 0.0)
