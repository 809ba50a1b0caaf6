"""A population of linear VAEs, trained as any other, ends where the closed form says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import Dataset
from untwist.factors import FactorSpace
from untwist.theory import linear_beta_vae
from untwist.theory.draws import orthogonal
from untwist.training import Conduct, Spec, train

BETAS = (0.8, 1.4, 3.0)
EIGENVALUES = np.array([16.0, 5.0, 1.6, 0.2, 0.2, 0.2])  # the third collapses at the last beta
SPEC = Spec(
    "planted",
    architecture="linear",
    latents=3,
    likelihood="gaussian",
    optimizer="adagrad",  # its steps shrink, so that the noise of the samples averages out
    batch=400,
    steps=20_000,
    log_every=20_000,
    vary={"beta": BETAS, "variance": (1.0,), "learning_rate": (0.2,)},
    seeds=(0, 1),
)


@pytest.fixture(scope="module")
def planted():
    draw = np.random.default_rng(0)
    root = orthogonal(6, draw) * np.sqrt(EIGENVALUES)
    sources = draw.standard_normal((400, 6)).astype(np.float32)
    data = (sources @ root.T + 1.0).astype(np.float32)
    space = FactorSpace(tuple("abcdef"), (None,) * 6, ("continuous",) * 6)
    provenance = {"source": "planted", "twin": False, "version": 1}
    return Dataset("planted", data, sources, space, "gaussian", provenance, (6,))


def linear_maps(model, x):
    """Decoder, encoder and posterior variances of a model made of affine maps."""
    decoder = jax.jacobian(model.decode)(jnp.zeros(3))
    encoder = jax.jacobian(lambda x: model.encode(x).mean)(jnp.zeros(6))
    variances = jax.vmap(lambda x: model.encode(x).variance)(x)
    return (np.asarray(value, float) for value in (decoder, encoder, variances))


@pytest.mark.slow
def test_a_trained_population_converges_to_the_closed_form(planted):
    population = train(SPEC, dataset=planted, conduct=Conduct(progress=False))
    covariance = np.cov(planted.data.astype(float).T, bias=True)
    root = np.linalg.cholesky(covariance)
    for member, beta in enumerate(population.members["beta"]):
        exact = linear_beta_vae(covariance, 3, float(beta), variance=1.0)
        model = jax.tree.map(lambda leaf, m=member: leaf[m], population.models)
        decoder, encoder, variances = linear_maps(model, jnp.asarray(planted.data))
        order = np.argsort(-np.linalg.norm(decoder, axis=0))
        signs = np.sign(np.sum(decoder[:, order] * exact.axes, axis=0))
        found = decoder[:, order] * signs
        assert np.linalg.norm(found - exact.decoder) < 1e-2 * np.linalg.norm(exact.decoder)
        # Codes and variances are flatter directions of the objective: the noise moves them further.
        miss = (encoder[order] * signs[:, None] - exact.encoder) @ root
        assert np.linalg.norm(miss) < 2e-2 * np.linalg.norm(exact.encoder @ root)
        np.testing.assert_allclose(variances.mean(0)[order], exact.variances, atol=2e-2)
        assert (variances.mean(0)[order] < 0.9).tolist() == exact.active.tolist()


def test_the_closed_form_of_these_data_is_no_accident_of_the_start(planted):
    covariance = np.cov(planted.data.astype(float).T, bias=True)
    exact = linear_beta_vae(covariance, 3, np.array(BETAS))
    assert exact.active.sum(axis=1).tolist() == [3, 3, 2]
    few = Spec(**{**vars(SPEC), "steps": 20, "log_every": 20, "seeds": (0,)})
    population = train(few, dataset=planted, conduct=Conduct(progress=False))
    model = jax.tree.map(lambda leaf: leaf[0], population.models)
    decoder, _, _ = linear_maps(model, jnp.asarray(planted.data))
    order = np.argsort(-np.linalg.norm(decoder, axis=0))
    found = decoder[:, order] * np.sign(np.sum(decoder[:, order] * exact.axes, axis=0))
    assert np.linalg.norm(found - exact.decoder[0]) > 0.1 * np.linalg.norm(exact.decoder[0])
