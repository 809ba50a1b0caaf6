"""IRS: the interventional robustness score."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.information import digitize
from untwist.metrics.record import Score
from untwist.metrics.sample import RawCodes, RawFactors, ranked, sample
from untwist.types import InputError

REFERENCE_BINS = 20


def _deviations(
    codes: Float[ndarray, "item latent"], levels: Int[ndarray, " item"], quantile: float
) -> Float[ndarray, " latent"]:
    """The quantile of |code - mean at the same level|, averaged over levels."""
    order = np.argsort(levels, kind="stable")
    bounds = np.flatnonzero(np.diff(levels[order])) + 1
    total = np.zeros(codes.shape[1])
    for group in np.split(codes[order], bounds):
        gaps = np.sort(np.abs(group - group.mean(0)), axis=0)
        # numpy's linear quantile, without its overhead for each of many small groups.
        place = quantile * (len(gaps) - 1)
        low = int(place)
        high = min(low + 1, len(gaps) - 1)
        total += gaps[low] + (place - low) * (gaps[high] - gaps[low])
    return total / (len(bounds) + 1)


def irs(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    quantile: float = 0.99,
    reference: bool = False,
) -> Score:
    """Returns how little each latent moves while one factor is held and the others vary.

    For latent j and factor k, D_jk is the mean over levels of the `quantile` of |z_j - E[z_j |
    v_k]|, M_j the largest |z_j - E z_j|, and IRS = sum_j M_j max_k (1 - D_jk / M_j) / sum_j M_j.
    Dead latents do not enter. The items should cover the factors as an intervention would, that
    is independently.

    Range 0 to 1, higher is better, 0 for a constant code. Invariant to order, sign and shift of
    latents and to relabeling; the weights M_j depend on the scale of each latent.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        quantile: of the deviations; 1 is the paper's maximum, 0.99 the reference implementation's.
        reference: cut every factor into 20 bins of equal width, as the reference implementation
            does, which merges the values of factors with more.

    Returns:
        The score; its matrix holds 1 - D_jk / M_j.

    Reference: Suter et al. 2019, Robustly Disentangled Causal Mechanisms, section 4.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> irs(factors * 1.0, factors, space).value
    1.0
    """
    if not 0 < quantile <= 1:
        raise InputError(f"the quantile must lie in (0, 1], but got {quantile}")
    data = sample(codes, factors, space)
    live = data.codes[:, data.live]
    largest = np.abs(live - live.mean(0)).max(0) if data.live.any() else np.zeros(0)
    matrix = np.zeros((len(data.live), len(data.names)))
    for factor, levels in enumerate(data.levels.T):
        if reference:
            levels = ranked(digitize(data.values[:, factor], REFERENCE_BINS).astype(float), 1)
        if data.live.any():
            matrix[data.live, factor] = 1 - _deviations(live, levels, quantile) / largest
    weights = np.zeros(len(data.live))
    weights[data.live] = largest
    per_latent = matrix.max(1)
    return Score(
        float((per_latent * weights).sum() / weights.sum()) if data.live.any() else 0.0,
        "deviation at held factors",
        {"quantile": quantile, "reference": reference},
        data.names,
        matrix,
        per_latent=per_latent,
        parts={"active_count": float(data.live.sum()), "largest": weights},
    )
