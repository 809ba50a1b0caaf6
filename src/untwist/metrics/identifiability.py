"""Identifiability: MCC, and R^2 of linear and nonlinear regressions from codes to factors."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, generator, split
from untwist.metrics.record import Score
from untwist.metrics.sample import RawCodes, RawFactors, Sample, sample
from untwist.types import InputError, RandomKey, nearest

Fit = Literal["none", "affine", "componentwise"]
Correlation = Literal["pearson", "spearman"]
Step = Ridge | SplineTransformer | Nystroem
RIDGE = 1e-8
KERNEL_RIDGE = 1e-3
LANDMARKS = 300
KNOTS = 10


def explained(truth: Float[ndarray, "item column"], guess: Float[ndarray, "item column"]) -> float:
    """Returns R^2 over all columns together, no less than 0, and 0 for a constant truth."""
    total = ((truth - truth.mean(0)) ** 2).sum()
    return float(max(0.0, 1 - ((truth - guess) ** 2).sum() / total)) if total > 0 else 0.0


def _multiple_correlation(
    column: Float[ndarray, " item"], targets: Float[ndarray, "item column"]
) -> float:
    """Correlation of a code with its best linear combination of a factor's columns."""
    centered, basis = column - column.mean(), targets - targets.mean(0)
    if targets.shape[1] == 1:
        scale = np.sqrt((centered**2).sum() * (basis**2).sum())
        return float(abs(centered @ basis[:, 0]) / scale) if scale > 0 else 0.0
    weights = np.linalg.lstsq(basis, centered, rcond=None)[0]
    shared = ((basis @ weights) ** 2).sum() / max((centered**2).sum(), np.finfo(float).tiny)
    return float(np.sqrt(min(shared, 1.0)))


def _plain(data: Sample, correlation: Correlation) -> Float[ndarray, "latent factor"]:
    matrix = np.zeros((len(data.live), len(data.names)))
    codes = rankdata(data.codes, axis=0) if correlation == "spearman" else data.codes
    for factor in range(len(data.names)):
        targets = data.columns(factor)
        if correlation == "spearman" and targets.shape[1] == 1:
            targets = rankdata(targets, axis=0)
        for latent in np.flatnonzero(data.live):
            matrix[latent, factor] = _multiple_correlation(codes[:, latent], targets)
    return matrix


def _explained_factors(
    data: Sample, rows: Split, latents: Int[ndarray, " chosen"], steps: Sequence[Step]
) -> Float[ndarray, " factor"]:
    """Test R^2 of each factor after a regression on some latents; 0 where there are none."""
    if len(latents) == 0:
        return np.zeros(len(data.names))
    targets = [data.columns(factor) for factor in range(len(data.names))]
    joined, inputs = np.concatenate(targets, 1), data.codes[:, latents]
    model = make_pipeline(StandardScaler(), *steps)
    guess = model.fit(inputs[rows.train], joined[rows.train]).predict(inputs[rows.test])
    truth, guess = joined[rows.test], guess.reshape(len(rows.test), -1)
    edges = np.cumsum([0] + [target.shape[1] for target in targets])
    return np.array(
        [
            explained(truth[:, low:high], guess[:, low:high])
            for low, high in zip(edges[:-1], edges[1:], strict=True)
        ]
    )


def _fitted(data: Sample, rows: Split, fit: Fit) -> Float[ndarray, "latent factor"]:
    """Test correlations (the root of R^2) after a fit on the training items.

    Affine: all latents together, so every latent's row is the same. Componentwise: a cubic spline
    of each latent alone.
    """
    matrix = np.zeros((len(data.live), len(data.names)))
    live = np.flatnonzero(data.live)
    if fit == "affine":
        matrix[live] = np.sqrt(_explained_factors(data, rows, live, [Ridge(RIDGE)]))
        return matrix
    spline = SplineTransformer(KNOTS, knots="quantile", extrapolation="constant")
    for latent in live:
        found = _explained_factors(data, rows, np.array([latent]), [spline, Ridge(RIDGE)])
        matrix[latent] = np.sqrt(found)
    return matrix


