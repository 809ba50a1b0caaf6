"""Each check fails when its formula is wrong; where a paper printed a wrong one, with that one."""

import dataclasses

import jax
import numpy as np
import pytest

from untwist.theory import CHECKS, checks
from untwist.theory.axes import principal_axes
from untwist.theory.gaussian import kl_to_prior, linear_posterior
from untwist.theory.inference_error import inference_error
from untwist.theory.linear_vae import optimal_encoder
from untwist.theory.rolinek_geometry import _singular_volume
from untwist.theory.rolinek_symmetry import rotation_cost
from untwist.theory.sikka_gaussian import averaged_error, marginal, push_through
from untwist.theory.symmetry import distance_to_signed_permutation
from untwist.theory.witness import Parameters, averaged_objective, mean_variances, stationarity

inv, svd, trace = np.linalg.inv, np.linalg.svd, np.trace


def printed_stationarity(p, data, beta):
    """sikka2019 Eq. 23 as printed: the exponent has [W_s S]_ab W_ab for one b (erratum E3)."""
    right = stationarity(p, data, beta)
    exponent = 0.5 * (p.variance_weights @ data)[:, 0] * p.variance_weights[:, 0]
    spread = np.exp(exponent + p.variance_bias)
    stiffness = np.sum(p.decoder**2, axis=0) + beta
    return dataclasses.replace(right, variance_bias=-0.5 * (stiffness * spread - beta))


def without_bias_term(p, data, beta):
    right = stationarity(p, data, beta)
    return dataclasses.replace(right, encoder_bias=right.encoder_bias + beta * p.encoder_bias)


def unit_posterior(loadings, variance=1.0):
    gain, _ = linear_posterior(loadings, variance)
    return gain, inv(loadings.T @ loadings + variance * np.eye(loadings.shape[1]))


def shrunk_posterior(mixing, variance=1.0):
    gain, spread = linear_posterior(mixing, variance)
    return gain, inv(inv(spread) - 0.5 * np.eye(len(spread)))


def printed_kl(mean, variances):
    """bhowal2024 Eq. 4 (erratum E2)."""
    return 0.5 * float(np.sum(mean**2 + variances + np.log(variances) + 1))


def printed_hessian(jacobian, bends, curvature, pull):
    """allen2024 Eq. 6 without the decoder's second derivatives."""
    return -jacobian.T @ (curvature[:, None] * jacobian)


def printed_elbo(log_likelihood, hessian, mean, covariance, *, beta):
    """allen2024 Eq. 5: the bracket of beta closes after tr S (erratum E6)."""
    entropy = np.linalg.slogdet(covariance)[1] + len(mean)
    norms = mean @ mean + trace(covariance)
    return log_likelihood + 0.5 * float(trace(hessian @ covariance) - beta * norms + entropy)


def turned_axes(data, latents, variance):
    values, axes = principal_axes(data)
    return axes[:, :latents] * np.sqrt(values[:latents])


def doubled(function):
    return lambda *args, **options: 2 * np.asarray(function(*args, **options))


