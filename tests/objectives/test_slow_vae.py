"""SlowVAE: the KL to the Laplace prior, against integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, PARTNERS, batch, model
from scipy.integrate import quad
from scipy.stats import laplace, norm

from untwist.objectives import SlowVAE, transition_kl


def integrated(mean, variance, center, rate):
    """KL(N(mean, variance) || Laplace(center, 1 / rate)) by quadrature."""
    q, p = norm(mean, np.sqrt(variance)), laplace(center, 1 / rate)
    low, high = q.ppf(1e-13), q.isf(1e-13)
    split = [center] if low < center < high else None
    value, _ = quad(
        lambda z: q.pdf(z) * (q.logpdf(z) - p.logpdf(z)), low, high, points=split, limit=200
    )
    return value


CASES = [
    (0.0, 1.0, 0.0, 1.0),
    (0.3, 0.5, -0.2, 6.0),
    (-2.0, 0.01, 1.5, 6.0),
    (0.7, 1e-4, 0.7, 0.5),
    (0.1, 2.0, 4.0, 10.0),
]


@pytest.mark.parametrize(("mean", "variance", "center", "rate"), CASES)
def test_the_kl_to_a_laplace_equals_integration(mean, variance, center, rate):
    numbers = jnp.array([mean, variance, center, 0.0])
    found = transition_kl(*numbers, rate)
    np.testing.assert_allclose(found, integrated(mean, variance, center, rate), rtol=1e-5)


@pytest.mark.parametrize(("mean", "variance", "center", "rate"), CASES[1:3])
def test_a_center_that_spreads_is_an_average_over_centers(mean, variance, center, rate):
    """The code that the step starts from is a draw, not a point, unlike in the authors' code."""
    spread = 0.3
    roots, weights = np.polynomial.hermite_e.hermegauss(120)
    centers = center + np.sqrt(spread) * roots
    values = [integrated(mean, variance, c, rate) for c in centers]
    expected = np.dot(values, weights) / weights.sum()
    found = transition_kl(*jnp.array([mean, variance, center, spread]), rate)
    # Gauss-Hermite meets a kink: its own error is about 1e-3.
    np.testing.assert_allclose(found, expected, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize("posterior", ["diagonal", "full"])
def test_the_transition_counts_one_kl_a_pair(posterior):
    """Both directions' KL, each with an entropy of its own, halved (the authors subtract one)."""
    vae, rate = model(posterior), 3.0
    ours = SlowVAE(beta=0.0, gamma=1.0, rate=rate)(vae, None, batch(), key=KEY)
    found = []
    for x, y in [*zip(EXAMPLES, PARTNERS, strict=True), *zip(PARTNERS, EXAMPLES, strict=True)]:
        q, start = vae.encode(x), vae.encode(y)
        draws = jax.random.normal(jax.random.key(9), (2, 40_000, 3))
        z = jax.vmap(q.at)(draws[0])
        before = jax.vmap(start.at)(draws[1])
        log_prior = np.log(rate / 2) - rate * np.abs(np.asarray(z - before))
        found.append(np.mean(jax.vmap(q.log_prob)(z) - log_prior.sum(1)))
    # 16 averages over 40,000 draws of terms that spread by about 10: a standard error of 0.02.
    np.testing.assert_allclose(ours.parts["transition_kl"], np.mean(found), atol=0.06)
    expected = ours.parts["reconstruction"] + 0.5 * ours.parts["transition_kl"]
    np.testing.assert_allclose(ours.loss, expected, rtol=1e-6)


def test_the_two_images_of_a_pair_may_change_places():
    vae = model()
    there = SlowVAE()(vae, None, batch(), key=KEY).parts
    swapped = type(batch())(PARTNERS, EXAMPLES, jnp.array(0))
    back = SlowVAE()(vae, None, swapped, key=KEY).parts
    for part in ("kl", "transition_kl", "step_per_latent"):
        np.testing.assert_allclose(there[part], back[part], rtol=1e-5)


def test_the_gradient_of_a_confident_code_is_finite():
    slope = jax.grad(lambda m, v: transition_kl(m, v, 0.0 * m, v, 6.0), argnums=(0, 1))
    for mean, variance in ((0.0, 1e-12), (30.0, 1e-12), (0.0, 1e6)):
        assert np.isfinite(slope(jnp.float32(mean), jnp.float32(variance))).all()
