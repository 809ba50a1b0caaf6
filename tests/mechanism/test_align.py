"""Alignment undoes what was planted, changes no reconstruction, and reaches its minimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_decoders import curved, frame, orthogonal, rotation

from untwist.datasets import linear
from untwist.mechanism import (
    align,
    distance_to_orthogonality,
    jacobians,
    local_geometry,
    spectrum,
)
from untwist.mechanism.align import _best_turn
from untwist.metrics import neighbor_score
from untwist.types import InputError

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)


def distance(decode, codes):
    return distance_to_orthogonality(spectrum(local_geometry(decode, codes).gram).vectors).mean()


@pytest.fixture(scope="module")
def mixed():
    """White, orthogonal axes behind an affine map: a plain autoencoder's latent space."""
    axes = DRAW.standard_normal((1500, 3))
    axes = (axes - axes.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(axes.T, bias=True))).T
    mix = np.array([[2.0, 0.7, 0.1], [-0.4, 1.0, 0.6], [0.3, 0.5, 1.5]])
    back = jnp.asarray(np.linalg.inv(mix), jnp.float32)
    codes = (axes @ mix.T + [1.0, 2.0, 3.0]).astype(np.float32)
    return axes, codes, lambda z: curved(back @ (z - jnp.array([1.0, 2.0, 3.0])))


def test_alignment_finds_the_axes_of_a_nonlinear_decoder(mixed):
    axes, codes, decode = mixed
    found = align(decode, codes, key=KEY)
    aligned = found.align(codes)
    crossed = np.abs(axes.T @ aligned) / len(axes)
    np.testing.assert_allclose(crossed, np.eye(3), atol=0.02)
    assert found.start_distance > 0.5
    assert found.distance < 0.05
    assert distance(found.decode(decode), aligned[:200].astype(np.float32)) < 0.05
    np.testing.assert_allclose(np.cov(aligned.T, bias=True), np.eye(3), atol=1e-5)
    assert (np.diff(found.lengths) < 0).all()


def test_reconstructions_stay_what_they_were(mixed):
    _, codes, decode = mixed
    found = align(decode, codes, key=KEY, restarts=2)
    before = jax.vmap(decode)(codes)
    after = jax.vmap(found.decode(decode))(found.align(jnp.asarray(codes)))
    np.testing.assert_allclose(after, before, atol=2e-5)
    np.testing.assert_allclose(found.restore(found.align(codes)), codes, atol=1e-5)


def test_the_same_axes_from_jacobians_alone(mixed):
    _, codes, decode = mixed
    whole = align(decode, codes[:300], key=KEY, restarts=2)
    arrays = align(jacobians(decode, codes[:300]), codes[:300], key=KEY, restarts=2)
    np.testing.assert_allclose(arrays.to_aligned, whole.to_aligned, atol=1e-4)


def test_alignment_does_not_depend_on_the_latents_it_starts_from(mixed):
    _, codes, decode = mixed
    turn = orthogonal(3, 5) @ np.diag([1.0, 5.0, 0.2])
    other = lambda z: decode(jnp.asarray(np.linalg.inv(turn), z.dtype) @ z)  # noqa: E731
    first = align(decode, codes, key=KEY).align(codes)
    second = align(other, (codes @ turn.T).astype(np.float32), key=KEY).align(codes @ turn.T)
    np.testing.assert_allclose(np.abs(first), np.abs(second), atol=0.01)


def test_the_minimum_in_a_plane_is_that_of_a_fine_grid():
    for seed in range(5):
        draw = np.random.default_rng(seed)
        gram = np.einsum("ipj,ipk->ijk", *2 * (draw.standard_normal((20, 4, 2)),))
        angles = np.linspace(-np.pi / 4, np.pi / 4, 20_001)
        cost = [
            np.log(np.diagonal(rotation(a).T @ gram @ rotation(a), 0, 1, 2)).sum(1).mean()
            for a in angles
        ]
        assert _best_turn(gram, 0.0) == pytest.approx(angles[np.argmin(cost)], abs=1e-4)


