"""UDR: whether models of a population agree on their latents, without labels."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.stats import rankdata

from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, checked_codes, live_latents
from untwist.types import InputError, nearest

Relation = Literal["lasso", "spearman"]
ALPHA = 0.1
KL_THRESHOLD = 0.01
SWEEPS = 1000


def lasso_weights(
    gram: Float[ndarray, "latent latent"], moment: Float[ndarray, "latent target"], alpha: float
) -> Float[ndarray, "latent target"]:
    """Returns lasso coefficients of many targets at once, by cyclic coordinate descent.

    Minimizes |y - X w|^2 / (2 n) + alpha |w|_1 from gram = X'X / n and moment = X'Y / n; agrees
    with `sklearn.linear_model.Lasso` on each target.

    >>> lasso_weights(np.eye(2), np.array([[1.0], [0.05]]), 0.1).tolist()
    [[0.9], [0.0]]
    """
    weights = np.zeros_like(moment)
    for _ in range(SWEEPS):
        largest = 0.0
        for row in np.flatnonzero(np.diag(gram) > 0):
            rest = moment[row] - gram[row] @ weights + gram[row, row] * weights[row]
            new = np.sign(rest) * np.maximum(np.abs(rest) - alpha, 0.0) / gram[row, row]
            largest = max(largest, float(np.abs(new - weights[row]).max(initial=0.0)))
            weights[row] = new
        if largest < 1e-10:
            break
    return weights


def _relative_strength(matrix: Float[ndarray, "latent partner"]) -> float:
    """The mean over rows and columns of max^2 / sum; an empty row or column counts 0."""
    if matrix.size == 0:
        return 0.0
    strengths = []
    for axis in range(2):
        total = matrix.sum(axis)
        best = matrix.max(axis) ** 2
        strengths.append(np.where(total > 0, best / np.where(total > 0, total, 1.0), 0.0).mean())
    return float(np.mean(strengths))


def _standardized(
    codes: RawCodes, relation: Relation
) -> tuple[list[Float[ndarray, "item latent"]], Bool[ndarray, "member latent"]]:
    array = np.asarray(codes)
    if array.ndim != 3:
        raise InputError(
            f"UDR needs codes of a population, [member, item, latent], but got shape {array.shape}"
        )
    if len(array) < 2:
        raise NotApplicable("UDR compares the members of a population, but there is one")
    members, live = [], []
    for member in array:
        checked = checked_codes(member).astype(np.float64)
        live.append(live_latents(checked))
        ranked = rankdata(checked, axis=0) if relation == "spearman" else checked
        moved = ranked - ranked.mean(0)
        members.append(moved / np.where(live[-1], moved.std(0), np.inf))
    return members, np.array(live)


def udr(
    codes: RawCodes, *, relation: Relation = "lasso", kl: RawCodes | None = None
) -> tuple[Score, ...]:
    """Returns, for each member of a population, how well its latents match those of its peers.

    For members i and j, R is the matrix of |lasso coefficients| (alpha 0.1) from the standardized
    codes of i to those of j, or of |Spearman correlations|; its strength is the mean over rows and
    over columns of max^2 / sum. A member's score is the median over its peers i.

    Range 0 to 1, higher is better. Invariant to order, sign, shift and scale of every member's
    latents; with `spearman` to monotone rescaling.

    Args:
        codes: [member, item, latent], the same items for every member.
        relation: `lasso` or `spearman`.
        kl: mean divergence from the prior, [member, latent]; latents at 0.01 nats or less are left
            out, as the authors do. Without it those that do not vary are.

    Returns:
        One score a member; `parts["pairwise"]` has its strength with each peer.

    Reference: Duan et al. 2020, Unsupervised Model Selection for Variational Disentangled
    Representation Learning, section 3.

    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> [round(s.value, 6) for s in udr(np.stack([codes, -codes[:, ::-1]]), relation="spearman")]
    [1.0, 1.0]
    """
    if relation not in get_args(Relation):
        raise nearest("relation", relation, get_args(Relation))
    members, kept = _standardized(codes, relation)
    if kl is not None:
        divergence = np.asarray(kl)
        if divergence.shape != kept.shape:
            raise InputError(
                f"kl must have one value a member and latent, {kept.shape}, "
                f"but got shape {divergence.shape}"
            )
        kept = kept & (divergence > KL_THRESHOLD)
    count, items = len(members), len(members[0])
    masked = [member * keep for member, keep in zip(members, kept, strict=True)]
    everyone = np.concatenate(masked, 1)
    latents = kept.shape[1]
    cross = everyone.T @ everyone / items
    strength = np.zeros((count, count))
    for source in range(count):
        own = slice(source * latents, (source + 1) * latents)
        moment = cross[own]
        if relation == "lasso":
            moment = lasso_weights(moment[:, own], moment, ALPHA)
        for target in range(count):
            block = np.abs(moment[:, target * latents : (target + 1) * latents])
            strength[source, target] = _relative_strength(block[kept[source]][:, kept[target]])
    return tuple(
        Score(
            float(np.median(np.delete(strength[:, member], member))),
            "lasso, alpha = 0.1" if relation == "lasso" else "Spearman correlation",
            {"relation": relation, "kl_threshold": None if kl is None else KL_THRESHOLD},
            parts={"pairwise": np.delete(strength[:, member], member), "active": kept[member]},
        )
        for member in range(count)
    )
