"""`reference=True` against what the reference implementations compute, and values by hand."""

import jax
import numpy as np
import pytest
import scipy.stats
from planted import CASES, SIZES, SPACE, standardized
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from untwist.factors import FactorSpace
from untwist.metrics import (
    Posterior,
    Split,
    active_units,
    downstream,
    explicitness,
    factor_vae_score,
    irs,
    kl_to_prior,
    linear_r2,
    mcc,
    mig,
    nonlinear_r2,
    reconstruction,
    sap,
    score,
)

KEY = jax.random.key(0)
PARTS = Split(np.arange(600), np.arange(600, 900))
TRAIN, TEST = PARTS.train, PARTS.test
everywhere = pytest.mark.parametrize("name", sorted(CASES))
some = pytest.mark.parametrize("name", ["aligned", "rotated_30", "noisy", "dead", "independent"])


@some
def test_reference_sap_is_the_library_at_its_defaults(name):
    codes, factors = CASES[name]
    matrix = np.zeros((codes.shape[1], 3))
    for latent, factor in np.ndindex(*matrix.shape):
        model = LinearSVC(C=0.01, class_weight="balanced")
        model.fit(codes[TRAIN][:, [latent]], factors[TRAIN, factor])
        matrix[latent, factor] = model.score(codes[TEST][:, [latent]], factors[TEST, factor])
    ordered = np.sort(matrix, axis=0)
    found = sap(codes, factors, SPACE, key=KEY, parts=PARTS, reference=True)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    assert found.value == pytest.approx((ordered[-1] - ordered[-2]).mean(), abs=1e-12)


def test_reference_sap_of_continuous_factors_drops_small_variances():
    codes, factors = CASES["aligned"]
    small = codes * [1e-7, 1.0, 1.0]
    values = {
        reference: sap(small, factors, SPACE, key=KEY, continuous=True, reference=reference).matrix
        for reference in (False, True)
    }
    assert values[False][0, 0] > 0.99
    assert values[True][0].tolist() == [0.0, 0.0, 0.0]
    through = score(
        small, factors, SPACE, ["sap_continuous"], key=KEY, repeats=0, reference=True
    ).value("sap_continuous")
    ordered = np.sort(values[True], axis=0)
    assert through == pytest.approx((ordered[-1] - ordered[-2]).mean())


@some
def test_reference_explicitness_is_one_level_against_the_rest(name):
    codes, factors = CASES[name]
    spread = codes[TRAIN].std(0)
    standard = (codes - codes[TRAIN].mean(0)) / np.where(np.ptp(codes, 0) > 0, spread, np.inf)
    areas = []
    for factor, size in enumerate(SIZES):
        model = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
        model.fit(standard[TRAIN], factors[TRAIN, factor])
        truth = np.eye(size)[factors[TEST, factor]]
        areas.append(roc_auc_score(truth, model.predict_proba(standard[TEST])))
    found = explicitness(codes, factors, SPACE, key=KEY, parts=PARTS, reference=True)
    assert found.value == pytest.approx(np.mean(areas), abs=1e-9)


@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_reference_irs_is_the_definition_on_twenty_bins(quantile):
    space = FactorSpace(("many", "few"), (40, 5), ("ordinal", "ordinal"))
    draw = np.random.default_rng(0)
    factors = np.tile(np.asarray(space.factors(np.arange(200))), (6, 1))
    codes = factors @ draw.standard_normal((2, 3)) + draw.standard_normal((1200, 3))
    binned = [np.digitize(v, np.histogram(v, 20)[1][:-1]) for v in factors.T]
    largest = np.abs(codes - codes.mean(0)).max(0)
    columns = []
    for levels in binned:
        groups = [codes[levels == level] for level in np.unique(levels)]
        gaps = [np.quantile(np.abs(g - g.mean(0)), quantile, axis=0) for g in groups]
        columns.append(1 - np.mean(gaps, axis=0) / largest)
    expected = np.average(np.stack(columns, 1).max(1), weights=largest)
    found = irs(codes, factors, space, quantile=quantile, reference=True)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert abs(found.value - irs(codes, factors, space, quantile=quantile).value) > 1e-3


def test_reference_factor_vae_score_drops_what_moves_little():
    # The informative latents have deviations just under and over 0.05; the third is noise.
    table = standardized(np.asarray(SPACE.factors(np.arange(120)))) * [0.049, 0.051, 1.0]

    def sampler(index):
        return table[index]

    kept = factor_vae_score(sampler, SPACE, key=KEY, train=300, test=200, reference=True)
    assert kept.parts["active"].tolist() == [False, True, True]
    assert kept.value < 0.8
    assert factor_vae_score(sampler, SPACE, key=KEY, train=300, test=200).value == 1.0


