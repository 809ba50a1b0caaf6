"""Likelihoods: values by SciPy, and what each makes of beta."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from untwist.models import LIKELIHOODS, Bernoulli, Gaussian, SquaredError, squared_error_beta
from untwist.types import InputError

Y = jnp.array([[-1.0, 0.5], [2.0, -3.0]])
X = jnp.array([[0.0, 1.0], [1.0, 0.25]])


def test_gaussian_is_scipys():
    value = Gaussian(jnp.array(0.3)).log_prob(Y, X)
    expected = stats.norm.logpdf(np.asarray(X), np.asarray(Y), np.sqrt(0.3)).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_bernoulli_is_scipys_on_binary_images():
    x = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    p = 1 / (1 + np.exp(-np.asarray(Y, np.float64)))
    expected = stats.bernoulli.logpmf(np.asarray(x, int), p).sum()
    np.testing.assert_allclose(Bernoulli().log_prob(Y, x), expected, rtol=1e-6)
    assert jnp.isfinite(Bernoulli().log_prob(jnp.array([1e4, -1e4]), jnp.array([0.0, 1.0])))


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_the_mean_is_the_most_likely_image(name):
    likelihood = LIKELIHOODS[name](*([jnp.array(0.7)] if name == "gaussian" else []))
    best = jax.grad(lambda x: likelihood.log_prob(Y, x))(likelihood.mean(Y))
    if name == "bernoulli":  # linear in x: check instead that the mean maximizes over y
        gradient = jax.grad(lambda y: likelihood.log_prob(y, likelihood.mean(Y)))(Y)
        np.testing.assert_allclose(gradient, 0, atol=1e-6)
    else:
        np.testing.assert_allclose(best, 0, atol=1e-6)


@pytest.mark.parametrize("variance", [0.1, 0.5, 2.0])
def test_a_gaussian_trains_like_squared_error_at_the_stated_beta(variance):
    """The gradients of the two objectives are the same up to one factor, 2 variance."""
    gaussian, beta = Gaussian(jnp.array(variance)), jnp.array(3.0)
    kl = lambda y: jnp.sum(jnp.cosh(y))  # noqa: E731  any function of the parameters
    ours = jax.grad(lambda y: -gaussian.log_prob(y, X) + beta * kl(y))(Y)
    other = squared_error_beta(gaussian, beta)
    theirs = jax.grad(lambda y: -SquaredError().log_prob(y, X) + other * kl(y))(Y)
    np.testing.assert_allclose(2 * variance * ours, theirs, rtol=1e-5)


def test_squared_error_is_a_gaussian_of_variance_one_half():
    gaussian, constant = Gaussian(jnp.array(0.5)), 0.5 * X.size * np.log(np.pi)
    np.testing.assert_allclose(
        gaussian.log_prob(Y, X) + constant, SquaredError().log_prob(Y, X), rtol=1e-6
    )


def test_the_variance_is_not_learned():
    gradient = jax.grad(lambda v: Gaussian(v).log_prob(Y, X))(jnp.array(0.5))
    assert float(gradient) == 0.0


@pytest.mark.parametrize("variance", [0.0, -1.0, float("nan")])
def test_a_variance_must_be_positive(variance):
    with pytest.raises(InputError, match="variance above 0"):
        Gaussian(jnp.array(variance))


def test_bernoulli_has_no_variance_to_trade():
    with pytest.raises(InputError, match="no variance to trade"):
        squared_error_beta(Bernoulli(), jnp.array(1.0))