BROKEN = {
    "rolinek2019/eq5": lambda: np.array([[0.7, 0.3, 0.6], [0.3, 0.7, -0.6], [-0.6, 0.6, 0.5]]),
    "rolinek2019/example1": lambda axes, d: axes[:, -d:] @ axes[:, -d:].T,
    "rolinek2019/prop1": lambda m: np.abs(m @ m.T - np.diag(np.diag(m @ m.T))).max(),
    "rolinek2019/lemS1": np.prod,
    "rolinek2019/lemS2": lambda m: np.abs(np.linalg.det(m)) / 2,
    "rolinek2019/lemS3": lambda s, right: right @ np.diag(s**2) @ right.T,
    "rolinek2019/propS6": lambda m: _singular_volume(m) ** 2,
    "rolinek2019/lemS5": lambda a, b: a @ b * (1 / (a @ a) + 1 / (b @ b)),
    "rolinek2019/eq28": lambda m: np.linalg.det(m.T @ m),
    "rolinek2019/eqS72": lambda v: distance_to_signed_permutation(np.abs(v).T @ np.abs(v)),
    "rolinek2019/prop2": lambda d, u: d @ (u.T + 0.1),
    "rolinek2019/lemS6": lambda u: 1.2 * u.T,
    "rolinek2019/prop3": doubled(rotation_cost),
    "rolinek2019/def1": lambda: (0.0, 0.5, 0.0),
    "rolinek2019/eq10": lambda mean, s, active: 0.5 * np.sum(s[active]),
    "rolinek2019/prop4": lambda bias, miss: 0.0,  # the paper's assumption, erratum E20
    "rolinek2019/eq17": lambda j, s: np.sum(j**2, axis=0) @ np.sqrt(s),
    "rolinek2019/eqS77": doubled(kl_to_prior),
    "rolinek2019/sec9.2": lambda: 1 / 6,
    "rolinek2019/thm2": lambda j, c: 0.1 + 3 * np.log(3) - c / 3,
    "rolinek2019/cor1": lambda j, c: 3 * np.exp(-c / 3),
    "rolinek2019/eq25": lambda c: 24.495 * np.exp(-c),  # as printed, erratum E1
    "rolinek2019/eq26": lambda c: 52.393 * np.exp(-c),  # as printed, erratum E1
    "rolinek2019/eq25b": lambda c: 2 * np.sqrt(150) * np.exp(-c / 2),
    "rolinek2019/propS5": lambda costs: np.exp(np.mean(np.log(costs))),
    "rolinek2019/lemS4": lambda large, small: large / small,
    "zietlow2021/eq5": lambda deterministic, stochastic: deterministic - stochastic,
    "zietlow2021/eq8": lambda mean, s: np.sum(mean**2 + np.log(s)),
    # Sigma_X^2 in the place of Sigma_X, as printed (erratum E4)
    "zietlow2021/thm1": lambda data, beta: turned_axes(data, 3, 0) * principal_axes(data)[0][:3],
    "zietlow2021/trace_ineq": lambda m: 5 * np.linalg.det(m) ** (1 / 5),  # erratum E10
    "zietlow2021/lem1": lambda x: np.sqrt(np.sum(x**2)),  # erratum E7
    "zietlow2021/lem2": lambda a, b: a @ b + np.eye(5) * 1e-3,
    "zietlow2021/eq12": lambda image: np.mod(image, 1),
    "zietlow2021/eq14": lambda s: np.argsort(-s),
    "bhowal2024/prop1": lambda deterministic, stochastic: deterministic - stochastic,
    "bhowal2024/prop2": printed_kl,
    # no dimension before log 2 pi, as printed (erratum E4)
    "bhowal2024/prop3": lambda miss, s: (
        -0.5 * (np.log(2 * np.pi) + np.sum(np.log(s)) + np.sum(miss**2 / s))
    ),
    "bhowal2024/prop4": lambda at, move: np.tanh(at + move),
    "bhowal2024/lem1": lambda slopes, weights, s: slopes @ weights**2 @ s,
    "bhowal2024/lem3": lambda mean, s: 0.5 * (mean @ mean) - np.sum(np.log(s)),
    "bhowal2024/lem6": lambda value, slope, bend, v: value + bend * v,
    "bhowal2024/lem7": lambda slope, bend, twist, v: slope**2 * v + bend / 4 * v**2,  # E13
    "bhowal2024/lem8": lambda weights, s: np.abs(weights) @ s,
    "bhowal2024/lem9": lambda weights, mean: weights @ mean,
    "bhowal2024/lem2": lambda right, d: right[-d:].T @ right[-d:],
    "bhowal2024/thm1": lambda slopes, matrix: matrix,  # M_D, as printed (erratum E8)
    "bhowal2024/lem4": lambda norms: np.eye(len(norms)),  # V = I, as printed (erratum E18)
    "bhowal2024/lem5": lambda matrix: 0.0,  # the singular values' difference, erratum E19
    "bhowal2024/prop5": lambda s, right: right @ np.diag(s**2) @ right.T,
    "bhowal2024/lem10": lambda m: _singular_volume(m) ** 2,
    "bhowal2024/lem11": lambda a, b, t: (a + b) * t / (1 + t),  # as printed, erratum E12
    "bhowal2024/lem12": lambda a, b: a @ b * (1 / (a @ a) + 1 / (b @ b)),
    "bhowal2024/thm2": lambda means, s: np.sum((means[0] - means[1]) ** 2) - 2 * np.sum(s),
    "bhowal2024/lem13": lambda costs, count: np.argsort(-costs)[:count],
    "bhowal2024/prop6": lambda points: np.roll(points, 1, axis=0),
    "bhowal2024/prop7": lambda m: m @ (m.T @ m),  # a positive exponent (erratum E1)
    "bhowal2024/sec3.5": lambda norms: 0.3 / norms**2,
    "bhowal2024/table7": lambda values, kept: np.sum(values[kept]),
    "allen2024/eq1": lambda: (0.01, 1.0),  # any beta, as printed (erratum E2)
    "allen2024/eq3": unit_posterior,
    "allen2024/ppca_ml": turned_axes,
    "allen2024/eq4": lambda turn, s, variance: turn @ np.diag(s) @ turn.T,  # erratum E5
    "allen2024/lvae": np.sqrt,
    "allen2024/eq8": lambda j, variance: inv(np.eye(3) + variance * j.T @ j),
    "allen2024/cor1.1": lambda loadings: loadings / np.linalg.norm(loadings, axis=0),
    "allen2024/rem3": lambda w, q: w @ (q + 0.1),
    "allen2024/thm3": lambda beta, s2: s2 / beta,
    "allen2024/q_opt": lambda w, s2, beta, x: (w * x / (w**2 + s2), s2 / (w**2 + s2)),
    "allen2024/cor3.1": lambda values, threshold: int(np.sum(values > 4 * threshold)),
    "allen2024/eq5": printed_elbo,
    "allen2024/eq6": printed_hessian,
    # the diagonal of the full optimum, as Eq. 7 has it (erratum E9)
    "allen2024/eq7": lambda h, beta: np.diag(inv(np.eye(2) - h / beta)),
    "allen2024/thm4": lambda t, s: t @ s,  # V = I, as printed (erratum E15)
    "allen2024/thm5": lambda t, beta: -0.5 * np.sum(np.log(1 - t / beta)) * beta * 0.9,
    # the bounded middle term, as printed (erratum E19)
    "allen2024/eq14": lambda s, beta: 0.5 * s**2 / (1 + s**2 / beta),
    "allen2024/a3": lambda tau: 1 / tau,
    "allen2024/a4": lambda j, curvature: -j.T @ j,
    "allen2024/thm1": lambda w: svd(w, compute_uv=False),
    "allen2024/rem1": lambda w: svd(w, compute_uv=False),
    "allen2024/rem2": lambda left, s, right: left * s[::-1],
    "allen2024/thm2": lambda j, z: -0.5 * (z**2 + np.log(2 * np.pi)) - np.sum(j**2, axis=0),
    "allen2024/rem5": lambda: 0.0,  # a Gaussian factor
    "allen2024/cor2.1": lambda j: np.abs(j @ j.T - np.diag(np.diag(j @ j.T))).max(),
    "allen2024/sec3.2.3": lambda j: np.linalg.slogdet(j.T @ j)[1],
    "sikka2019/eq4": lambda log_evidence, gap: log_evidence + gap,  # rolinek2019, erratum E6
    "sikka2019/eq19": shrunk_posterior,
    "sikka2019/eq24": shrunk_posterior,
    "sikka2019/eq25": lambda a, w, ws, b, s: averaged_error(a, w, 0 * ws, b, s),
    "sikka2019/eq37": lambda a, s: trace(a.T @ s @ a),
    "sikka2019/eq39": lambda mean, s: kl_to_prior(mean, s) + np.linalg.slogdet(s)[1],
    "sikka2019/eq52": lambda u, v: push_through(u, -v),
    "sikka2019/eq57": lambda d: marginal(d) - 0.5 * np.eye(len(d)),
    "sikka2019/prop1": lambda kl, beta: -kl / beta,
    "sikka2019/prop2": lambda terms: (terms.kl, terms.elbo),
    "sikka2019/prop3": lambda beta, slope: beta * slope,
    "sikka2019/prop4": lambda a, b, beta: a + beta * b,
    "sikka2019/eq14": lambda elbo, kl, beta: elbo + (beta - 1) * kl,
    "sikka2019/eq16": lambda log_evidence, elbo: elbo - log_evidence,
    "sikka2019/fixed_decoder": lambda d, beta: optimal_encoder(d, 2 * beta),
    # without the two constants, as printed (erratum E2)
    "sikka2019/eq21": lambda p, data, beta: (
        averaged_objective(p, data, beta) + np.log(2 * np.pi) - beta
    ),
    "sikka2019/eq22": without_bias_term,
    "sikka2019/eq23": printed_stationarity,
    "sikka2019/wsigma": lambda p, beta: 1 / (np.sum(p.decoder**2, axis=0) + 1),
}


