"""Every estimator against an independent transcription of its definition, on planted cases."""

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from planted import CASES, GRID, SIZES, SPACE, binned, items, live, standardized
from scipy.optimize import linear_sum_assignment
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.metrics import mutual_info_score, r2_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC

from untwist.factors import FactorSpace
from untwist.metrics import (
    Importance,
    Split,
    beta_vae_score,
    dci_completeness,
    dci_disentanglement,
    dci_informativeness,
    downstream,
    explicitness,
    factor_vae_score,
    factorized_support,
    gaussian_total_correlation,
    importance,
    irs,
    linear_r2,
    mcc,
    mean_mutual_information,
    neighbor_score,
    sap,
    udr,
    wasserstein_correlation,
)

KEY = jax.random.key(0)
PARTS = Split(np.arange(600), np.arange(600, 900))
everywhere = pytest.mark.parametrize("name", sorted(CASES))


@everywhere
def test_sap_agrees_with_linear_svc_at_its_optimum(name):
    codes, factors = CASES[name]
    found = sap(codes, factors, SPACE, key=KEY, parts=PARTS)
    for latent in np.flatnonzero(live(codes)):
        column = codes[:, [latent]]
        for factor in range(3):
            model = LinearSVC(C=0.01, class_weight="balanced", tol=1e-10, max_iter=100000)
            model.fit(column[PARTS.train], factors[PARTS.train, factor])
            right = model.predict(column[PARTS.test]) == factors[PARTS.test, factor]
            assert found.matrix[latent, factor] == pytest.approx(right.mean(), abs=1e-9)
    ordered = np.sort(found.matrix, 0)
    assert found.value == pytest.approx((ordered[-1] - ordered[-2]).mean())
    exact = sap(codes, factors, SPACE, key=KEY, parts=PARTS, reference=True)
    np.testing.assert_allclose(exact.matrix[live(codes)], found.matrix[live(codes)], atol=0.01)


@everywhere
def test_continuous_sap_is_the_gap_of_squared_correlations(name):
    codes, factors = CASES[name]
    matrix = np.zeros((codes.shape[1], 3))
    for latent in np.flatnonzero(live(codes)):
        for factor in range(3):
            matrix[latent, factor] = np.corrcoef(codes[:, latent], factors[:, factor])[0, 1] ** 2
    ordered = np.sort(matrix, 0)
    assert sap(codes, factors, SPACE, key=KEY, continuous=True).value == pytest.approx(
        (ordered[-1] - ordered[-2]).mean(), abs=1e-9
    )


@pytest.mark.parametrize("name", ["aligned", "rotated_30", "noisy", "dead", "independent"])
def test_explicitness_agrees_with_logistic_regression(name):
    codes, factors = CASES[name]
    train, test = PARTS.train, PARTS.test
    spread = codes[train].std(0)
    standard = (codes - codes[train].mean(0)) / np.where(live(codes), spread, 1.0)
    areas = []
    for factor, size in enumerate(SIZES):
        model = LogisticRegression(max_iter=1000).fit(standard[train], factors[train, factor])
        truth = np.eye(size)[factors[test, factor]]
        areas.append(roc_auc_score(truth, model.predict_proba(standard[test])))
    found = explicitness(codes, factors, SPACE, key=KEY, parts=PARTS)
    assert found.value == pytest.approx(np.mean(areas), abs=2e-3)


def test_reference_explicitness_cannot_single_out_middle_levels():
    codes, factors = CASES["aligned"]
    assert explicitness(codes, factors, SPACE, key=KEY).value == pytest.approx(1, abs=1e-3)
    assert explicitness(codes, factors, SPACE, key=KEY, reference=True).value < 0.995


