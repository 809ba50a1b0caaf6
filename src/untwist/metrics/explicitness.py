"""Explicitness: whether a linear classifier finds every level of every factor."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, split
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors, sample
from untwist.metrics.softmax import SoftmaxRegression
from untwist.types import RandomKey


def roc_areas(
    scores: Float[ndarray, "item level"], levels: Int[ndarray, " item"]
) -> Float[ndarray, " level"]:
    """Returns the area under the ROC curve of each level against the rest; ties count half.

    A level that does not occur, or that every item has, has no curve and gets 0.5.

    >>> roc_areas(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])).tolist()
    [1.0, 1.0]
    """
    items, size = scores.shape
    areas = np.full(size, 0.5)
    counts = np.bincount(levels, minlength=size)
    for level in np.flatnonzero((counts > 0) & (counts < items)):
        column = np.ascontiguousarray(scores[:, level])
        own = np.sort(column[levels == level])
        ordered = np.sort(column)
        below = np.searchsorted(ordered, own, side="left").sum()
        upto = np.searchsorted(ordered, own, side="right").sum()
        count = counts[level]
        # Ranks with ties halved, less the rank that the level's items have among themselves.
        wins = 0.5 * (below + upto) - 0.5 * count**2
        areas[level] = wins / (count * (items - count))
    return areas


def explicitness(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    parts: Split | None = None,
    reference: bool = False,
) -> Score:
    """Returns the mean area under the ROC curve of a linear classifier, over levels and factors.

    One softmax regression a factor (penalty 1, as scikit-learn's default) on the standardized
    codes of the training items; areas on the test items, levels that the test items lack left out.

    Range 0.5 (a constant code) to 1, higher is better. Invariant to order, sign, shift and scale
    of latents and to relabeling.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws the training and test items.
        parts: training and test rows to use in place of a random split.
        reference: one regression a level against the rest, by LIBLINEAR, as scikit-learn's
            default was when the reference implementation's numbers were published. A line cannot
            single out a middle level, so a perfect code of an ordinal factor stays below 1.

    Returns:
        The mean on test items; `parts` has the one on training items.

    Reference: Ridgeway and Mozer 2018, section 3.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> explicitness(factors * 1.0, factors, space, key=jax.random.key(0)).value
    1.0
    """
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key)
    fitted_on = data.codes[rows.train]
    spread = np.where(data.live & (fitted_on.std(0) > 0), fitted_on.std(0), np.inf)
    standard = (data.codes - fitted_on.mean(0)) / spread
    areas = np.zeros((2, len(data.names)))
    for factor, size in enumerate(data.sizes):
        levels = data.levels[:, factor]
        if len(np.unique(levels[rows.test])) < 2:
            raise NotApplicable(
                f"the test items hold one level of {data.names[factor]!r}: give more items"
            )
        scores = _scores(standard, levels, size, rows.train, reference)
        for part, index in enumerate((rows.train, rows.test)):
            present = np.bincount(levels[index], minlength=size) > 0
            areas[part, factor] = roc_areas(scores[index], levels[index])[present].mean()
    return Score(
        float(areas[1].mean()),
        "softmax regression" if not reference else "logistic regression, one level against rest",
        {"penalty": 1.0, "reference": reference},
        data.names,
        per_factor=areas[1],
        parts={"train": float(areas[0].mean())},
    )


def _scores(
    codes: Float[ndarray, "item latent"],
    levels: Int[ndarray, " item"],
    size: int,
    train: Int[ndarray, " train"],
    reference: bool,
) -> Float[ndarray, "item level"]:
    """Scores that rank the items for each level."""
    model = SoftmaxRegression()
    if not reference:
        return model.fit(codes[train], levels[train], size).probabilities(codes)
    rival = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    rival.fit(codes[train], levels[train])
    scores = np.zeros((len(codes), size))
    scores[:, rival.classes_] = rival.predict_proba(codes)
    return scores