def mcc(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey | None = None,
    correlation: Correlation = "pearson",
    fit: Fit = "none",
    parts: Split | None = None,
) -> Score:
    """Returns the mean correlation coefficient of factors with latents matched one to one.

    MCC = (1/F) max over matchings of the sum of |corr(z_match(k), v_k)|. With fewer latents than
    factors the unmatched ones count 0. A categorical factor enters by the correlation ratio, a
    periodic one by the multiple correlation with its cosine and sine.

    Range 0 to 1, higher is better. Invariant to order, sign, shift and scale; with `spearman` to
    monotone rescaling of latents; with `affine` to every invertible affine mixing of them; with
    `componentwise` nearly to every smooth invertible map of each.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws training and test items; needed with a fit.
        correlation: `pearson` or `spearman` (of ranks).
        fit: `none`; `affine`, from all latents to each factor, which asks for identifiability up
            to an affine map; `componentwise`, a spline from each latent to each factor. Fitted
            correlations are roots of R^2 on test items.
        parts: rows to use in place of a random split.

    Returns:
        The mean; its matrix holds the correlations, `parts["match"]` the latent of each factor,
        or -1.

    Reference: Hyvarinen and Morioka 2016; Khemakhem et al. 2020 for the fits.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = space.factors(np.arange(4))
    >>> round(mcc(-1.0 * factors[:, ::-1], factors, space).value, 9)
    1.0
    """
    if correlation not in get_args(Correlation):
        raise nearest("correlation", correlation, get_args(Correlation))
    if fit not in get_args(Fit):
        raise nearest("fit", fit, get_args(Fit))
    data = sample(codes, factors, space)
    if fit == "none":
        matrix = _plain(data, correlation)
    else:
        matrix = _fitted(data, _rows(data, parts, key), fit)
    match = np.full(len(data.names), -1)
    per_factor = np.zeros(len(data.names))
    if fit == "affine":
        per_factor = matrix.max(0)
    else:
        latents, found = linear_sum_assignment(matrix, maximize=True)
        match[found], per_factor[found] = latents, matrix[latents, found]
    return Score(
        float(per_factor.mean()),
        f"{correlation} correlation" if fit == "none" else f"{fit} fit",
        {"correlation": correlation, "fit": fit},
        data.names,
        matrix,
        per_factor,
        parts={"match": match},
    )


def _rows(data: Sample, parts: Split | None, key: RandomKey | None) -> Split:
    if parts is not None:
        parts.check(len(data.codes))
        return parts
    if key is None:
        raise InputError("a fit draws training and test items: pass a key, or the parts")
    return split(len(data.codes), None, key=key)


def _regression_score(data: Sample, rows: Split, steps: Sequence[Step], name: str) -> Score:
    per_factor = _explained_factors(data, rows, np.flatnonzero(data.live), steps)
    return Score(float(per_factor.mean()), name, {}, data.names, per_factor=per_factor)


def linear_r2(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    parts: Split | None = None,
) -> Score:
    """Returns the mean test R^2 of a linear regression from all latents to each factor.

    Factors enter as the columns that linear methods see (see `Sample.columns`); a negative R^2
    counts 0.

    Range 0 to 1, higher is better. Invariant to every invertible affine map of the codes.

    Reference: Roeder et al. 2021, On Linear Identifiability of Learned Representations.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> mixed = factors @ np.array([[1.0, 1.0], [1.0, -1.0]])
    >>> round(linear_r2(mixed, factors, space, key=jax.random.key(0)).value, 6)
    1.0
    """
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key)
    return _regression_score(data, rows, [Ridge(RIDGE)], "linear regression")


def nonlinear_r2(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    parts: Split | None = None,
) -> Score:
    """Returns the mean test R^2 of a kernel regression from all latents to each factor.

    Ridge regression on 300 Nystroem features of a Gaussian kernel over standardized codes, of
    width the root of the number of latents. Arguments as in `linear_r2`.

    Range 0 to 1, higher is better. Invariant to order, sign, shift and scale of latents.

    Reference: Zimmermann et al. 2021, Contrastive Learning Inverts the Data Generating Process.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> round(nonlinear_r2(factors * 1.0, factors, space, key=jax.random.key(0)).value, 2)
    1.0
    """
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key)
    seed = int(generator(key).integers(2**31))
    width = 1 / (2 * max(1, int(data.live.sum())))
    count = min(LANDMARKS, len(rows.train))
    steps = [Nystroem(gamma=width, n_components=count, random_state=seed), Ridge(KERNEL_RIDGE)]
    return _regression_score(data, rows, steps, f"kernel ridge regression, {count} landmarks")