@pytest.mark.parametrize("name", ["aligned", "rotated_45", "dead"])
def test_dci_agrees_with_gradient_boosting_and_scipy_entropy(name):
    codes, factors = (values[:240] for values in CASES[name])
    parts = Split(np.arange(160), np.arange(160, 240))
    found = importance(codes, factors, SPACE, key=KEY, parts=parts)
    columns, right = [], []
    for column in factors.T:
        model = GradientBoostingClassifier(random_state=0).fit(codes[:160], column[:160])
        columns.append(model.feature_importances_)
        right.append((model.predict(codes[160:]) == column[160:]).mean())
    expected = np.stack(columns, 1)
    np.testing.assert_allclose(found.matrix, expected, atol=0.02)
    assert dci_informativeness(found).value == pytest.approx(np.mean(right), abs=0.03)
    by_latent = 1 - scipy.stats.entropy(found.matrix.T + 1e-11, base=3)
    by_factor = 1 - scipy.stats.entropy(found.matrix + 1e-11, base=len(found.matrix))
    mass = found.matrix / found.matrix.sum()
    assert dci_disentanglement(found).value == pytest.approx(
        (by_latent * mass.sum(1)).sum(), abs=1e-6
    )
    assert dci_completeness(found).value == pytest.approx((by_factor * mass.sum(0)).sum(), abs=1e-6)


def test_completeness_weighs_factors_by_their_importance():
    matrix = np.array([[3.0, 0.5], [0.0, 0.5]])
    given = Importance(matrix, np.ones(2), np.ones(2), ("a", "b"), "by hand", "boosting")
    assert dci_completeness(given).value == pytest.approx(0.75)


@pytest.mark.parametrize("model", ["histogram", "forest", "lasso"])
@pytest.mark.parametrize("name", ["aligned", "rotated_45", "more"])
def test_other_importances_agree_with_boosting_in_kind(name, model):
    codes, factors = (values[:450] for values in CASES[name])
    found = importance(codes, factors, SPACE, key=KEY, model=model)
    value = dci_disentanglement(found).value
    low, high = {"aligned": (0.4, 1), "rotated_45": (0.1, 0.75), "more": (0.4, 1)}[name]
    assert low <= value <= high


@everywhere
def test_neighbor_score_agrees_with_scikit_learn_as_printed_and_corrected(name):
    codes, factors = CASES[name]
    space = FactorSpace(("a", "b", "c"), SIZES, ("ordinal", "ordinal", "categorical"))
    train, test = PARTS.train, PARTS.test
    matrix = np.zeros((codes.shape[1], 3))
    constant = (factors[test, 2] == np.bincount(factors[train, 2]).argmax()).mean()
    scale = np.append(factors[test, :2].std(0), constant)
    matrix[:, 2] = constant
    for latent in np.flatnonzero(live(codes)):
        column = codes[:, [latent]]
        for factor in range(2):
            model = KNeighborsRegressor(5).fit(column[train], factors[train, factor])
            error = model.predict(column[test]) - factors[test, factor]
            matrix[latent, factor] = scale[factor] - np.sqrt((error**2).mean())
        model = KNeighborsClassifier(5).fit(column[train], factors[train, 2])
        matrix[latent, 2] = (model.predict(column[test]) == factors[test, 2]).mean()
    dead = ~live(codes)
    guess = factors[train, :2].mean(0) - factors[test, :2]
    matrix[dead, :2] = scale[:2] - np.sqrt((guess**2).mean(0))
    ordered = np.sort(matrix, 0)
    printed = neighbor_score(codes, factors, space, key=KEY, parts=PARTS, reference=True)
    assert printed.value == pytest.approx(((ordered[-1] - ordered[-2]) / scale).mean(), abs=1e-9)
    floor = np.sort(np.maximum(matrix, [0, 0, constant]), 0)
    scale[2] = 1 - constant
    found = neighbor_score(codes, factors, space, key=KEY, parts=PARTS)
    assert found.value == pytest.approx(((floor[-1] - floor[-2]) / scale).mean(), abs=1e-9)


