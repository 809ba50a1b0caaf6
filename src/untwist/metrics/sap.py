"""SAP: the separated attribute predictability score."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sklearn.svm import LinearSVC

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, split
from untwist.metrics.gaps import top_two
from untwist.metrics.line_svm import line_accuracy
from untwist.metrics.record import Score
from untwist.metrics.sample import RawCodes, RawFactors, Sample, sample
from untwist.types import RandomKey

PENALTY = 0.01
REFERENCE_VARIANCE = 1e-12


def _majority(train: Sample, test: Sample) -> Float[ndarray, " factor"]:
    """Test accuracy of always saying the most common training level."""
    shares = np.zeros(len(train.names))
    for factor, column in enumerate(train.levels.T):
        guess = int(np.bincount(column).argmax())
        shares[factor] = np.mean(test.levels[:, factor] == guess)
    return shares


def _library_accuracy(train: Sample, test: Sample) -> Float[ndarray, "latent factor"]:
    """Test accuracy by scikit-learn's own solver, for exact comparison."""
    matrix = np.tile(_majority(train, test), (len(train.live), 1))
    for latent, factor in np.ndindex(*matrix.shape):
        if len(np.unique(train.levels[:, factor])) < 2:
            continue
        model = LinearSVC(C=PENALTY, class_weight="balanced")
        model.fit(train.codes[:, [latent]], train.levels[:, factor])
        predicted = model.predict(test.codes[:, [latent]])
        matrix[latent, factor] = np.mean(predicted == test.levels[:, factor])
    return matrix


def _accuracy(train: Sample, test: Sample) -> Float[ndarray, "latent factor"]:
    matrix = np.tile(_majority(train, test), (len(train.live), 1))
    for latent in np.flatnonzero(train.live):
        matrix[latent] = line_accuracy(
            train.codes[:, latent],
            train.levels,
            test.codes[:, latent],
            test.levels,
            train.sizes,
            PENALTY,
        )
    return matrix


def squared_correlation(
    data: Sample, *, least_variance: float = 0.0
) -> Float[ndarray, "latent factor"]:
    """Returns the squared correlation of each latent with each factor's values; 0 where dead."""
    codes = data.codes - data.codes.mean(0)
    values = data.values - data.values.mean(0)
    scale = np.sqrt(np.multiply.outer((codes**2).sum(0), (values**2).sum(0)))
    covariance = codes.T @ values
    matrix = np.zeros_like(covariance)
    kept = data.live & (data.codes.var(0, ddof=1) > least_variance)
    matrix[kept] = (covariance[kept] / scale[kept]) ** 2
    return matrix


def sap(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    continuous: bool = False,
    parts: Split | None = None,
    reference: bool = False,
) -> Score:
    """Returns the mean gap of the two latents that predict each factor best.

    SAP = mean over factors k of S_first,k - S_second,k. For discrete factors S_jk is the test
    accuracy of a linear support vector machine (C = 0.01, balanced classes, one against rest) on
    latent j alone; for continuous factors, or all if `continuous`, the squared correlation.

    Range 0 to 1, higher is better. Invariant to order, sign and relabeling; the discrete form
    depends on the scale of the codes through its penalty.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws the training and test items.
        continuous: use the squared correlation for every factor; it needs no split.
        parts: training and test rows to use in place of a random split.
        reference: fit by scikit-learn at its default tolerance, dead latents included, as the
            reference implementation does; by default at the exact optimum of the same problem,
            where a dead latent scores as the most common level. For continuous factors, count
            latents of a variance up to 1e-12 as dead, whatever their range.

    Returns:
        The gap; its matrix holds S.

    Reference: Kumar et al. 2018, Variational Inference of Disentangled Latent Concepts from
    Unlabeled Observations, section 3.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> round(sap(factors * 1.0, factors, space, key=jax.random.key(0), continuous=True).value, 9)
    1.0
    """
    data = sample(codes, factors, space)
    real = np.array([continuous or size is None for size in data.declared])
    matrix = squared_correlation(data, least_variance=REFERENCE_VARIANCE if reference else 0.0)
    if not real.all():
        rows = split(len(data.codes), parts, key=key)
        train, test = data.rows(rows.train), data.rows(rows.test)
        accuracy = _library_accuracy(train, test) if reference else _accuracy(train, test)
        matrix[:, ~real] = accuracy[:, ~real]
    first, second = top_two(matrix, axis=0)
    if len(matrix) == 1 and not real.all():
        second = np.where(real, 0.0, _majority(train, test))
    gaps = first - second
    return Score(
        float(gaps.mean()),
        "squared correlation" if real.all() else "linear support vector machines",
        {"penalty": PENALTY, "continuous": continuous, "reference": reference},
        data.names,
        matrix,
        gaps,
    )