def test_posterior_information_belongs_to_its_latent():
    # Latents of unequal number and width: mixing up items and latents would change every entry.
    draw = np.random.default_rng(0)
    factors = np.stack([np.arange(600) % 2, np.arange(600) // 2 % 3], 1)
    means = np.stack([3.0 * factors[:, 0], draw.standard_normal(600), 2.0 * factors[:, 1]], 1)
    variances = np.tile([0.25, 1.0, 0.5], (600, 1)) * draw.uniform(0.8, 1.2, (600, 3))
    space = FactorSpace(("a", "b"), (2, 3), ("categorical", "categorical"))
    found = mig(means, factors, space, estimator=Posterior(variances, KEY, draws=3000)).matrix
    grid = np.linspace(-8, 12, 4001)
    expected = np.zeros((3, 2))
    for latent in range(3):
        density = scipy.stats.norm.pdf(grid[:, None], means[:, latent], variances[:, latent] ** 0.5)
        for factor, size in enumerate((2, 3)):
            sides = np.stack([density[:, factors[:, factor] == v].mean(1) for v in range(size)])
            terms = (sides * np.log(sides / sides.mean(0))).mean(0)
            expected[latent, factor] = scipy.integrate.trapezoid(terms, grid)
    np.testing.assert_allclose(found, expected, atol=0.04)


@everywhere
def test_affine_mcc_is_the_root_of_r2_of_all_latents(name):
    codes, factors = CASES[name]
    model = LinearRegression().fit(codes[TRAIN], factors[TRAIN])
    scores = r2_score(factors[TEST], model.predict(codes[TEST]), multioutput="raw_values")
    found = mcc(codes, factors, SPACE, key=KEY, fit="affine", parts=PARTS)
    np.testing.assert_allclose(found.per_factor, np.sqrt(np.maximum(scores, 0)), atol=1e-6)


def test_componentwise_mcc_undoes_a_smooth_map_of_each_latent_alone():
    draw = np.random.default_rng(0)
    factors = draw.uniform(-1, 1, (900, 2))
    space = FactorSpace(("a", "b"), (None, None), ("continuous", "continuous"))
    bent = np.stack([np.exp(3 * factors[:, 1]), factors[:, 0] ** 3 + 0.1 * factors[:, 0]], 1)
    fitted = mcc(bent, factors, space, key=KEY, fit="componentwise", parts=PARTS)
    assert fitted.value > 0.999
    assert fitted.parts["match"].tolist() == [1, 0]
    assert mcc(bent, factors, space).value < 0.95
    turned = factors @ [[1.0, 1.0], [1.0, -1.0]]  # half the variance of each is explained
    assert mcc(turned, factors, space, key=KEY, fit="componentwise", parts=PARTS).value == (
        pytest.approx(np.sqrt(0.5), abs=0.05)
    )


def test_nonlinear_r2_sees_what_linear_r2_does_not():
    draw = np.random.default_rng(0)
    codes = draw.uniform(-1, 1, (900, 2))
    factors = np.stack([codes[:, 0] * codes[:, 1], np.cos(3 * codes[:, 0])], 1)
    space = FactorSpace(("a", "b"), (None, None), ("continuous", "continuous"))
    assert nonlinear_r2(codes, factors, space, key=KEY, parts=PARTS).value > 0.995
    assert linear_r2(codes, factors, space, key=KEY, parts=PARTS).value < 0.05
    noise = draw.standard_normal((900, 2))
    assert nonlinear_r2(noise, factors, space, key=KEY, parts=PARTS).value < 0.05


def test_downstream_accuracy_is_that_of_the_library():
    codes, factors = CASES["noisy"]
    standard = (codes - codes[TRAIN].mean(0)) / codes[TRAIN].std(0)
    expected = [
        LogisticRegression(max_iter=1000)
        .fit(standard[TRAIN], factors[TRAIN, factor])
        .score(standard[TEST], factors[TEST, factor])
        for factor in range(3)
    ]
    found = downstream(codes, factors, SPACE, key=KEY, parts=PARTS)
    np.testing.assert_allclose(found.per_factor, expected, atol=0.01)


def test_summaries_by_hand():
    means = np.array([[0.0, 1.0], [2.0, 1.0]])
    variances = np.array([[1.0, np.e], [1.0, np.e]])
    found = kl_to_prior(means, variances=variances)
    np.testing.assert_allclose(found.per_latent, [1.0, (np.e - 1) / 2])
    assert found.value == pytest.approx(1.0 + (np.e - 1) / 2)
    assert found.parts["deviation"] == pytest.approx(1.0)
    assert found.parts["total_correlation"] == 0.0
    units = active_units(means * [1.0, 1.0], variances=variances * [0.5, 1.0])
    assert (units.value, units.parts["confident"].tolist()) == (1.0, [True, False])
    losses = reconstruction(np.arange(101.0))
    assert (losses.value, losses.parts["median"], losses.parts["low"]) == (50.0, 50.0, 5.0)


def test_a_diagonal_covariance_is_its_variances():
    codes, factors = CASES["noisy"]
    variances = np.random.default_rng(0).uniform(0.1, 1, codes.shape)
    covariances = variances[:, :, None] * np.eye(3)
    names = ["kl_to_prior", "mig_posterior", "active_units"]
    plain, full = (
        score(codes, factors, SPACE, names, key=KEY, repeats=2, variances=given)
        for given in (variances, covariances)
    )
    for ours, theirs in zip(plain.rows, full.rows, strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-12)
        assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)
