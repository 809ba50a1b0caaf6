"""Gaps of mutual information: MIG, MIG-sup, RMIG, JEMMIG and DCIMIG."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.information import HISTOGRAM, Estimator
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors, sample
from untwist.types import InputError

TIE = 1e-9


def top_two(matrix: Float[ndarray, "row column"], axis: int) -> Float[ndarray, "2 kept"]:
    """Returns the largest and second largest entries along an axis; a missing rival is zero.

    >>> top_two(np.array([[0.5, 0.2], [0.1, 0.9]]), axis=0).tolist()
    [[0.5, 0.9], [0.1, 0.2]]
    >>> top_two(np.array([[0.5, 0.2]]), axis=0).tolist()
    [[0.5, 0.2], [0.0, 0.0]]
    """
    ordered = np.sort(np.moveaxis(matrix, axis, 0), axis=0)[::-1]
    padded = np.concatenate([ordered, np.zeros((1, ordered.shape[1]))])
    return padded[:2]


def active_latents(
    active: Bool[ndarray, " given"] | None, live: Bool[ndarray, " latent"]
) -> Bool[ndarray, " latent"]:
    """Returns the latents to average over: those that vary, and are in `active` if given."""
    if active is None:
        return live
    if np.shape(active) != live.shape:
        raise InputError(
            f"active must say yes or no for each of {len(live)} latents, "
            f"but got shape {np.shape(active)}"
        )
    return live & np.asarray(active, dtype=bool)


def mig(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
) -> Score:
    r"""Returns the mutual information gap: how much more the best latent of a factor knows.

    MIG = mean over factors k of (I(z_first; v_k) - I(z_second; v_k)) / H(v_k), where first and
    second are the two latents most informative about v_k.

    Range 0 to 1 (the neighbor estimator exceeds 1 by its error), higher is better. Invariant to
    order, sign and relabeling; to monotone rescaling with the neighbor estimator only
    approximately, with the histogram to affine rescaling only.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        estimator: `Histogram(bins)`, `Neighbors(k)` or `Posterior(variances, key)`.

    Returns:
        The gap; its matrix is the information in nats, `per_factor` the gap of each factor.

    Reference: Chen et al. 2018, Isolating Sources of Disentanglement in VAEs, section 4.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> mig(factors.astype(float), factors, space).value
    1.0
    """
    information = estimator(sample(codes, factors, space))
    first, second = top_two(information.matrix, axis=0)
    gaps = (first - second) / information.entropies
    return Score(
        float(gaps.mean()),
        information.name,
        information.settings,
        information.sample.names,
        information.matrix,
        gaps,
        parts={"entropies": information.entropies, "best": information.matrix.argmax(0)},
    )


def rmig(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
) -> Score:
    """Returns the unnormalized gap in nats, RMIG.

    RMIG = mean over factors k of I(z_first; v_k) - I(z_second; v_k).

    Range 0 to the mean entropy of the factors, higher is better; invariances of `mig`. The
    normalized form, which is MIG, is in `parts`.

    Reference: Do and Tran 2020, Theory and Evaluation Metrics for Learning Disentangled
    Representations, section 4.3.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> round(rmig(factors.astype(float), factors, space).value, 6)
    0.693147
    """
    information = estimator(sample(codes, factors, space))
    first, second = top_two(information.matrix, axis=0)
    gaps = first - second
    return Score(
        float(gaps.mean()),
        information.name,
        information.settings,
        information.sample.names,
        information.matrix,
        gaps,
        parts={"normalized": float((gaps / information.entropies).mean())},
    )


def jemmig(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
) -> Score:
    """Returns the joint entropy minus mutual information gap, JEMMIG, in nats.

    JEMMIG = mean over factors k of H(z_first, v_k) - I(z_first; v_k) + I(z_second; v_k). It also
    charges a latent for what it knows beyond its factor, so a noisy latent costs more. Of latents
    that tie for first, the one of least entropy counts.

    Range 0 to log(bins) plus the factor entropy, lower is better; invariances of `mig`. The form
    1 - JEMMIG / (H(v_k) + log bins), higher is better, is `parts["normalized"]`.

    Reference: Do and Tran 2020, section 4.3.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> round(abs(jemmig(factors.astype(float), factors, space).value), 12)
    0.0
    """
    information = estimator(sample(codes, factors, space))
    if information.latent_entropies is None:
        raise NotApplicable(
            "JEMMIG needs the entropy of the latents, which only bins give: use Histogram"
        )
    bins = information.bins
    first, second = top_two(information.matrix, axis=0)
    # Of equally informative latents the least wasteful one, so that their order is immaterial.
    tied = information.matrix >= first - TIE
    best = np.where(tied, information.latent_entropies[:, None], np.inf).argmin(0)
    joint = information.latent_entropies[best] + information.entropies - first
    costs = joint - first + second
    normalized = 1 - costs / (information.entropies + np.log(bins))
    return Score(
        float(costs.mean()),
        information.name,
        information.settings,
        information.sample.names,
        information.matrix,
        costs,
        parts={"normalized": float(normalized.mean()), "best": best},
    )


def mig_sup(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
    active: Bool[ndarray, " latent"] | None = None,
) -> Score:
    """Returns the gap per latent over factors, MIG-sup.

    MIG-sup = mean over active latents j of the two largest of I(z_j; v_k) / H(v_k) over k,
    subtracted. Latents that do not vary are left out; pass `active` to leave out more.

    Range 0 to 1, higher is better; invariances of `mig`. Zero where no latent varies.

    Reference: Li et al. 2020, Progressive Learning and Disentanglement of Hierarchical
    Representations, section 4.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> mig_sup(factors.astype(float), factors, space).value
    1.0
    """
    information = estimator(sample(codes, factors, space))
    first, second = top_two(information.normalized(), axis=1)
    gaps = first - second
    kept = active_latents(active, information.sample.live)
    return Score(
        float(gaps[kept].mean()) if kept.any() else 0.0,
        information.name,
        information.settings,
        information.sample.names,
        information.matrix,
        per_latent=gaps,
        parts={"active": kept},
    )


def dcimig(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    estimator: Estimator = HISTOGRAM,
) -> Score:
    """Returns DCIMIG (3CharM), which asks for one latent a factor and one factor a latent.

    Each latent j is credited with the gap of I(z_j; v_k) over its two best factors, in nats, at
    its best factor; S_k is the largest credit at factor k; DCIMIG = sum S_k / sum H(v_k).

    Range 0 to 1, higher is better; invariances of `mig`.

    Reference: Sepliarskaia et al. 2019, How to Not Measure Disentanglement, section 4.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> dcimig(factors.astype(float), factors, space).value
    1.0
    """
    information = estimator(sample(codes, factors, space))
    first, second = top_two(information.matrix, axis=1)
    credit = np.zeros_like(information.matrix)
    latents = np.arange(len(credit))
    credit[latents, information.matrix.argmax(1)] = first - second
    best = credit.max(0)
    return Score(
        float(best.sum() / information.entropies.sum()),
        information.name,
        information.settings,
        information.sample.names,
        information.matrix,
        best / information.entropies,
        first - second,
    )
