"""The FactorVAE score: whether the latent that varies least names the factor held fixed."""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.draws import generator
from untwist.metrics.record import Score, check_counts
from untwist.metrics.sample import DEAD_RANGE, LEAST_RANGE
from untwist.metrics.sampler import CHUNK, Interventions, Sampler
from untwist.types import RandomKey

REFERENCE_DEVIATION = 0.05


def _votes(
    interventions: Interventions,
    count: int,
    width: int,
    center: Float[ndarray, " latent"],
    spread: Float[ndarray, " latent"],
    kept: Bool[ndarray, " latent"],
    rng: np.random.Generator,
) -> Int[ndarray, "latent factor"]:
    """How often each latent had the least relative variance while each factor was held."""
    table = np.zeros((len(kept), len(interventions.space)), dtype=np.int64)
    latents = np.flatnonzero(kept)
    for held, index in interventions.groups(count, width, rng):
        codes = interventions.codes(index)[..., latents].astype(np.float64) - center[latents]
        squares = np.einsum("gwl,gwl->gl", codes, codes) - codes.sum(1) ** 2 / width
        least = latents[(squares / spread[latents]).argmin(1)]
        np.add.at(table, (least, held), 1)
    return table


def factor_vae_score(
    sampler: Sampler,
    space: FactorSpace,
    *,
    key: RandomKey,
    train: int = 10000,
    test: int = 5000,
    batch: int = 64,
    variance: int = 10000,
    chunk: int = CHUNK,
    reference: bool = False,
) -> Score:
    """Returns the accuracy of a majority vote from the least varying latent to the held factor.

    A vote holds one random factor fixed over `batch` points and takes the latent whose variance,
    relative to its variance over the grid, is least. Training votes decide which factor each
    latent stands for; the score is the share of test votes that agree.

    Range 1/F to 1, higher is better, and 0 where no latent varies. Invariant to order, sign,
    shift and scale of latents and to relabeling.

    Args:
        sampler: from grid indices to codes.
        space: the factors; those with one value are never held.
        key: draws the votes.
        train: training votes.
        test: test votes.
        batch: points a vote.
        variance: points for the variance over the grid, streamed in chunks.
        chunk: the most codes asked of the sampler at once; one vote's at least.
        reference: also drop latents whose standard deviation is under 0.05, as the large study
            did. By default only dead latents are dropped, so the scale of a latent is immaterial.

    Returns:
        The test accuracy; its matrix has the training votes, `parts` the number of latents kept.

    Reference: Kim and Mnih 2018, Disentangling by Factorising, section 4.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (4, 4), ("ordinal", "ordinal"))
    >>> sampler = lambda index: space.factors(index) * 1.0
    >>> factor_vae_score(sampler, space, key=jax.random.key(0), train=200, test=100).value
    1.0
    """
    check_counts(1, train=train, test=test, chunk=chunk)
    check_counts(2, batch=batch, variance=variance)
    rng = generator(key)
    interventions = Interventions(sampler, space, chunk)
    kept_factors = interventions.factors
    center, spread, extent = interventions.moments(variance, rng)
    kept = extent > DEAD_RANGE * (np.abs(center) + extent) + LEAST_RANGE
    if reference:
        kept = kept & (np.sqrt(spread) >= REFERENCE_DEVIATION)
    settings = {
        "train": train,
        "test": test,
        "batch": batch,
        "variance": variance,
        "reference": reference,
    }
    names = tuple(space.names[i] for i in kept_factors)
    parts = {"active": kept, "active_count": float(kept.sum()), "train": 0.0}
    if not kept.any():
        empty = np.zeros((len(kept), len(names)))
        return Score(0.0, "majority vote", settings, names, empty, parts=parts)
    votes = _votes(interventions, train, batch, center, spread, kept, rng)
    probe = _votes(interventions, test, batch, center, spread, kept, rng)
    named, latents = votes.argmax(1), np.arange(len(votes))
    return Score(
        float(probe[latents, named].sum() / test),
        "majority vote",
        settings,
        names,
        votes[:, kept_factors].astype(np.float64),
        parts={**parts, "train": float(votes.max(1).sum() / train)},
    )
