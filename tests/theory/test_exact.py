"""Closed values by hand: Gaussians, the precision game, Hessians, push-forwards, prediction."""

import jax
import numpy as np
import pytest
import scipy.stats

from untwist.theory import (
    best_variances,
    descend,
    disentangling_curve,
    independence_gap,
    least_log_loss,
    linear_beta_vae,
    paper_mixing,
    predict,
)
from untwist.theory.axes import equal_groups
from untwist.theory.evidence import at_most, equal, every
from untwist.theory.gaussian import average_log_density, kl_between
from untwist.theory.hessian import ramp_cost
from untwist.theory.quadrature import gauss_points
from untwist.types import InputError


def test_average_log_density_is_scipys_mean():
    draw = np.random.default_rng(0)
    x = draw.standard_normal((50, 3))
    model = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.5]])
    expected = np.mean(scipy.stats.multivariate_normal(np.zeros(3), model).logpdf(x))
    assert average_log_density(x.T @ x / 50, model) == pytest.approx(expected, rel=1e-12)


def test_kl_between_scalars():
    found = kl_between(np.array([1.0]), np.array([[2.0]]), np.zeros(1), np.array([[4.0]]))
    assert found == pytest.approx(0.5 * (0.5 + 0.25 - 1 + np.log(2)))


def test_quadrature_integrates_polynomials():
    points, weights = gauss_points(2, 4)
    assert weights @ (points[:, 0] ** 6 * points[:, 1] ** 2) == pytest.approx(15)


def test_descent_keeps_the_budget_and_reaches_the_minimum():
    jacobians = np.random.default_rng(0).standard_normal((4, 6, 2))
    for seed in range(5):
        end = descend(jacobians, 3.0, key=jax.random.key(seed))
        assert -np.log(end.variances).sum() == pytest.approx(3)
        assert end.loss == pytest.approx(least_log_loss(jacobians, 3.0), abs=1e-8)


def test_best_variances_of_the_papers_example():
    # allen2024, erratum E9: 0.4184, 0.0902 for the diagonal rule of the same Hessian
    hessian = np.diag([1 - 1 / 0.4184, 1 - 1 / 0.0902])
    np.testing.assert_allclose(best_variances(hessian, 1.0), [0.4184, 0.0902])


def test_a_jump_costs_nothing_in_the_limit():
    assert [ramp_cost(w, 1.0) for w in (1e-2, 1e-4, 1e-8)] == pytest.approx(
        [0.0461, 9.21e-4, 1.84e-7], rel=1e-2
    )


def test_independence_gap_of_a_shear():
    assert independence_gap(np.array([[1.0, 1.0], [0.0, 1.0]])) == pytest.approx(0.5 * np.log(2))


def test_the_curve_of_the_paper():
    betas = np.append(np.geomspace(0.05, 20, 60), 1.0)
    curve = disentangling_curve(paper_mixing(), np.sort(betas))
    assert curve.beta[np.argmax(curve.elbo)] == 1
    assert np.all(np.diff(curve.reconstruction) < 0)
    assert np.all(np.diff(curve.kl) < 0)
    assert np.all(curve.tie_free <= curve.tie + 1e-12)
    assert curve.mie[np.argmin(np.abs(curve.beta - 1))] == pytest.approx(0, abs=1e-10)
    assert 0 < np.argmin(curve.tie_free) < len(curve.beta) - 1
    assert linear_beta_vae(
        paper_mixing() @ paper_mixing().T + np.eye(128), 2
    ).critical_beta == pytest.approx([66.25, 1.25])


def test_log_likelihood_of_the_paper_rises_before_one_and_falls_after():
    curve = disentangling_curve(paper_mixing(), [0.25, 0.5, 1.0, 10.0, 60.0])  # erratum E15
    assert np.argmax(curve.log_likelihood) == 2


def test_prediction_marks_what_sampling_leaves_open():
    values = np.diag([4.0, 3.0, 2.9, 1.0])
    assert predict(values, 2).determined.tolist() == [True, False]
    assert predict(values, 4, gap=0.01).determined.all()
    few = predict(values, 4, items=50)  # 2 sqrt(2/50) = 0.4
    assert few.groups == [[0, 1, 2]]
    assert few.gap == pytest.approx(0.4)
    assert [few.survivors(b) for b in (0.5, 1.0, 3.5)] == [4, 3, 1]


def test_directions_without_variance_are_not_determined():
    data = np.random.default_rng(0).standard_normal((3, 5)) * np.array([5.0, 3.0, 1.0, 1.0, 1.0])
    found = predict(np.cov(data.T, bias=True), 5)  # three items span two dimensions
    assert found.eigenvalues[2:].tolist() == [0, 0, 0]
    assert found.determined.tolist() == [True, True, False, False, False]


def test_equal_groups_are_relative():
    assert equal_groups(np.array([1e6, 1e6 - 1, 1.0, 0.5]), 1e-5) == [[0, 1], [2], [3]]


def test_prediction_refuses_a_gap_of_one():
    with pytest.raises(InputError, match=r"lie in \[0, 1\)"):
        predict(np.eye(2), 1, gap=1.0)


def test_evidence_of_several_parts_is_the_weakest():
    assert every(at_most(2, 1, 0.0), equal(1, 1)).gap == 1
    assert not every(equal(1, 1 + 1e-11), at_most(1e-12, 0, 0.0)).holds
    assert at_most(1, 2).holds
    assert not at_most(np.nan, 2).holds
