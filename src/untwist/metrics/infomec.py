"""InfoMEC: modularity, explicitness and compactness by information."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.gaps import active_latents
from untwist.metrics.information import Estimator, Information, Neighbors
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors, sample
from untwist.metrics.softmax import SoftmaxRegression

RANGE_SHARE = 1 / 20
TEN_NEIGHBORS = Neighbors(10)


def _share(matrix: Float[ndarray, "row column"]) -> Float[ndarray, " row"]:
    """The largest entry of each row as a share of its sum, scaled so that an even row is 0."""
    count = matrix.shape[1]
    total = matrix.sum(1)
    share = np.where(total > 0, matrix.max(1) / np.where(total > 0, total, 1.0), 1 / count)
    return (share - 1 / count) / (1 - 1 / count)


def _pruned(
    information: Information, active: Bool[ndarray, " latent"] | None, reference: bool
) -> Bool[ndarray, " latent"]:
    """The latents that enter: those that vary, or those of large raw range for the reference."""
    kept = active_latents(active, information.sample.live)
    if reference:
        ranges = np.ptp(information.sample.codes, axis=0)
        kept = kept & (ranges > ranges.max() * RANGE_SHARE)
    return kept


def infom(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = TEN_NEIGHBORS,
    active: Bool[ndarray, " latent"] | None = None,
    reference: bool = False,
) -> Score:
    """Returns InfoM: the share of a latent's information that its best factor has.

    InfoM = (mean over active latents of max_k NI_jk / sum_k NI_jk - 1/F) / (1 - 1/F), with
    NI_jk = I(z_j; v_k) / H(v_k). A latent that varies without information about any factor counts
    as even, 0.

    Range 0 to 1, higher is better. Invariant to order, sign, relabeling and rescaling; to monotone
    rescaling approximately.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        estimator: of the information.
        active: latents to average over; by default all that vary.
        reference: also drop latents whose raw range is under a twentieth of the largest, as the
            authors do, so that one latent on a large scale removes all others.

    Returns:
        The score; its matrix is the normalized information.

    Reference: Hsu et al. 2023, Disentanglement via Latent Quantization, section 5.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> round(infom(factors.astype(float), factors, space).value, 6)
    1.0
    """
    information = estimator(sample(codes, factors, space))
    names = information.sample.names
    if len(names) < 2:
        raise NotApplicable(f"InfoM compares factors, but only {', '.join(names)} varies")
    kept = _pruned(information, active, reference)
    per_latent = _share(information.normalized())
    return Score(
        float(per_latent[kept].mean()) if kept.any() else 0.0,
        information.name,
        {**information.settings, "reference": reference},
        names,
        information.normalized(),
        per_latent=per_latent,
        parts={"active": kept},
    )


def infoc(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = TEN_NEIGHBORS,
    active: Bool[ndarray, " latent"] | None = None,
    reference: bool = False,
) -> Score:
    """Returns InfoC: the share of the information about a factor that its best latent has.

    InfoC = (mean over factors of max_j NI_jk / sum_j NI_jk - 1/A) / (1 - 1/A) over A active
    latents. With one active latent it is 0/0, so not applicable; with none it is 0.

    Range 0 to 1, higher is better; arguments and invariances of `infom`.

    Reference: Hsu et al. 2023, section 5.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> round(infoc(factors.astype(float), factors, space).value, 6)
    1.0
    """
    information = estimator(sample(codes, factors, space))
    kept = _pruned(information, active, reference)
    if kept.sum() == 1:
        raise NotApplicable("InfoC compares latents, but only one is active")
    normalized = information.normalized()
    per_factor = _share(normalized[kept].T) if kept.any() else np.zeros(normalized.shape[1])
    return Score(
        float(per_factor.mean()),
        information.name,
        {**information.settings, "reference": reference},
        information.sample.names,
        normalized,
        per_factor,
        parts={"active": kept},
    )


def infoe(codes: RawCodes, factors: RawFactors, space: FactorSpace) -> Score:
    """Returns InfoE: how much of each factor a linear classifier reads off all latents together.

    InfoE = mean over factors of 1 - log loss / log(levels), where the loss is that of an
    unpenalized softmax regression on standardized codes, with balanced classes, on the items it
    was fitted to, as the authors define it; log(levels) is what it reaches without codes.

    Range 0 to 1 for balanced factors, higher is better. Invariant to any invertible affine map of
    the codes and to relabeling.

    Reference: Hsu et al. 2023, section 5.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> round(infoe(factors.astype(float), factors, space).value, 2)
    1.0
    """
    data = sample(codes, factors, space)
    standard = np.zeros_like(data.codes)
    moved = data.codes[:, data.live] - data.codes[:, data.live].mean(0)
    standard[:, data.live] = moved / moved.std(0)
    model = SoftmaxRegression(penalty=0.0, balanced=True)
    per_factor = np.zeros(len(data.names))
    for factor, size in enumerate(data.sizes):
        levels = data.levels[:, factor]
        fitted = model.fit(standard, levels, size)
        loss = fitted.loss(standard, levels)
        per_factor[factor] = 1 - loss / np.log(size)
    # Rounding leaves a dead code at 1e-9 and an unbalanced factor may end below the even guess.
    per_factor = np.maximum(per_factor, 0.0) if data.live.any() else np.zeros(len(data.names))
    return Score(
        float(per_factor.mean()),
        "softmax regression, balanced, unpenalized, on the training items",
        {"iterations": model.iterations},
        data.names,
        per_factor=per_factor,
    )