def slow_interventions(encode, width, count, paired, rng):
    """The interventional batches of the definitions, one at a time."""
    for _ in range(count):
        held = rng.integers(3)
        first = rng.integers(0, SIZES, size=(width, 3))
        if paired:
            second = rng.integers(0, SIZES, size=(width, 3))
            second[:, held] = first[:, held]
            yield held, np.abs(encode(first) - encode(second)).mean(0)
        else:
            first[:, held] = first[0, held]
            yield held, encode(first).var(0, ddof=1)


MIXINGS = {
    "aligned": np.eye(3),
    "noisy": np.array([[1.0, 0.8, 0.5], [0.7, 1.0, 0.6], [0.6, 0.7, 1.0]]),
    "dead": np.diag([1.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", sorted(MIXINGS))
def test_interventional_scores_agree_with_loops_within_sampling_error(name):
    def encode(factors):
        return standardized(factors) @ MIXINGS[name]

    table = encode(GRID)

    def sampler(index):
        return table[index]

    rng = np.random.default_rng(0)
    sizes = {"train": 800, "test": 1500, "batch": 4}
    spread = table.var(0)
    kept = np.flatnonzero(spread > 0)
    votes = np.zeros((2, 3, 3))
    for part, count in enumerate((800, 1500)):
        for held, local in slow_interventions(encode, 4, count, False, rng):
            votes[part, kept[(local[kept] / spread[kept]).argmin()], held] += 1
    expected = votes[1][np.arange(3), votes[0].argmax(1)].sum() / 1500
    found = factor_vae_score(sampler, SPACE, key=KEY, **sizes).value
    assert found == pytest.approx(expected, abs=0.06)
    examples = [list(slow_interventions(encode, 4, n, True, rng)) for n in (800, 1500)]
    labels, features = (
        [np.array(column) for column in zip(*part, strict=True)] for part in examples
    )
    model = LogisticRegression(max_iter=1000).fit(labels[1], labels[0])
    expected = model.score(features[1], features[0])
    found = beta_vae_score(sampler, SPACE, key=KEY, **sizes).value
    assert found == pytest.approx(expected, abs=0.06)


@everywhere
@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_irs_agrees_with_its_definition(name, quantile):
    codes, factors = CASES[name]
    codes = codes[:, live(codes)]
    largest = np.abs(codes - codes.mean(0)).max(0)
    matrix = np.zeros((codes.shape[1], 3))
    for factor in range(3):
        groups = [codes[factors[:, factor] == level] for level in range(SIZES[factor])]
        gaps = [np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups]
        matrix[:, factor] = 1 - np.mean(gaps, 0) / largest
    expected = np.average(matrix.max(1), weights=largest)
    assert irs(*CASES[name], SPACE, quantile=quantile).value == pytest.approx(expected, abs=1e-9)


def test_reference_irs_merges_levels_beyond_twenty_bins():
    space = FactorSpace(("many", "few"), (40, 2), ("ordinal", "ordinal"))
    factors = np.asarray(space.factors(np.arange(80)))
    codes = factors.astype(float)
    assert irs(codes, factors, space, quantile=1.0).value == pytest.approx(1)
    assert irs(codes, factors, space, quantile=1.0, reference=True).value < 1


@everywhere
@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
def test_mcc_agrees_with_scipy(name, correlation):
    codes, factors = CASES[name]
    function = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[correlation]
    matrix = np.zeros((codes.shape[1], 3))
    for latent in np.flatnonzero(live(codes)):
        for factor in range(3):
            matrix[latent, factor] = abs(function(codes[:, latent], factors[:, factor])[0])
    rows, columns = linear_sum_assignment(-matrix)
    found = mcc(codes, factors, SPACE, correlation=correlation)
    assert found.value == pytest.approx(matrix[rows, columns].sum() / 3, abs=1e-9)


@everywhere
def test_linear_r2_agrees_with_linear_regression(name):
    codes, factors = CASES[name]
    train, test = PARTS.train, PARTS.test
    model = LinearRegression().fit(codes[train], factors[train])
    scores = r2_score(factors[test], model.predict(codes[test]), multioutput="raw_values")
    found = linear_r2(codes, factors, SPACE, key=KEY, parts=PARTS)
    assert found.value == pytest.approx(np.maximum(scores, 0).mean(), abs=1e-6)


@everywhere
def test_unsupervised_scores_agree_with_scipy(name):
    codes, _ = CASES[name]
    kept = codes[:, live(codes)]
    covariance = np.cov(kept.T)
    expected = 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1])
    assert gaussian_total_correlation(codes).value == pytest.approx(expected, abs=1e-9)
    full = np.cov(codes.T)
    root = np.real(scipy.linalg.sqrtm(covariance * np.diag(covariance)[:, None]))
    expected = 2 * np.trace(covariance) - 2 * np.trace(root)
    found = wasserstein_correlation(codes)
    assert found.value == pytest.approx(expected, abs=1e-6 * np.trace(full))
    count = codes.shape[1]
    cut = [binned(column) for column in codes.T]
    total = sum(
        mutual_info_score(cut[i], cut[j]) for i in range(count) for j in range(count) if i != j
    )
    assert mean_mutual_information(codes).value == pytest.approx(
        total / (count**2 - count), abs=1e-9
    )


@pytest.mark.parametrize("relation", ["lasso", "spearman"])
def test_udr_agrees_with_scikit_learn_and_scipy(relation):
    rng = np.random.default_rng(0)
    base, _ = CASES["aligned"]
    members = np.stack(
        [base, base[:, ::-1] * -3, base @ np.linalg.qr(rng.standard_normal((3, 3)))[0]]
    )
    kl = np.array([[1.0, 1.0, 1.0], [1.0, 0.005, 1.0], [1.0, 1.0, 1.0]])
    standard = [(m - m.mean(0)) / m.std(0) * (k > 0.01) for m, k in zip(members, kl, strict=True)]
    strength = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            if relation == "lasso":
                matrix = np.abs(Lasso(alpha=0.1, tol=1e-10).fit(standard[i], standard[j]).coef_.T)
            else:
                both = np.concatenate([members[i], members[j]], 1)
                matrix = np.abs(scipy.stats.spearmanr(both)[0][:3, 3:])
            matrix = matrix[kl[i] > 0.01][:, kl[j] > 0.01]
            with np.errstate(invalid="ignore"):
                shares = [np.nan_to_num(matrix.max(a) ** 2 / matrix.sum(a)) for a in (0, 1)]
            strength[i, j] = np.mean([share.mean() for share in shares])
    expected = [np.median(np.delete(strength[:, j], j)) for j in range(3)]
    found = [score.value for score in udr(members, relation=relation, kl=kl)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_factorized_support_agrees_with_brute_force():
    codes = np.random.default_rng(0).standard_normal((40, 3)) @ np.triu(np.ones((3, 3)))
    scaled = (codes - codes.min(0)) / np.ptp(codes, axis=0)
    expected, squared = [], 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for which in (scaled, codes):
            corners = np.array([[a, b] for a in which[:, i] for b in which[:, j]])
            gaps = np.linalg.norm(corners[:, None] - which[None, :, [i, j]], axis=2)
            farthest = gaps.min(1).max()
            if which is scaled:
                expected.append(farthest)
            else:
                squared += farthest**2
    assert factorized_support(codes).value == pytest.approx(np.mean(expected))
    assert factorized_support(codes, reference=True).value == pytest.approx(squared)


def test_downstream_learners_agree_on_easy_codes():
    factors = items(300)
    codes = np.eye(5)[factors[:, 0]] + 0.01 * np.random.default_rng(0).standard_normal((300, 5))
    space = FactorSpace(("a",), (5,), ("categorical",))
    for learner in ("softmax", "logistic_cv", "boosting"):
        found = downstream(codes, factors[:, :1], space, key=KEY, sizes=(60,), learner=learner)
        assert found.value == pytest.approx(1, abs=0.03)
    found = downstream(codes, factors[:, :1], space, key=KEY, sizes=(30, 60, 9999))
    assert found.parts["sizes"].tolist() == [30, 60, 200]