def test_every_check_has_a_broken_formula():
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("identifier", BROKEN)
def test_a_wrong_formula_fails(identifier):
    found = CHECKS[identifier](jax.random.key(0), claim=BROKEN[identifier])
    assert not found.holds, found


@pytest.mark.slow
@pytest.mark.parametrize("identifier", BROKEN)
def test_a_wrong_formula_fails_on_every_instance(identifier):
    for seed in range(1, 6):
        found = CHECKS[identifier](jax.random.key(seed), claim=BROKEN[identifier])
        assert not found.holds, (seed, found)


def test_a_gap_that_is_not_a_number_fails():
    found = CHECKS["rolinek2019/lemS1"](jax.random.key(0), claim=lambda a: np.nan)
    assert not found.holds
    assert checks.Check(checks.statements()["rolinek2019/lemS1"], found).verdict == "fails"


def test_the_error_is_the_averaged_one_when_the_variance_is_constant():
    draw = np.random.default_rng(0)
    mixing, encoder = draw.standard_normal((2, 2, 2))
    bias, data = draw.standard_normal(2), np.diag([2.0, 1.0])
    still = np.zeros((2, 2))
    np.testing.assert_allclose(
        averaged_error(mixing, encoder, still, bias, data),
        inference_error(encoder, np.exp(bias), mixing, data),
        rtol=1e-12,
    )


def test_mean_variances_are_log_normal_means():
    p = Parameters(
        np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), np.zeros(1), np.zeros(1)
    )
    np.testing.assert_allclose(mean_variances(p, np.eye(1)), np.exp(0.5))
