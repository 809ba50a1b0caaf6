"""The beta-TCVAE: the parts of the KL add up, and the total correlation is the right one."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from untwist.models import DiagonalGaussian, FullGaussian
from untwist.objectives import kl_decomposition, mixture_log_weights

ESTIMATORS = [(0.0, 0.0), (0.0, 1000.0), (1.0, 0.0), (1.0, 1000.0)]
decompose = eqx.filter_jit(kl_decomposition)


def diagonal(count=16, latents=3):
    mean_key, variance_key = jax.random.split(jax.random.key(1))
    mean = jax.random.normal(mean_key, (count, latents))
    log_variance = -jax.random.uniform(variance_key, (count, latents))
    return jax.vmap(DiagonalGaussian)(mean, log_variance)


def full(count=16, latents=3):
    made = diagonal(count, latents)
    lower = jnp.tril(jax.random.normal(jax.random.key(2), (count, latents, latents)), -1)
    scale = jax.vmap(jnp.diag)(jnp.exp(0.5 * made.log_variance))
    return jax.vmap(FullGaussian)(made.mean, lower + scale)


def codes_of(posterior):
    noise = jax.random.normal(jax.random.key(3), posterior.mean.shape)
    return jax.vmap(lambda q, e: q.at(e))(posterior, noise)


@pytest.mark.parametrize("make", [diagonal, full])
@pytest.mark.parametrize(("stratified", "size"), ESTIMATORS)
def test_the_three_parts_add_up_to_the_kl_at_the_codes(make, stratified, size):
    posterior = make()
    codes = codes_of(posterior)
    parts = decompose(posterior, codes, mixture_log_weights(16, stratified, size))
    own = np.asarray(jax.vmap(lambda q, z: q.log_prob(z))(posterior, codes))
    sampled = np.mean(own - norm.logpdf(codes).sum(1))
    assert set(parts) == {"index_code_information", "total_correlation", "dimension_wise_kl"}
    np.testing.assert_allclose(sum(float(part) for part in parts.values()), sampled, rtol=1e-5)


@pytest.mark.parametrize(("stratified", "size"), ESTIMATORS)
def test_the_parts_equal_a_computation_in_numpy(stratified, size):
    posterior = diagonal()
    codes = np.asarray(codes_of(posterior), float)
    weights = np.asarray(mixture_log_weights(16, stratified, size), float)
    parts = decompose(posterior, jnp.asarray(codes, jnp.float32), jnp.asarray(weights))
    deviation = np.exp(0.5 * np.asarray(posterior.log_variance, float))
    each = norm.logpdf(codes[:, None], np.asarray(posterior.mean, float)[None], deviation[None])
    joint = logsumexp(each.sum(2) + weights, axis=1)
    product = logsumexp(each + weights[:, :, None], axis=1).sum(1)
    np.testing.assert_allclose(parts["total_correlation"], (joint - product).mean(), rtol=1e-4)
    own = each.sum(2).diagonal()
    np.testing.assert_allclose(parts["index_code_information"], (own - joint).mean(), rtol=1e-4)


def test_the_weights_of_the_two_estimators():
    """Weighted: 1 / (N B) or 1 / B. Stratified: rows add to one, the example itself has 1 / N."""
    np.testing.assert_allclose(np.exp(mixture_log_weights(4, 0.0, 0.0)), 0.25, rtol=1e-6)
    np.testing.assert_allclose(np.exp(mixture_log_weights(4, 0.0, 50.0)), 1 / 200, rtol=1e-6)
    stratified = np.exp(mixture_log_weights(4, 1.0, 50.0))
    np.testing.assert_allclose(stratified.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(stratified.diagonal(), 1 / 50, rtol=1e-6)
    np.testing.assert_allclose(np.sort(stratified[2])[1:], [47 / 150, 1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(
        mixture_log_weights(4, 1.0, 0.0), mixture_log_weights(4, 1.0, 4.0), rtol=1e-6
    )


def test_the_stratified_estimate_of_the_mixture_is_unbiased():
    """Over all batches of three of six examples that hold example 0, by enumeration."""
    density = np.array([0.9, 0.1, 0.4, 0.05, 0.3, 0.7])
    weights = np.exp(mixture_log_weights(3, 1.0, 6.0))[0]
    batches = [(0, *others) for others in itertools.permutations(range(1, 6), 2)]
    estimates = [np.sum(weights * density[list(batch)]) for batch in batches]
    np.testing.assert_allclose(np.mean(estimates), density.mean(), rtol=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("make", ["diagonal", "full"])
def test_the_total_correlation_of_a_gaussian_is_the_closed_form(correlation, make):
    """-log(1 - rho^2) / 2, and 0 of independent latents, where the batch is the whole data.

    The means are such that all codes together are N(0, [[1, rho], [rho, 1]]).
    """
    count = 3000
    target = np.array([[1, correlation], [correlation, 1]])
    own = 0.5 * target if make == "full" else 0.5 * (1 - correlation) * np.eye(2)
    spread = np.linalg.cholesky(target - own)
    draws = np.random.default_rng(4).standard_normal((count, 2))
    draws = (draws - draws.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(draws.T))).T
    means = jnp.asarray(draws @ spread.T, jnp.float32)
    if make == "full":
        lower = np.broadcast_to(np.linalg.cholesky(own), (count, 2, 2))
        posterior = jax.vmap(FullGaussian)(means, jnp.asarray(lower, jnp.float32))
    else:
        posterior = jax.vmap(DiagonalGaussian)(means, jnp.full((count, 2), np.log(own[0, 0])))
    codes = codes_of(posterior)
    parts = decompose(posterior, codes, mixture_log_weights(count, 0.0, 0.0))
    expected = -0.5 * np.log(1 - correlation**2)
    # One standard error of the mean over the codes is below 0.02; own examples add about 1 / count
    # divided by the share of the mixture that one posterior fills.
    np.testing.assert_allclose(parts["total_correlation"], expected, atol=0.04)
    codes_information = 0.5 * np.log(np.linalg.det(target) / np.linalg.det(own))
    np.testing.assert_allclose(parts["index_code_information"], codes_information, atol=0.06)


def test_the_size_moves_no_gradient_of_the_weighted_estimate_but_one_of_the_stratified():
    posterior = diagonal()

    def slope(stratified, size):
        def correlation(mean):
            moved = jax.vmap(DiagonalGaussian)(mean, posterior.log_variance)
            weights = mixture_log_weights(16, stratified, size)
            return kl_decomposition(moved, codes_of(moved), weights)["total_correlation"]

        return np.asarray(jax.grad(correlation)(posterior.mean))

    np.testing.assert_allclose(slope(0.0, 0.0), slope(0.0, 9999.0), atol=1e-6)
    assert np.abs(slope(1.0, 0.0) - slope(1.0, 9999.0)).max() > 1e-3
