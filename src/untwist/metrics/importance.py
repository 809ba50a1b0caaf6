"""How much each latent matters to a predictor of each factor: the matrix behind DCI."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from joblib import Parallel, cpu_count, delayed
from numpy import ndarray
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, generator, split
from untwist.metrics.identifiability import explained
from untwist.metrics.sample import RawCodes, RawFactors, Sample, sample
from untwist.metrics.udr import lasso_weights
from untwist.types import InputError, RandomKey, nearest

Model = Literal["boosting", "forest", "lasso", "histogram"]


@dataclass(frozen=True)
class _Column:
    """The importances for one factor, and the predictor's quality in training and test."""

    importance: Float[ndarray, " latent"]
    train: float
    test: float


@dataclass(frozen=True)
class Importance:
    """The importance of latents for factors, and how well the predictors do.

    Attributes:
        matrix: importances, zero where a latent is dead; the columns of trees sum to 1.
        train: accuracy on training items; for lasso and for continuous factors R^2, no less
            than 0.
        test: the same on test items.
        names: the factors that vary.
        estimator: the predictor in a few words.
        model: its name.
    """

    matrix: Float[ndarray, "latent factor"]
    train: Float[ndarray, " factor"]
    test: Float[ndarray, " factor"]
    names: tuple[str, ...]
    estimator: str
    model: Model


def _gains(
    model: HistGradientBoostingClassifier | HistGradientBoostingRegressor, latents: int
) -> Float[ndarray, " latent"]:
    """Total gain of the splits on each latent: the importance that scikit-learn leaves out."""
    total = np.zeros(latents)
    for stage in model._predictors:
        for tree in stage:
            inner = tree.nodes[tree.nodes["is_leaf"] == 0]
            np.add.at(total, inner["feature_idx"], inner["gain"])
    return total / total.sum() if total.sum() > 0 else total


def _trees(name: Model, continuous: bool, seed: int):
    """The tree ensemble of a name, for levels or for values."""
    if name == "boosting":
        kind = GradientBoostingRegressor if continuous else GradientBoostingClassifier
        return kind(random_state=seed)
    if name == "forest":
        if continuous:
            return RandomForestRegressor(100, max_depth=10, random_state=seed)
        return RandomForestClassifier(100, criterion="entropy", max_depth=10, random_state=seed)
    kind = HistGradientBoostingRegressor if continuous else HistGradientBoostingClassifier
    return kind(max_iter=20, max_leaf_nodes=8, learning_rate=0.3, random_state=seed)


def _tree_column(name: Model, train: Sample, test: Sample, factor: int, seed: int) -> _Column:
    continuous = train.declared[factor] is None
    targets = [
        part.values[:, factor] if continuous else part.levels[:, factor] for part in (train, test)
    ]
    column = np.zeros(len(train.live))
    if len(np.unique(targets[0])) < 2:
        return _Column(column, 1.0, float(np.mean(targets[1] == targets[0][0])))
    inputs = [part.codes[:, train.live] for part in (train, test)]
    # One core a factor: threads inside histogram boosting would compete with the other factors.
    with threadpool_limits(1, "openmp"):
        model = _trees(name, continuous, seed).fit(inputs[0], targets[0])
    importance = (
        _gains(model, inputs[0].shape[1])
        if isinstance(model, HistGradientBoostingClassifier | HistGradientBoostingRegressor)
        else model.feature_importances_
    )
    column[train.live] = np.abs(importance)
    guesses = [np.asarray(model.predict(x)) for x in inputs]
    first, second = (
        explained(y[:, None], guess[:, None]) if continuous else float(np.mean(y == guess))
        for y, guess in zip(targets, guesses, strict=True)
    )
    return _Column(column, first, second)


def _lasso_column(train: Sample, test: Sample, factor: int, alpha: float) -> _Column:
    """Absolute coefficients of a lasso on standardized codes, over standardized columns."""
    center, spread = train.codes.mean(0), train.codes.std(0)
    # A latent may vary among the test items alone: then training makes nothing of it.
    seen = train.live & (spread > 0)
    live = [(part.codes - center)[:, seen] / spread[seen] for part in (train, test)]
    raw = [part.columns(factor) for part in (train, test)]
    kept = raw[0].std(0) > 0
    targets = [(c[:, kept] - raw[0][:, kept].mean(0)) / raw[0][:, kept].std(0) for c in raw]
    column = np.zeros(len(train.live))
    if not kept.any():
        return _Column(column, 0.0, 0.0)
    items = len(live[0])
    gram, moment = live[0].T @ live[0] / items, live[0].T @ targets[0] / items
    weights = lasso_weights(gram, moment, alpha)
    column[seen] = np.abs(weights).sum(1)
    first, second = (explained(y, x @ weights) for x, y in zip(live, targets, strict=True))
    return _Column(column, first, second)


def _columns(
    model: Model, train: Sample, test: Sample, alpha: float, seeds: Int[ndarray, " factor"]
) -> list[_Column]:
    order = np.argsort(train.sizes)[::-1]

    def column(factor: int) -> _Column:
        if model == "lasso":
            return _lasso_column(train, test, factor, alpha)
        return _tree_column(model, train, test, factor, int(seeds[factor]))

    # Trees release the interpreter lock while they grow, so threads share the codes for free;
    # the factors with most levels, which take longest, go first.
    done = list(
        Parallel(n_jobs=cpu_count(), prefer="threads")(delayed(column)(int(k)) for k in order)
    )
    return [done[i] for i in np.argsort(order)]


def importance(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    model: Model = "boosting",
    parts: Split | None = None,
    alpha: float = 0.02,
) -> Importance:
    """Returns the importance of every latent for a predictor of every factor.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws the training and test items, and seeds the trees.
        model: `boosting` (scikit-learn's gradient boosting with default settings, as the reference
            implementation), `forest` (100 trees of depth 10 by entropy, far faster), `histogram`
            (20 rounds of histogram boosting, importance by total gain) or `lasso` (absolute
            coefficients on standardized codes, linear).
        parts: training and test rows to use in place of a random split.
        alpha: the lasso's penalty.
    """
    if alpha <= 0:
        raise InputError(f"the lasso's penalty must be positive, but got {alpha}")
    if model not in get_args(Model):
        raise nearest("DCI model", model, get_args(Model))
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key)
    train, test = data.rows(rows.train), data.rows(rows.test)
    seeds = generator(key).integers(2**31, size=len(data.names))
    if train.live.any():
        done = _columns(model, train, test, alpha, seeds)
    else:
        zero = np.zeros(len(data.live))
        done = [
            _Column(zero, *_constant_quality(model, train, test, k)) for k in range(len(data.names))
        ]
    return Importance(
        np.stack([column.importance for column in done], 1),
        np.array([column.train for column in done]),
        np.array([column.test for column in done]),
        data.names,
        {
            "boosting": "gradient-boosted trees",
            "forest": "random forest, 100 trees of depth 10",
            "histogram": "histogram gradient boosting, 20 rounds",
            "lasso": f"lasso, alpha = {alpha}",
        }[model],
        model,
    )


def _constant_quality(
    model: Model, train: Sample, test: Sample, factor: int
) -> tuple[float, float]:
    """What is left when no latent varies: the most common level, or no variance explained."""
    if train.declared[factor] is None or model == "lasso":
        return 0.0, 0.0
    guess = np.bincount(train.levels[:, factor]).argmax()
    first, second = (float(np.mean(p.levels[:, factor] == guess)) for p in (train, test))
    return first, second
