"""DIP-VAE: the penalties are those that numpy computes from the same codes."""

import jax
import numpy as np
import pytest
from planted_models import EXAMPLES, KEY, batch, model

from untwist.objectives import DIPVAEI, DIPVAEII


def penalties(covariance):
    diagonal = np.diagonal(covariance)
    off = (covariance**2).sum() - (diagonal**2).sum()
    return off, ((diagonal - 1) ** 2).sum()


@pytest.mark.parametrize("posterior", ["diagonal", "full"])
@pytest.mark.parametrize(("objective", "second"), [(DIPVAEI, False), (DIPVAEII, True)])
def test_the_penalties_equal_numpy(objective, second, posterior):
    vae = model(posterior)
    found = [vae.encode(x) for x in EXAMPLES]
    covariance = np.cov(np.stack([q.mean for q in found]).T, ddof=0)
    if second:
        covariance = covariance + np.mean([q.covariance for q in found], axis=0)
    off, diagonal = penalties(covariance)
    ours = objective(7.0, 3.0)(vae, None, batch(), key=KEY)
    np.testing.assert_allclose(ours.parts["off_diagonal_penalty"], off, rtol=1e-4)
    np.testing.assert_allclose(ours.parts["diagonal_penalty"], diagonal, rtol=1e-4)
    expected = ours.parts["reconstruction"] + ours.parts["kl"] + 7 * (off + 3 * diagonal)
    np.testing.assert_allclose(ours.loss, expected, rtol=1e-5)


def test_the_covariance_of_all_codes_is_what_the_second_kind_estimates():
    """Draws from the posteriors have the covariance whose penalty is logged."""
    vae = model("full")
    posterior = jax.vmap(vae.encode)(EXAMPLES)
    keys = jax.random.split(jax.random.key(5), 20_000)
    noise = jax.vmap(lambda key: jax.random.normal(key, posterior.mean.shape))(keys)
    draws = jax.vmap(jax.vmap(lambda q, e: q.at(e)), (None, 0))(posterior, noise)
    off, diagonal = penalties(np.cov(np.asarray(draws, float).reshape(-1, 3).T))
    parts = DIPVAEII()(vae, None, batch(), key=KEY).parts
    # 160,000 draws: a standard error of about 1% of each entry.
    np.testing.assert_allclose(parts["off_diagonal_penalty"], off, rtol=0.05)
    np.testing.assert_allclose(parts["diagonal_penalty"], diagonal, rtol=0.05)


def test_latents_have_penalties_of_their_own():
    """One latent's variance does not enter another's (nmichlo/disent, _unsupervised__dipvae.py)."""
    vae = model("diagonal")
    parts = DIPVAEII()(vae, None, batch(), key=KEY).parts
    found = [vae.encode(x) for x in EXAMPLES]
    variances = np.mean([q.variance for q in found], axis=0)
    assert np.ptp(variances) > 0.1
    means = np.cov(np.stack([q.mean for q in found]).T, ddof=0)
    wrong = penalties(means + np.diag(np.full(3, variances.mean())))[1]
    assert abs(float(parts["diagonal_penalty"]) - wrong) > 1e-2
