"""Modularity: whether each latent knows about one factor only."""

import numpy as np

from untwist.factors import FactorSpace
from untwist.metrics.information import HISTOGRAM, Estimator
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors, sample


def modularity(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
    reference: bool = False,
) -> Score:
    """Returns the mean over latents of how exclusively each knows its best factor.

    For latent j with information I_jk and best factor m,
    modularity_j = 1 - sum over k != m of I_jk^2 / (I_jm^2 (F - 1)), and 0 if I_jm = 0.

    Range 0 to 1, higher is better. Invariant to order, sign and relabeling, and to affine
    rescaling of a latent.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        estimator: of the information.
        reference: average over all latents, as the reference implementation does, so that every
            dead latent lowers the score of a perfect code. By default dead latents are left out.

    Returns:
        The mean, with the information as its matrix.

    Reference: Ridgeway and Mozer 2018, Learning Deep Disentangled Embeddings with the F-Statistic
    Loss, section 3.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> codes = np.concatenate([factors, np.zeros((4, 2))], 1)
    >>> modularity(codes, factors, space).value
    1.0
    >>> modularity(codes, factors, space, reference=True).value
    0.5
    """
    information = estimator(sample(codes, factors, space))
    count = len(information.sample.names)
    if count < 2:
        raise NotApplicable(
            f"modularity compares factors, but only {information.sample.names[0]} varies"
        )
    squares = information.matrix**2
    best = squares.max(1)
    rest = (squares.sum(1) - best) / (np.where(best > 0, best, 1.0) * (count - 1))
    per_latent = np.where(best > 0, 1 - rest, 0.0)
    kept = np.ones_like(information.sample.live) if reference else information.sample.live
    return Score(
        float(per_latent[kept].mean()) if kept.any() else 0.0,
        information.name,
        {**information.settings, "reference": reference},
        information.sample.names,
        information.matrix,
        per_latent=per_latent,
        parts={"active": kept},
    )
