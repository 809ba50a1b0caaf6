"""The closed form against the witness, the witness against itself, and limits by hand."""

import jax
import numpy as np
import pytest

from untwist.theory import (
    free_inference_error,
    inference_error,
    linear_beta_vae,
    maximize,
    optimal_terms,
    ppca,
    rotation_cost,
    terms_of,
)
from untwist.theory.axes import principal_axes
from untwist.theory.draws import covariance, frame, orthogonal, signed_permutation
from untwist.theory.witness import (
    averaged_objective,
    mean_variances,
    random_parameters,
    stationarity,
)
from untwist.types import InputError

WITNESSED = [
    (5, 2, 0.05, 1.0),
    (8, 3, 0.7, 0.5),
    (16, 4, 4.0, 1.0),
    (32, 5, 20.0, 0.3),
    (128, 2, 1.0, 1.0),
]
WIDE = [
    (pixels, latents, beta, variance)
    for pixels, latents in ((12, 6), (48, 8), (128, 10))
    for beta, variance in ((0.05, 1.0), (0.4, 2.0), (1.0, 1.0), (5.0, 0.5), (20.0, 1.0))
]


def agree(pixels, latents, beta, variance, seed):
    """Witness and closed form, on data x = A s + noise of a random A."""
    mixing = np.random.default_rng(seed).standard_normal((pixels, latents))
    data = mixing @ mixing.T + np.eye(pixels)
    end = maximize(data, latents, float(beta), variance=float(variance), key=jax.random.key(seed))
    spread = mean_variances(end, data)
    vae = linear_beta_vae(data, latents, float(beta), variance=float(variance))
    exact = optimal_terms(vae)
    found = terms_of(end.decoder, end.encoder, spread, data, beta=beta, variance=variance)
    objective = averaged_objective(end, data, float(beta), float(variance))
    np.testing.assert_allclose(objective, exact.objective, rtol=1e-8)
    for name in ("reconstruction", "kl", "log_likelihood", "elbo", "objective", "mie"):
        scale = abs(float(exact.elbo)) if name == "mie" else 0
        np.testing.assert_allclose(
            getattr(found, name), getattr(exact, name), rtol=1e-8, atol=1e-8 * scale, err_msg=name
        )
    np.testing.assert_allclose(np.sort(spread), np.sort(vae.variances), rtol=1e-8)
    np.testing.assert_allclose(
        end.decoder @ end.decoder.T, vae.decoder @ vae.decoder.T, atol=1e-8 * vae.eigenvalues[0]
    )
    np.testing.assert_allclose(stationarity(end, data, beta, variance).flat, 0, atol=1e-6)


@pytest.mark.parametrize(("pixels", "latents", "beta", "variance"), WITNESSED)
def test_closed_form_is_the_witness(pixels, latents, beta, variance):
    agree(pixels, latents, beta, variance, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("pixels", "latents", "beta", "variance"), WIDE)
def test_closed_form_is_the_witness_widely(pixels, latents, beta, variance):
    agree(pixels, latents, beta, variance, 1)


def test_slopes_of_the_witness_are_those_of_automatic_differentiation():
    data, beta, s2 = covariance(4, np.random.default_rng(0)), 0.7, 0.4
    p = random_parameters(4, 2, key=jax.random.key(0), scale=0.5)
    with jax.enable_x64(True):
        jnp = jax.numpy

        def objective(w, d, ws, b, bm, bd):
            spread = jnp.exp(0.5 * jnp.diag(ws @ data @ ws.T) + b)
            miss, shift = d @ w - jnp.eye(4), d @ bm + bd
            norms = jnp.sum(d**2, axis=0)
            fit = jnp.trace(miss @ data @ miss.T) + norms @ spread + shift @ shift
            kl = jnp.trace(w @ data @ w.T) + jnp.sum(spread) + bm @ bm - jnp.sum(b)
            return -0.5 * (fit / s2 + beta * kl)

        slopes = jax.grad(objective, argnums=tuple(range(6)))(*vars(p).values())
    for name, slope in zip(vars(p), slopes, strict=True):
        found = getattr(stationarity(p, data, beta, s2), name)
        np.testing.assert_allclose(found, slope, rtol=1e-10, atol=1e-12, err_msg=name)


def test_terms_over_beta_are_those_at_each():
    data = covariance(6, np.random.default_rng(0))
    betas = np.geomspace(0.05, 20, 12).reshape(3, 4)
    vae = linear_beta_vae(data, 4, betas, variance=0.6)
    whole = optimal_terms(vae)
    for i in np.ndindex(betas.shape):
        one = terms_of(
            vae.decoder[i], vae.encoder[i], vae.variances[i], data, beta=betas[i], variance=0.6
        )
        for name in ("reconstruction", "kl", "log_likelihood", "elbo", "objective", "mie"):
            np.testing.assert_allclose(
                getattr(whole, name)[i], getattr(one, name), rtol=1e-12, atol=1e-12
            )


