"""Local fits recover what was planted, and their control cannot be beaten by nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.mechanism import Posteriors, local_fits
from untwist.types import InputError

DRAW = np.random.default_rng(0)
MATRIX = jnp.asarray(DRAW.standard_normal((12, 3)), jnp.float32)
MEAN = (0.5 * DRAW.standard_normal((30, 3))).astype(np.float32)
SIGMA = np.tile(np.float32([0.3, 0.1, 0.5]), (30, 1))


def fit(decode, sigma=SIGMA):
    return local_fits(decode, Posteriors(MEAN, sigma), key=jax.random.key(0))


def test_a_tanh_layer_is_recovered_and_a_line_is_not_enough():
    found = fit(lambda z: 2 * jnp.tanh(MATRIX @ z))
    assert found.nonlinear < 1e-8 * found.zero
    assert found.linear > 0.01 * found.zero
    assert found.stochastic["nonlinear"] < 1e-8
    assert found.converged == 1
    slopes = jax.vmap(jax.jacfwd(lambda z: 2 * jnp.tanh(MATRIX @ z)))(MEAN)
    np.testing.assert_allclose(found.nonlinear_matrices, slopes, atol=1e-3)


def test_a_linear_decoder_is_recovered_by_both():
    found = fit(lambda z: MATRIX @ z)
    assert found.linear < 1e-9 * found.zero
    assert found.tangent < 1e-9 * found.zero
    assert found.nonlinear < 1e-4 * found.zero  # the limit of a flat tanh
    np.testing.assert_allclose(found.matrices, np.tile(MATRIX, (30, 1, 1)), atol=1e-4)
    exact = float(np.sum((np.asarray(MATRIX) * SIGMA[0]) ** 2))
    assert found.zero == pytest.approx(exact, rel=0.1)


def test_full_covariances_are_fitted_in_the_codes():
    factor = np.tile(np.tril(DRAW.uniform(0.1, 0.4, (3, 3))).astype(np.float32), (30, 1, 1))
    found = fit(lambda z: MATRIX @ z, factor)
    np.testing.assert_allclose(found.matrices, np.tile(MATRIX, (30, 1, 1)), atol=1e-3)


def test_a_curve_is_fitted_better_with_a_nonlinearity_and_the_control_stays_worst():
    found = fit(lambda z: MATRIX @ z + 0.5 * (MATRIX @ z) ** 2)
    assert found.nonlinear < 0.5 * found.linear < 0.5 * found.zero
    assert found.per_item.shape == (4, 30)
    np.testing.assert_allclose(found.per_item.mean(1)[:2], [found.zero, found.linear])


def test_noise_that_no_model_explains_is_not_explained():
    # Oscillating far within a posterior: on fresh noise the fits cannot gain anything.
    found = fit(lambda z: jnp.sin(200 * (MATRIX @ z)))
    assert found.linear > 0.95 * found.zero
    assert found.nonlinear > 0.95 * found.zero


def test_a_constant_decoder_has_no_errors():
    found = fit(lambda z: jnp.ones(4) + 0 * z.sum())
    assert (found.zero, found.linear, found.nonlinear) == (0, 0, 0)
    assert found.stochastic == {"tangent": 0.0, "linear": 0.0, "nonlinear": 0.0}


def test_too_few_draws_and_points_are_refused():
    with pytest.raises(InputError, match="at least 6 draws, but got 5"):
        local_fits(jnp.tanh, Posteriors(MEAN, SIGMA), key=jax.random.key(0), draws=5)
    with pytest.raises(InputError, match="no posterior"):
        fit(jnp.tanh, None)
