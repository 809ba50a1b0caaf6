"""Downstream accuracy: how well simple predictors learn the factors from few codes."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, generator, split
from untwist.metrics.record import NotApplicable, Score, check_counts
from untwist.metrics.sample import RawCodes, RawFactors, Sample, sample
from untwist.metrics.softmax import SoftmaxRegression
from untwist.types import InputError, RandomKey, nearest

Learner = Literal["softmax", "logistic_cv", "boosting"]
SIZES = (10, 100, 1000, 10000)


def _accuracy(learner: Learner, train: Sample, test: Sample, factor: int, seed: int) -> float:
    """Test accuracy for one factor; with a single training level, of saying that level."""
    known, truth = train.levels[:, factor], test.levels[:, factor]
    if len(np.unique(known)) < 2 or not train.live.any():
        return float((truth == np.bincount(known).argmax()).mean())
    inputs, probe = train.codes[:, train.live], test.codes[:, train.live]
    if learner == "softmax":
        center, spread = inputs.mean(0), np.where(inputs.std(0) > 0, inputs.std(0), 1.0)
        present, dense = np.unique(known, return_inverse=True)
        fitted = SoftmaxRegression().fit((inputs - center) / spread, dense, len(present))
        return float((present[fitted.predict((probe - center) / spread)] == truth).mean())
    if learner == "logistic_cv":
        penalties = {"C": np.logspace(-4, 4, 10)}
        model = GridSearchCV(LogisticRegression(max_iter=1000), penalties, cv=KFold(5))
    else:
        model = GradientBoostingClassifier(random_state=seed)
    return float((model.fit(inputs, known).predict(probe) == truth).mean())


def downstream(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    sizes: tuple[int, ...] = SIZES,
    learner: Learner = "softmax",
    parts: Split | None = None,
) -> Score:
    """Returns the mean test accuracy over factors at the largest training size.

    One classifier a factor and size; continuous factors are classified into 20 bins. Sizes that
    exceed the training items are cut to them, and equal ones kept once.

    Range 0 to 1, higher is better; a constant code is at the share of the most common level.
    Invariant to order, sign, shift and scale of latents and to relabeling.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws the items and seeds the trees.
        sizes: numbers of training items.
        learner: `softmax` (penalty 1, standardized codes), or as in the reference implementation
            `logistic_cv` (penalty by 5-fold validation) or `boosting`, both much slower.
        parts: training and test rows to use in place of a random split.

    Returns:
        The accuracy at the largest size; `parts` has the sizes, the accuracy by size and factor,
        and the efficiency, which is the accuracy at the smallest size over that at the largest.

    Reference: Locatello et al. 2019, Challenging Common Assumptions, section 5.5.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> downstream(factors * 1.0, factors, space, key=jax.random.key(0)).value
    1.0
    """
    if learner not in get_args(Learner):
        raise nearest("learner", learner, get_args(Learner))
    if not sizes:
        raise InputError("give one training size or more, but got none")
    check_counts(1, **{f"training size {size}": size for size in sizes})
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key)
    if learner == "logistic_cv" and min(sizes) < 10:
        raise NotApplicable("five-fold validation needs ten training items or more")
    counts = sorted({min(size, len(rows.train)) for size in sizes})
    seeds = generator(key).integers(2**31, size=len(data.names))
    test = data.rows(rows.test)
    table: Float[ndarray, "size factor"] = np.array(
        [
            [
                _accuracy(learner, data.rows(rows.train[:count]), test, factor, int(seed))
                for factor, seed in enumerate(seeds)
            ]
            for count in counts
        ]
    )
    means = table.mean(1)
    return Score(
        float(means[-1]),
        {
            "softmax": "softmax regression",
            "logistic_cv": "logistic regression, validated",
            "boosting": "gradient-boosted trees",
        }[learner],
        {"learner": learner, "largest": counts[-1]},
        data.names,
        per_factor=table[-1],
        parts={
            "sizes": np.array(counts),
            "accuracy": table,
            "efficiency": float(means[0] / means[-1]) if means[-1] > 0 else 0.0,
        },
    )
