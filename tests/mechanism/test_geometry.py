"""Jacobians, Gram matrices, loss parts, Hessians: closed forms and automatic derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_decoders import conformal, curved, frame, linear, orthogonal, piecewise, polar
from planted_decoders import spherical as spherical_coordinates

from untwist.mechanism import (
    Geometry,
    Posteriors,
    as_likelihood,
    column_norms,
    covariance_relation,
    distance_to_orthogonality,
    elbo_comparison,
    hadamard_gap,
    hessian_shares,
    jacobians,
    likelihood_hessians,
    local_geometry,
    loss_split,
    mean_jacobians,
    noise_rule,
    posterior_kl,
    spectrum,
)
from untwist.types import InputError

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
CODES = DRAW.uniform(0.4, 1.2, (40, 3)).astype(np.float32)
WEIGHTS = jnp.asarray(DRAW.standard_normal((6, 3)), jnp.float32)


def bent(z):
    """A decoder with bends in every output."""
    return jnp.sin(WEIGHTS @ z) + 0.3 * (WEIGHTS @ z) ** 2


def test_jacobians_are_automatic_derivatives():
    expected = np.stack([jax.jacrev(bent)(code) for code in CODES])
    np.testing.assert_allclose(jacobians(bent, CODES), expected, atol=1e-5)
    np.testing.assert_allclose(jacobians(bent, CODES, chunk=7), expected, atol=1e-5)


def test_grams_of_a_prescribed_spectrum_and_rotation():
    turn = orthogonal(3)
    decode, _ = linear([3.0, 2.0, 0.5], turn)
    found = spectrum(local_geometry(decode, CODES).gram)
    np.testing.assert_allclose(found.values, np.tile([3.0, 2.0, 0.5], (40, 1)), rtol=1e-5)
    np.testing.assert_allclose(np.abs(found.vectors[0].T @ turn), np.eye(3), atol=1e-5)
    expected = distance_to_orthogonality(turn)
    np.testing.assert_allclose(distance_to_orthogonality(found.vectors), expected, atol=1e-5)


def test_orthogonal_coordinates_have_orthogonal_columns_of_known_length():
    flat = CODES[:, :2]
    gram = local_geometry(polar, flat).gram
    expected = np.stack([np.ones(40), flat[:, 0]], 1)
    np.testing.assert_allclose(column_norms(gram), expected, rtol=1e-5)
    gram = local_geometry(spherical_coordinates, CODES).gram
    lengths = np.stack([np.ones(40), CODES[:, 0], CODES[:, 0] * np.sin(CODES[:, 1])], 1)
    np.testing.assert_allclose(column_norms(gram), lengths, rtol=1e-4)
    assert hadamard_gap(gram).max() < 1e-5
    assert hadamard_gap(local_geometry(curved, CODES).gram).max() < 1e-5


def test_a_conformal_map_has_equal_singular_values():
    gram = local_geometry(conformal, CODES[:, :2]).gram
    expected = np.exp(2 * CODES[:, 0])[:, None, None] * np.eye(2)
    np.testing.assert_allclose(gram, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["squared_error", "gaussian", "bernoulli"])
def test_likelihoods_are_their_own_derivatives(name):
    model = as_likelihood(name, 0.3)
    x, y, other = (jnp.asarray(DRAW.uniform(0, 1, 5), jnp.float32) for _ in range(3))
    slope = jax.grad(model.log_prob)(y, x)
    np.testing.assert_allclose(model.pull(y, x), slope, rtol=1e-5)
    bend = -jnp.diag(jax.hessian(model.log_prob)(y, x))
    np.testing.assert_allclose(model.curvature(y), bend, rtol=1e-4)
    # The divergence is what remains of the change of -log p beyond its slope, whatever x.
    change = model.log_prob(y, x) - model.log_prob(other, x) + slope @ (other - y)
    np.testing.assert_allclose(model.divergence(y, other), change, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["squared_error", "gaussian", "bernoulli"])
def test_hessians_and_information(name):
    model = as_likelihood(name, 0.3)
    x = DRAW.uniform(0, 1, (40, 6)).astype(np.float32)
    found = likelihood_hessians(bent, CODES, x, likelihood=model)
    one = jax.hessian(lambda z, x: model.log_prob(bent(z), x))
    expected = np.stack([one(z, row) for z, row in zip(CODES, x, strict=True)])
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
    geometry = local_geometry(bent, CODES, likelihood=model)
    curvature = np.stack([model.curvature(bent(z)) for z in CODES])
    slopes = np.stack([jax.jacrev(bent)(z) for z in CODES])
    expected = np.einsum("ipj,ip,ipk->ijk", slopes, curvature, slopes)
    np.testing.assert_allclose(geometry.information, expected, rtol=1e-3, atol=1e-4)


def test_jacobians_from_anywhere_give_the_same_geometry():
    outputs = np.stack([bent(z) for z in CODES])
    matrices = jacobians(bent, CODES)
    for name in ("squared_error", "bernoulli"):
        ours = local_geometry(bent, CODES, likelihood=name)
        theirs = local_geometry(matrices, CODES, likelihood=name, outputs=outputs)
        np.testing.assert_allclose(theirs.gram, ours.gram, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(theirs.information, ours.information, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="give outputs"):
        local_geometry(matrices, CODES, likelihood="bernoulli")
    with pytest.raises(InputError, match=r"40 items and 3 latents.*\(40, 6, 2\)"):
        local_geometry(matrices[..., :2], CODES)
    with pytest.raises(InputError, match="NaN"):
        local_geometry(np.full_like(matrices, np.nan), CODES)


def test_mean_jacobians_of_logits_are_those_of_probabilities():
    expected = np.stack([jax.jacrev(lambda z: jax.nn.sigmoid(bent(z)))(code) for code in CODES])
    found = mean_jacobians(bent, CODES, likelihood="bernoulli")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_piecewise_linear_decoder_has_no_bends():
    codes = DRAW.standard_normal((30, 2)).astype(np.float32) + 0.01
    x = DRAW.standard_normal((30, 3)).astype(np.float32)
    geometry = local_geometry(piecewise, codes)
    found = hessian_shares(likelihood_hessians(piecewise, codes, x), geometry)
    assert found.bends == 0
    assert found.off_diagonal == 0
    np.testing.assert_allclose(found.hessian, -geometry.information, rtol=1e-6)


def test_shares_off_the_diagonal():
    hessian = -np.array([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]])
    found = hessian_shares(hessian, Geometry(-hessian, -hessian))
    assert found.off_diagonal == pytest.approx(np.sqrt(0.5) / 2)
    assert found.bends == 0


def split_of(decode, mean, sigma, x, **options):
    posteriors = Posteriors(mean, sigma)
    name = options.get("likelihood", "squared_error")
    geometry = local_geometry(decode, mean, likelihood=name)
    return loss_split(decode, posteriors, x, key=KEY, geometry=geometry, **options)


def test_the_loss_of_a_linear_decoder_has_no_bias_and_the_linearized_noise():
    decode, matrix = linear([3.0, 2.0, 0.5], orthogonal(3))
    sigma = DRAW.uniform(0.1, 0.5, (40, 3)).astype(np.float32)
    x = DRAW.standard_normal((40, 7)).astype(np.float32)
    found = split_of(decode, CODES, sigma, x, draws=400)
    exact = np.mean(sigma.astype(float) ** 2 @ np.sum(matrix**2, 0))
    assert found.linearized == pytest.approx(exact, rel=1e-5)
    assert found.stochastic == pytest.approx(exact, abs=4 * found.stochastic_error)
    assert found.bias == pytest.approx(0, abs=1e-6)  # mirrored draws cancel
    clean = np.mean(np.sum((CODES @ matrix.T - x) ** 2, 1))
    assert found.deterministic == pytest.approx(clean, rel=1e-5)
    assert found.total == pytest.approx(found.deterministic + found.stochastic + found.bias)


def test_the_bias_of_a_square_is_exact():
    # Dec(z) = z^2: E Dec(z) - Dec(mu) = s^2 and E(z^2 - mu^2)^2 = 4 mu^2 s^2 + 3 s^4.
    mean, width = np.full((200, 1), 1.5, np.float32), 0.4
    x = np.ones((200, 1), np.float32)
    found = split_of(lambda z: z**2, mean, np.full_like(mean, width), x, draws=200)
    assert found.bias_error > 0
    bias = 2 * width**2 * (1.5**2 - 1)
    assert found.bias == pytest.approx(bias, abs=4 * found.bias_error)
    noise = 4 * 1.5**2 * width**2 + 3 * width**4
    assert found.stochastic == pytest.approx(noise, abs=4 * found.stochastic_error)


def test_the_split_of_a_bernoulli_loss_adds_up():
    sigma = np.full((40, 3), 0.2, np.float32)
    x = DRAW.integers(0, 2, (40, 6)).astype(np.float32)
    found = split_of(bent, CODES, sigma, x, likelihood="bernoulli", draws=500)
    model = as_likelihood("bernoulli")
    noise = jax.random.normal(jax.random.key(7), (500, 40, 3)) * 0.2
    one = lambda e, z, x: -model.log_prob(bent(z + e), x)  # noqa: E731
    losses = jax.vmap(jax.vmap(one), (0, None, None))(noise, CODES, x).mean(1)
    error = float(np.hypot(found.total_error, losses.std() / np.sqrt(500)))
    assert found.total == pytest.approx(float(losses.mean()), abs=4 * error)
    assert found.linearized == pytest.approx(found.stochastic, rel=0.25)


def test_a_full_covariance_costs_the_trace():
    decode, matrix = linear([3.0, 2.0, 0.5], orthogonal(3))
    factor = np.tril(DRAW.uniform(0.1, 0.4, (40, 3, 3))).astype(np.float32)
    found = split_of(decode, CODES, factor, np.zeros((40, 7), np.float32), draws=400)
    covariance = np.einsum("ijk,ilk->ijl", factor, factor)
    exact = np.einsum("jk,ikj->i", matrix.T @ matrix, covariance).mean()
    assert found.linearized == pytest.approx(exact, rel=1e-5)
    assert found.stochastic == pytest.approx(exact, abs=4 * found.stochastic_error)


def test_points_have_no_stochastic_part():
    with pytest.raises(InputError, match="no stochastic part"):
        split_of(bent, CODES, None, np.zeros((40, 6), np.float32))


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_the_covariance_relation_at_the_optimum(beta):
    geometry = local_geometry(bent, CODES)
    information = geometry.information.astype(float)
    diagonal = 1 / (1 + np.diagonal(information, 0, 1, 2) / beta)
    found = covariance_relation(geometry, Posteriors(CODES, np.sqrt(diagonal)), beta=beta)
    assert found.slope == pytest.approx(1 / beta, rel=1e-4)
    assert found.expected == 1 / beta
    assert found.residual < 1e-5
    assert len(found.failing) == 0
    full = np.linalg.inv(np.eye(3) + information / beta)
    found = covariance_relation(geometry, Posteriors(CODES, np.linalg.cholesky(full)), beta=beta)
    assert found.slope == pytest.approx(1 / beta, rel=1e-3)
    assert found.off_diagonal < 1e-4


def test_the_covariance_relation_names_the_latents_that_fail():
    geometry = local_geometry(bent, CODES)
    diagonal = 1 / (1 + np.diagonal(geometry.information.astype(float), 0, 1, 2))
    diagonal[:, 1] *= 3
    found = covariance_relation(geometry, Posteriors(CODES, np.sqrt(diagonal)))
    assert found.failing.tolist() == [1]
    assert found.per_latent[1] == pytest.approx(3, rel=1e-3)


def test_the_diagonal_optimum_is_not_the_diagonal_of_the_full_one():
    geometry = Geometry(*2 * (np.array([[[2.0, 1.0], [1.0, 5.0]]]),))
    diagonal = np.array([[1 / 3, 1 / 6]])
    assert covariance_relation(
        geometry, Posteriors(np.zeros((1, 2)), np.sqrt(diagonal))
    ).residual == (pytest.approx(0, abs=1e-12))


def test_the_noise_rule_of_other_slopes():
    norms = np.exp(DRAW.standard_normal((50, 3)))
    found = noise_rule(norms, 0.01 * norms**-1.0)
    assert found.slope == pytest.approx(0.5)
    assert found.correlation == pytest.approx(1)
    with pytest.raises(InputError, match="two or more entries"):
        noise_rule(np.zeros((5, 2)), np.ones((5, 2)))


def test_the_deterministic_elbo_is_exact_for_a_linear_decoder():
    decode, matrix = linear([2.0, 1.0, 0.5], orthogonal(3))
    sigma, x = np.full((40, 3), 0.3, np.float32), DRAW.standard_normal((40, 7)).astype(np.float32)
    posteriors = Posteriors(CODES, sigma)
    hessian = likelihood_hessians(decode, CODES, x)
    split = split_of(decode, CODES, sigma, x, draws=100)
    found = elbo_comparison(hessian, posteriors, split, beta=2.0)
    kl = 0.5 * (CODES**2 + 0.09 - np.log(0.09) - 1).sum(1).mean()
    clean = np.sum((CODES @ matrix.T - x) ** 2, 1).mean()
    exact = -clean - 0.09 * np.sum(matrix**2) - 2 * kl
    assert found.deterministic == pytest.approx(exact, rel=1e-4)
    assert found.gap == pytest.approx(0, abs=4 * found.error)
    assert posterior_kl(posteriors).mean() == pytest.approx(kl, rel=1e-5)


def test_the_gap_of_the_deterministic_elbo_is_of_fourth_order():
    # Dec(z) = z^2 at x = mu^2: E(z^2 - mu^2)^2 = 4 mu^2 s^2 + 3 s^4, of which 4 mu^2 s^2 is kept.
    mean, x = np.full((500, 1), 1.0, np.float32), np.ones((500, 1), np.float32)
    for width in (0.4, 0.2):
        sigma = np.full_like(mean, width)
        split = split_of(lambda z: z**2, mean, sigma, x, draws=400)
        hessian = likelihood_hessians(lambda z: z**2, mean, x)
        found = elbo_comparison(hessian, Posteriors(mean, sigma), split)
        assert found.gap == pytest.approx(-3 * width**4, abs=4 * found.error)


def test_errors_at_their_boundary():
    with pytest.raises(InputError, match="one row an item"):
        jacobians(bent, CODES[0])
    with pytest.raises(InputError, match="did you mean 'bernoulli'"):
        local_geometry(bent, CODES, likelihood="bernouli")
    with pytest.raises(InputError, match="needs its variance"):
        local_geometry(bent, CODES, likelihood="gaussian")
    with pytest.raises(InputError, match="not finite at some codes"):
        local_geometry(lambda z: z / 0, CODES)
    with pytest.raises(InputError, match="beta above 0"):
        covariance_relation(local_geometry(bent, CODES), Posteriors(CODES, CODES), beta=0.0)
    assert frame(4, 2).shape == (4, 2)