def test_at_beta_one_the_linear_vae_is_ppca_with_an_exact_posterior():
    data = covariance(6, np.random.default_rng(0))
    vae, model = linear_beta_vae(data, 3, variance=0.3), ppca(data, 3, variance=0.3)
    np.testing.assert_allclose(vae.decoder, model.loadings)
    np.testing.assert_allclose(np.diag(vae.variances), model.posterior[1], atol=1e-12)
    np.testing.assert_allclose(optimal_terms(vae).mie, 0, atol=1e-10)
    np.testing.assert_allclose(optimal_terms(vae).elbo, model.log_likelihood(data))


def test_a_direction_collapses_at_its_eigenvalue_over_the_variance():
    vae = linear_beta_vae(np.diag([4.0, 2.0]), 2, [3.99, 4.0, 8.0], variance=1.0)
    assert vae.critical_beta.tolist() == [4, 2]
    assert vae.active.tolist() == [[True, False], [False, False], [False, False]]
    assert vae.encoder[1].tolist() == [[0, 0], [0, 0]]
    assert optimal_terms(vae).mie[1:].tolist() == [0, 0]


def test_latents_beyond_the_data_collapse():
    vae = linear_beta_vae(np.eye(2), 4, 0.5)
    assert vae.variances.tolist() == [0.5, 0.5, 1, 1]
    assert optimal_terms(vae).kl == pytest.approx(np.log(2))


def brute_force(vae, mixing, data, turns):
    return min(
        inference_error(q @ vae.encoder, np.diag(q @ np.diag(vae.variances) @ q.T), mixing, data)
        for q in turns
    )


def test_free_inference_error_is_least_over_signed_permutations():
    draw = np.random.default_rng(0)
    mixing = draw.standard_normal((6, 3))
    data = mixing @ mixing.T + np.eye(6)
    turns = [signed_permutation(3, draw) for _ in range(2000)]
    for beta in (0.3, 1.0, 5.0):
        vae = linear_beta_vae(data, 3, beta)
        found, turn = free_inference_error(vae, mixing, data)
        assert found == pytest.approx(brute_force(vae, mixing, data, turns), rel=1e-10)
        assert found == pytest.approx(brute_force(vae, mixing, data, [turn]), rel=1e-10)


def test_free_inference_error_rotates_equal_eigenvalues():
    draw = np.random.default_rng(1)
    mixing = frame(6, 3, draw) * np.array([3.0, 3.0, 1.0])  # the first two are not determined
    data = mixing @ mixing.T + np.eye(6)
    vae = linear_beta_vae(data, 3, 1.0)
    found, turn = free_inference_error(vae, mixing, data, tolerance=1e-6)
    assert found == pytest.approx(0, abs=1e-10)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
    assert inference_error(vae.encoder, vae.variances, mixing, data) > 0.1


def test_rotation_cost_vanishes_only_along_the_axes():
    draw = np.random.default_rng(0)
    decoder = linear_beta_vae(covariance(6, draw), 3, 0.4).decoder
    assert rotation_cost(decoder, signed_permutation(3, draw), beta=0.4) == pytest.approx(0)
    assert all(rotation_cost(decoder, orthogonal(3, draw), beta=0.4) > 1e-3 for _ in range(20))


def test_ppca_at_its_own_noise_beats_its_neighbors():
    data = covariance(5, np.random.default_rng(0))
    best = ppca(data, 2)
    assert best.variance == pytest.approx(np.mean(principal_axes(data)[0][2:]))
    for variance in (0.9 * best.variance, 1.1 * best.variance):
        assert ppca(data, 2, variance=variance).log_likelihood(data) < best.log_likelihood(data)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((np.eye(2), 1, 0.0), {}, "beta must be positive"),
        ((np.eye(2), 1, float("nan")), {}, "beta must be positive"),
        ((np.eye(2), 1), {"variance": 0.0}, "likelihood variance must be positive"),
        ((np.eye(2), 0), {}, "at least one latent"),
        ((np.diag([1.0, -1.0]), 1), {}, "no negative eigenvalue"),
        ((np.array([[1.0, 0.5], [0.0, 1.0]]), 1), {}, "symmetric"),
        ((np.full((2, 2), np.nan), 1), {}, "not finite"),
    ],
)
def test_what_cannot_be_solved_says_why(arguments, options, match):
    with pytest.raises(InputError, match=match):
        linear_beta_vae(*arguments, **options)


def test_ppca_needs_a_direction_left_for_noise():
    with pytest.raises(InputError, match="takes 1 to 1 latents"):
        ppca(np.eye(2), 2)
    with pytest.raises(InputError, match="must be positive"):
        ppca(np.eye(2), 1, variance=0.0)
