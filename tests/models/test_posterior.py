"""Posteriors: closed forms, and the laws that every family obeys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.models import POSTERIORS, DiagonalGaussian, FullGaussian, marginal_kl

LATENTS = 3
FAMILIES = sorted(POSTERIORS)
GAUSSIAN = ["diagonal", "full"]


def posterior(family, seed=0):
    cls = POSTERIORS[family]
    features = 0.7 * jax.random.normal(jax.random.key(seed), (cls.features(LATENTS),))
    return cls.from_features(features, LATENTS)


def covariance(q):
    return np.asarray(
        q.cholesky @ q.cholesky.T if isinstance(q, FullGaussian) else jnp.diag(q.variance)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_and_mean(family):
    q = posterior(family)
    features = POSTERIORS[family].features(LATENTS)
    assert q.mean.shape == q.variance.shape == q.kl_per_latent().shape == (LATENTS,)
    assert q.kl().shape == ()
    assert features >= LATENTS
    np.testing.assert_array_equal(q.at(jnp.zeros(LATENTS)), q.mean)


@pytest.mark.parametrize("family", GAUSSIAN)
def test_kl_is_the_textbook_formula(family):
    q = posterior(family)
    s, m = covariance(q).astype(np.float64), np.asarray(q.mean, np.float64)
    expected = 0.5 * (m @ m + np.trace(s) - np.linalg.slogdet(s)[1] - LATENTS)
    np.testing.assert_allclose(q.kl(), expected, rtol=1e-5)


@pytest.mark.parametrize("family", GAUSSIAN)
def test_kl_is_the_mean_log_ratio_of_samples(family):
    q = posterior(family)
    keys = jax.random.split(jax.random.key(3), 40_000)
    z = np.asarray(jax.vmap(lambda k: q.sample(key=k))(keys), np.float64)
    s, m = covariance(q).astype(np.float64), np.asarray(q.mean, np.float64)
    d = z - m
    log_q = -0.5 * (np.einsum("ni,ij,nj->n", d, np.linalg.inv(s), d) + np.linalg.slogdet(s)[1])
    log_ratio = log_q + 0.5 * (z**2).sum(1)
    error = log_ratio.std() / np.sqrt(len(z))
    assert abs(log_ratio.mean() - float(q.kl())) < 4 * error


@pytest.mark.parametrize("family", GAUSSIAN)
def test_samples_have_the_mean_and_covariance(family):
    q = posterior(family)
    keys = jax.random.split(jax.random.key(5), 50_000)
    z = np.asarray(jax.vmap(lambda k: q.sample(key=k))(keys))
    np.testing.assert_allclose(z.mean(0), q.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(z.T), covariance(q), atol=0.05)
    np.testing.assert_allclose(np.diag(covariance(q)), q.variance, rtol=1e-5)


def test_full_without_correlation_is_diagonal():
    mean, log_variance = jnp.array([0.3, -1.0]), jnp.array([-2.0, 0.5])
    diagonal = DiagonalGaussian(mean, log_variance)
    full = FullGaussian(mean, jnp.diag(jnp.exp(0.5 * log_variance)))
    np.testing.assert_allclose(full.kl(), diagonal.kl(), rtol=1e-6)
    np.testing.assert_allclose(full.kl_per_latent(), diagonal.kl_per_latent(), rtol=1e-5)


def test_marginals_of_a_correlated_posterior_say_less_than_it_does():
    q = posterior("full")
    assert float(jnp.sum(q.kl_per_latent())) < float(q.kl())


def test_the_prior_has_no_kl():
    assert marginal_kl(jnp.zeros(2), jnp.ones(2)).tolist() == [0.0, 0.0]


def test_a_point_has_no_variance_and_no_kl():
    q = posterior("deterministic")
    assert float(q.kl()) == 0.0
    assert q.variance.tolist() == [0.0] * LATENTS
    np.testing.assert_array_equal(q.sample(key=jax.random.key(0)), q.mean)
