"""Information against independent transcriptions of its definitions, on planted cases."""

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from planted import CASES, SPACE, binned, live
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score

from untwist.factors import FactorSpace
from untwist.metrics import (
    Neighbors,
    Posterior,
    Split,
    dcimig,
    infoc,
    infoe,
    infom,
    jemmig,
    mig,
    mig_sup,
    modularity,
    rmig,
)

KEY = jax.random.key(0)
PARTS = Split(np.arange(600), np.arange(600, 900))
everywhere = pytest.mark.parametrize("name", sorted(CASES))


def histogram_information(codes, factors):
    return np.array([[mutual_info_score(v, binned(z)) for v in factors.T] for z in codes.T])


def entropies(columns):
    return np.array([mutual_info_score(column, column) for column in columns])


@everywhere
def test_gaps_agree_with_plug_in_information(name):
    codes, factors = CASES[name]
    matrix = histogram_information(codes, factors)
    entropy = entropies(factors.T)
    ordered = np.sort(matrix, 0)[::-1]
    assert mig(codes, factors, SPACE).value == pytest.approx(
        np.mean((ordered[0] - ordered[1]) / entropy), abs=1e-9
    )
    assert rmig(codes, factors, SPACE).value == pytest.approx(
        np.mean(ordered[0] - ordered[1]), abs=1e-9
    )
    latent_entropy = entropies([binned(z) for z in codes.T])
    # The redundant case ties for first; there the latent of least entropy counts.
    tied = matrix > ordered[0] - 1e-9
    best = np.where(tied, latent_entropy[:, None], np.inf).argmin(0)
    joint = latent_entropy[best] + entropy - ordered[0]
    assert jemmig(codes, factors, SPACE).value == pytest.approx(
        np.mean(joint - ordered[0] + ordered[1]), abs=1e-9
    )
    normalized = np.sort(matrix / entropy, 1)[:, ::-1]
    gaps = normalized[:, 0] - normalized[:, 1]
    assert mig_sup(codes, factors, SPACE).value == pytest.approx(gaps[live(codes)].mean(), abs=1e-9)
    raw = np.sort(matrix, 1)[:, ::-1]
    credit = np.zeros(3)
    for latent, factor in enumerate(matrix.argmax(1)):
        credit[factor] = max(credit[factor], raw[latent, 0] - raw[latent, 1])
    assert dcimig(codes, factors, SPACE).value == pytest.approx(
        credit.sum() / entropy.sum(), abs=1e-9
    )


@everywhere
def test_modularity_agrees_with_the_formula_and_the_reference_averages_dead_latents(name):
    codes, factors = CASES[name]
    squares = histogram_information(codes, factors) ** 2
    best = squares.max(1)
    with np.errstate(invalid="ignore"):
        scores = np.nan_to_num(1 - (squares.sum(1) - best) / (best * 2))
    assert modularity(codes, factors, SPACE).value == pytest.approx(
        scores[live(codes)].mean(), abs=1e-9
    )
    assert modularity(codes, factors, SPACE, reference=True).value == pytest.approx(
        scores.mean(), abs=1e-9
    )


@everywhere
@pytest.mark.parametrize("k", [3, 10])
def test_neighbor_information_agrees_with_scikit_learn(name, k):
    codes, factors = CASES[name]
    found = mig(codes, factors, SPACE, estimator=Neighbors(k)).matrix
    kept = live(codes)
    expected = np.stack(
        [mutual_info_classif(codes, v, n_neighbors=k, random_state=0) for v in factors.T], 1
    )
    np.testing.assert_allclose(found[kept], expected[kept], atol=1e-9)
    assert (found[~kept] == 0).all()


def test_continuous_neighbor_information_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((500, 2))
    codes = factors @ [[1.0, 0.5], [0.0, 1.0]] + 0.1 * rng.standard_normal((500, 2))
    space = FactorSpace(("a", "b"), (None, None), ("continuous", "continuous"))
    found = mig(codes, factors, space, estimator=Neighbors(3)).matrix
    expected = np.stack(
        [mutual_info_regression(codes, v, n_neighbors=3, random_state=0) for v in factors.T], 1
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


@everywhere
def test_infomec_agrees_with_its_definition(name):
    codes, factors = CASES[name]
    matrix = np.stack(
        [mutual_info_classif(codes, v, n_neighbors=10, random_state=0) for v in factors.T], 1
    )
    normalized = (matrix / entropies(factors.T))[live(codes)]
    count = len(normalized)
    # A latent without any information is 0/0 in the original, and even by our decision.
    with np.errstate(invalid="ignore"):
        by_latent = np.nan_to_num(normalized.max(1) / normalized.sum(1), nan=1 / 3)
        by_factor = np.nan_to_num(normalized.max(0) / normalized.sum(0), nan=1 / count)
    assert infom(codes, factors, SPACE).value == pytest.approx(
        (by_latent.mean() - 1 / 3) / (2 / 3), abs=1e-6
    )
    assert infoc(codes, factors, SPACE).value == pytest.approx(
        (by_factor.mean() - 1 / count) / (1 - 1 / count), abs=1e-6
    )


def test_infoe_agrees_with_a_balanced_unpenalized_regression():
    codes, factors = CASES["noisy"]
    standard = (codes - codes.mean(0)) / codes.std(0)
    expected = []
    for column in factors.T:
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=1000)
        model.fit(standard, column)
        chance = model.predict_proba(standard)[np.arange(len(column)), column]
        expected.append(1 + np.log(chance).mean() / np.log(len(model.classes_)))
    assert infoe(codes, factors, SPACE).value == pytest.approx(np.mean(expected), abs=1e-3)


def test_posterior_information_agrees_with_numerical_integration():
    rng = np.random.default_rng(0)
    factors = np.repeat(np.arange(2), 500)[:, None]
    means = 2.0 * (2 * factors - 1) + 0.2 * rng.standard_normal((1000, 1))
    spread = np.full_like(means, 1.5)
    space = FactorSpace(("side",), (2,), ("categorical",))
    grid = np.linspace(-12, 12, 2001)
    density = scipy.stats.norm.pdf(grid[:, None], means[:, 0], np.sqrt(1.5))
    sides = np.stack([density[:, :500].mean(1), density[:, 500:].mean(1)])
    expected = scipy.integrate.trapezoid(0.5 * (sides * np.log(sides / sides.mean(0))).sum(0), grid)
    estimator = Posterior(spread, KEY, draws=1000)
    found = mig(means, factors, space, estimator=estimator).matrix[0, 0]
    assert found == pytest.approx(expected, abs=0.03)
