"""Posteriors, independence, plateaus, factors, directions and free angles against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from planted_decoders import conformal, frame, linear, orthogonal, polar, rotation

from untwist.mechanism import (
    Posteriors,
    direction_agreement,
    factorization,
    free_angles,
    gaussian_total_correlation,
    jacobians,
    local_geometry,
    match_factors,
    neighbor_directions,
    plateau_contrast,
    polarization,
    polarized_share,
    posterior_overlap,
    posteriors_of,
    principal_directions,
    profile,
    total_correlation,
)
from untwist.mechanism.identifiability import turn_cost
from untwist.types import InputError

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)


def test_kinds_of_latents():
    mean = np.zeros((100, 3))
    sigma = np.tile([0.1, 1.0, 1.0], (100, 1))
    sigma[:50, 2] = 0.1
    mean[:, 0] = DRAW.standard_normal(100)
    found = polarization(mean, sigma)
    assert found.kinds.tolist() == ["active", "passive", "mixed"]
    assert found.active.tolist() == [True, False, True]
    assert found.active_share.tolist() == [1.0, 0.0, 0.5]
    assert found.over_pruned(3)
    assert not found.over_pruned(2)


def test_the_remainder_of_the_polarized_kl():
    mean, sigma = DRAW.standard_normal((50, 4)), DRAW.uniform(0.05, 1.2, (50, 4))
    found = polarization(mean, sigma)
    exact = 0.5 * (mean**2 + sigma**2 - np.log(sigma**2) - 1)
    rest = 0.5 * (sigma**2).mean(0)[found.active].sum() + exact.mean(0)[~found.active].sum()
    assert found.kl == pytest.approx(exact.sum(1).mean())
    assert found.kl - found.polarized_kl == pytest.approx(rest)
    assert found.relative_error == pytest.approx(rest / found.kl)


def test_polarization_of_a_population_is_that_of_its_members():
    mean, sigma = DRAW.standard_normal((3, 50, 4)), DRAW.uniform(0.05, 1.2, (3, 50, 4))
    whole = polarization(mean, sigma)
    for member in range(3):
        one = polarization(mean[member], sigma[member])
        assert whole.kinds[member].tolist() == one.kinds.tolist()
        assert whole.kl[member] == pytest.approx(float(one.kl))
    assert whole.over_pruned(5).tolist() == [True] * 3


def test_a_collapsed_posterior_has_no_error():
    found = polarization(np.zeros((10, 2)), np.ones((10, 2)))
    assert found.kinds.tolist() == ["passive", "passive"]
    assert (found.kl, found.relative_error) == (0, 0)


@pytest.mark.parametrize(
    ("errors", "share"),
    [([0, 0, 0, 0], 1.0), ([1, 0, 0, 0], 0.75), ([0, 0, 1, 0], 0.25), ([0, 0, 0, 1], 0.0)],
)
def test_share_of_training(errors, share):
    kl = np.full(4, 2.0)
    found = polarized_share(np.array([5, 10, 15, 20]), kl, kl - np.array(errors))
    assert found == share


def test_widths_are_checked():
    mean = np.zeros((5, 2), np.float32)
    with pytest.raises(InputError, match=r"not variances or log-variances.*from -1"):
        posteriors_of((mean, mean - 1), None)
    with pytest.raises(InputError, match=r"shape \(5, 2\).*\(5, 2, 2\).*got \(5, 3\)"):
        posteriors_of((mean, np.ones((5, 3))), None)
    with pytest.raises(InputError, match="means must be finite"):
        posteriors_of((mean * np.nan, None), None)
    with pytest.raises(InputError, match="needs examples"):
        posteriors_of(lambda x: (x, None), None)
    assert posteriors_of((mean, np.zeros((5, 2))), None).sigma is None


def test_an_encoder_is_streamed():
    x = DRAW.standard_normal((25, 4)).astype(np.float32)
    sizes = set()

    def encode(batch):
        sizes.add(len(batch))
        return batch[:, :2], jnp.exp(batch[:, 2:])

    found = posteriors_of(encode, x, chunk=10)
    assert sizes == {10}
    np.testing.assert_array_equal(found.mean, x[:, :2])
    np.testing.assert_allclose(found.sigma, np.exp(x[:, 2:]), rtol=1e-6)


def test_the_density_factorizes_exactly_where_columns_are_orthogonal():
    codes = DRAW.uniform(0.5, 1.5, (30, 2)).astype(np.float32)
    found = factorization(local_geometry(polar, codes).gram, codes)
    prior = scipy.stats.norm.logpdf(codes).sum(1)
    np.testing.assert_allclose(found.log_density, prior - np.log(codes[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(found.axis_log_densities.sum(1), found.log_density, rtol=1e-4)
    skew = lambda z: polar(jnp.array([[1.0, 0.5], [0.0, 1.0]]) @ z)  # noqa: E731
    gram = local_geometry(skew, codes).gram
    found = factorization(gram, codes)
    exact = prior - 0.5 * np.linalg.slogdet(gram.astype(float))[1]
    np.testing.assert_allclose(found.log_density, exact, rtol=1e-4)
    assert found.gap.min() > 0.01


def test_total_correlation_of_gaussians():
    exact = gaussian_total_correlation(np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    assert exact == pytest.approx(-0.5 * np.log(0.4**2 * 2.2))
    # A mixture of wide posteriors along correlated means is nearly the Gaussian itself.
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    # The seed is the key's: the draws must not be those that the data came from.
    mean = np.random.default_rng(0).multivariate_normal(np.zeros(2), covariance, 1000)
    found = total_correlation(Posteriors(mean, np.full((1000, 2), 0.5)), key=jax.random.key(0))
    exact = gaussian_total_correlation(covariance + 0.25 * np.eye(2))
    assert found.gaussian == pytest.approx(exact, abs=0.05)
    assert found.mixture == pytest.approx(exact, abs=4 * found.error + 0.02)


def test_total_correlation_of_full_covariances():
    factor = np.linalg.cholesky(np.array([[1.0, 0.8], [0.8, 1.0]]))
    same = Posteriors(np.zeros((400, 2)), np.tile(factor, (400, 1, 1)))
    found = total_correlation(same, key=KEY)
    exact = -0.5 * np.log(1 - 0.64)
    assert found.gaussian == pytest.approx(exact)
    assert found.mixture == pytest.approx(exact, abs=4 * found.error)


def test_points_have_a_gaussian_total_correlation_only():
    mean = DRAW.standard_normal((100, 2))
    found = total_correlation(Posteriors(mean, None), key=KEY)
    assert found.mixture is None
    assert found.gaussian == pytest.approx(gaussian_total_correlation(np.cov(mean.T, bias=True)))


def test_overlap_is_the_integral():
    mean, sigma = np.array([[0.0], [0.7]]), np.array([[0.5], [1.2]])
    found = posterior_overlap(Posteriors(mean, sigma), None, key=KEY)
    first, second = scipy.stats.norm(0, 0.5), scipy.stats.norm(0.7, 1.2)
    exact = scipy.integrate.quad(lambda z: np.sqrt(first.pdf(z) * second.pdf(z)), -9, 9)[0]
    assert found.nearest == pytest.approx(exact)


def test_overlaps_belong_to_neighbors_of_the_data():
    x = DRAW.standard_normal((300, 2)).astype(np.float32)
    near = posterior_overlap(Posteriors(x, np.full_like(x, 0.3)), x, key=KEY)
    assert near.agreement == 1
    shuffled = DRAW.permutation(x)
    far = posterior_overlap(Posteriors(shuffled, np.full_like(x, 0.3)), x, key=KEY)
    assert far.agreement == pytest.approx(far.chance, abs=4 * np.sqrt(far.chance / 1500))


def test_profiles_of_known_decoders():
    line = np.linspace(0.5, 2.0, 16)
    found = profile(polar, np.array([1.0, 0.3]), 0, line)
    np.testing.assert_allclose(found.length, 1, rtol=1e-5)
    expected = np.sort(np.stack([np.ones(16), line], 1), 1)[:, ::-1]
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-4)
    swapped = np.abs(found.vectors[-1])  # beyond r = 1 the angle moves the output faster
    np.testing.assert_allclose(swapped, [[0, 1], [1, 0]], atol=1e-5)
    assert found.flat == 0
    steps = profile(lambda z: jnp.tanh(8 * z), np.zeros(1), 0, np.linspace(-2, 2, 41))
    assert steps.flat > 0.7
    with pytest.raises(InputError, match="latent 2 does not exist: expected 0 to 1"):
        profile(polar, np.array([1.0, 0.3]), 2, line)


def test_plateaus_at_the_data():
    codes = np.array([[-1.0], [1.0]], np.float32)
    steep = plateau_contrast(lambda z: jnp.tanh(3 * z), codes)
    exact = (1 - np.tanh(3) ** 2) / 1
    assert steep.ratio == pytest.approx(exact, rel=1e-3)
    assert plateau_contrast(lambda z: 2 * z, codes).ratio == 1


def test_factors_find_their_latents():
    factors = DRAW.integers(0, 8, (2000, 3))
    angle = factors[:, 2] * 2 * np.pi / 8
    codes = np.stack(
        [-(factors[:, 1] ** 3.0), DRAW.standard_normal(2000), np.sin(angle), factors[:, 0]], 1
    )
    found = match_factors(codes, factors)
    assert found.by_information.tolist() == [3, 0, 2]
    assert found.by_correlation[:2].tolist() == [3, 0]
    assert found.correlation[0, 1] == pytest.approx(1)
    for latent, factor in ((0, 1), (1, 2), (2, 2)):
        spearman = scipy.stats.spearmanr(codes[:, latent], factors[:, factor])[0]
        assert found.correlation[latent, factor] == pytest.approx(abs(spearman))
    hidden = match_factors(codes, factors, active=np.array([False, True, True, False]))
    assert set(hidden.by_information) <= {-1, 1, 2}


def test_constants_and_too_few_latents_match_nothing():
    factors = np.stack([np.arange(50), np.zeros(50, int), np.arange(50)[::-1]], 1)
    found = match_factors(np.zeros((50, 1)), factors)
    assert found.by_information.tolist() == [-1, -1, -1]
    assert np.isfinite(found.correlation).all()
    found = match_factors(np.arange(50.0)[:, None], factors)
    assert sorted(found.by_correlation.tolist()) == [-1, -1, 0]
    with pytest.raises(InputError, match="one row for each of 50 items"):
        match_factors(np.zeros((50, 1)), factors[:20])


def test_directions_of_the_generator():
    codes = DRAW.uniform(0.5, 1.5, (40, 2)).astype(np.float32)
    directions = principal_directions(jacobians(polar, codes))
    aligned = direction_agreement(jacobians(polar, codes), directions)
    assert aligned.columns == pytest.approx(1, abs=1e-5)
    assert aligned.subspace == pytest.approx(1, abs=1e-5)
    skew = lambda z: polar(jnp.asarray(rotation(np.pi / 4), z.dtype) @ z)  # noqa: E731
    turned = (codes @ rotation(np.pi / 4)).astype(np.float32)
    skewed = direction_agreement(jacobians(skew, turned), directions)
    # The same tangent spaces and singular vectors, but the columns are not they.
    assert skewed.subspace == pytest.approx(1, abs=1e-4)
    assert skewed.axes == pytest.approx(1, abs=1e-4)
    assert skewed.columns < 0.95


def test_tangent_spaces_that_share_one_direction():
    first, second = np.eye(4)[None, :, :2], np.eye(4)[None, :, 1:3]
    assert direction_agreement(first, principal_directions(second)).subspace == pytest.approx(0.5)


def test_directions_of_neighbors():
    factors = DRAW.uniform(0, 1, (4000, 2))
    turn = frame(5, 2)
    x = (factors * [4.0, 1.0]) @ turn.T
    inner = np.flatnonzero((abs(factors - 0.5) < 0.2).all(1))[:30]
    found = neighbor_directions(x, x[inner], axes=2, neighbors=2000)
    shared = np.einsum("pd,ipd->id", turn, found)
    assert np.abs(shared).min() > 0.9
    near = neighbor_directions(x, x[inner], axes=2)
    shares = np.sum(np.einsum("pd,ipe->ide", turn, near) ** 2, (1, 2))
    np.testing.assert_allclose(shares, 2, rtol=1e-6)  # the tangent plane, whatever its axes
    wide = neighbor_directions(np.tile(x, 3), np.tile(x, 3)[inner[:3]], axes=2)
    assert wide.shape == (3, 15, 2)


def test_the_cost_of_a_turn_by_its_formula():
    a, b = 5.0, 2.0
    angles = np.linspace(-1, 1, 9)
    closed = 0.5 * np.log1p((a - b) ** 2 * np.sin(2 * angles) ** 2 / (4 * a * b))
    np.testing.assert_allclose(turn_cost(np.diag([a, b])[None], angles), closed, atol=1e-12)
    gram = np.array([[[3.0, 0.7], [0.7, 2.0]], [[1.0, -0.4], [-0.4, 2.0]]])
    turn = rotation(0.4)
    turned = turn.T @ gram @ turn
    logs = [np.log(np.diagonal(g, 0, 1, 2) + 0.1).sum(1) for g in (turned, gram)]
    direct = 0.5 * np.mean(logs[0] - logs[1])
    assert turn_cost(gram, np.array([0.4]), floor=0.1)[0] == pytest.approx(direct)


@pytest.mark.parametrize(("ratio", "low", "high"), [(1.0, 45, 45), (1.2, 15, 45), (2.0, 1, 8)])
def test_free_angles_of_the_linear_set(ratio, low, high):
    # rolinek2019, Table S4: undetermined at a ratio of 1, not quite determined at 1.2.
    decode, _ = linear([ratio, 1.0], np.eye(2))
    gram = local_geometry(decode, np.zeros((3, 2), np.float32)).gram
    found = free_angles(gram)
    degrees = np.degrees(found.angles[0, 1])
    assert low - 0.1 <= degrees <= high + 0.1
    assert bool(found.undetermined()) == (ratio < 1.5)
    if ratio > 1:
        spread = ratio**2 + ratio**-2 - 2
        sine = np.sqrt(4 * (np.exp(0.02) - 1) / spread)
        assert degrees == pytest.approx(np.degrees(0.5 * np.arcsin(sine)), rel=1e-2)


def test_a_conformal_map_leaves_every_angle_free():
    codes = DRAW.uniform(0, 1, (20, 2)).astype(np.float32)
    found = free_angles(local_geometry(conformal, codes).gram)
    assert found.undetermined() == [(0, 1)]
    assert found.angles[0, 1] == pytest.approx(np.pi / 4)
    assert found.costs[0, 1] == pytest.approx(0, abs=1e-6)
    assert orthogonal(2).shape == (2, 2)