def test_codes_that_do_not_fill_their_space():
    axes = DRAW.standard_normal((400, 2))
    span = frame(4, 2)
    codes = (axes @ span.T).astype(np.float32)
    matrix = jnp.asarray(frame(6, 4, 1) * [4.0, 3.0, 2.0, 1.0], jnp.float32)
    found = align(lambda z: matrix @ z, codes, key=KEY)
    assert found.to_aligned.shape == (2, 4)
    np.testing.assert_allclose(found.restore(found.align(codes)), codes, atol=1e-5)
    assert found.distance < 1e-5


def test_a_passive_latent_is_not_blown_up():
    mean = DRAW.standard_normal((500, 3)).astype(np.float32) * [1.0, 1.0, 1e-3]
    sigma = np.tile(np.float32([0.1, 0.1, 1.0]), (500, 1))
    turn = np.eye(3)
    turn[:2, :2] = rotation(0.6)
    matrix = jnp.asarray(frame(6, 3) * [3.0, 1.0, 0.0] @ turn.T, jnp.float32)
    found = align(lambda z: matrix @ z, (mean.astype(np.float32), sigma), key=KEY, floor=0.01)
    assert found.lengths[2] == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(np.abs(found.to_aligned[2]), [0, 0, 1], atol=0.05)
    expected = np.diag([1, 1]) @ turn[:2, :2].T
    white = found.to_aligned[:2, :2]
    crossed = np.abs(white @ expected.T) / np.linalg.norm(white, axis=1)[:, None]
    np.testing.assert_allclose(crossed, np.eye(2), atol=0.1)


def test_one_latent_and_equal_codes():
    codes = DRAW.standard_normal((50, 1)).astype(np.float32)
    found = align(lambda z: jnp.concatenate([z, 2 * z]), codes, key=KEY)
    assert found.distance == 0
    assert found.lengths[0] == pytest.approx(np.sqrt(5) * codes.std(), rel=1e-4)
    with pytest.raises(InputError, match="all codes are the same"):
        align(jnp.tanh, np.ones((20, 2)), key=KEY)


def test_the_wrapped_encoder_keeps_the_posterior():
    mean = DRAW.standard_normal((300, 2)).astype(np.float32)
    sigma = np.full((300, 2), 0.2, np.float32)
    found = align(lambda z: jnp.array([2 * z[0] + z[1], z[1]]), (mean, sigma), key=KEY)
    codes, factor = found.encode(lambda x: (x, jnp.full(x.shape, 0.2)))(jnp.asarray(mean))
    np.testing.assert_allclose(codes, found.align(mean), atol=1e-5)
    covariance = 0.04 * found.to_aligned @ found.to_aligned.T
    np.testing.assert_allclose(factor[0] @ factor[0].T, covariance, atol=1e-5)
    points, nothing = found.encode(lambda x: (x, None))(jnp.asarray(mean))
    assert nothing is None
    np.testing.assert_allclose(points, codes)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_entangled_linear_autoencoder_gets_the_factors_of_the_linear_set(seed):
    # What any converged linear autoencoder is: an invertible map of the set's plane.
    data = linear(samples=20_000, seed=seed)
    x, draw = data.examples(slice(None)), np.random.default_rng(seed)
    plane = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:2].T
    mix = draw.standard_normal((2, 2))
    codes = ((x - x.mean(0)) @ plane @ mix.T).astype(np.float32)
    back = jnp.asarray(plane @ np.linalg.inv(mix), jnp.float32)
    found = align(lambda z: back @ z + x.mean(0), codes, key=KEY)

    def score(codes):
        return neighbor_score(codes[:5000], data.factors[:5000], data.space, key=KEY).value

    assert score(codes) < 0.9
    assert score(found.align(codes)) > 0.97
    assert found.distance < 0.02
