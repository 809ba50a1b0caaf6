"""A population's encoding of a dataset is that of its models, one example at a time."""

import jax
import numpy as np
import pytest

from untwist.datasets import load
from untwist.training import Spec, encode, encoding, train
from untwist.training.encoding import CHUNK


def test_every_example_is_encoded_in_every_chunk():
    """Losses too: a mean over the first batch alone is a mistake seen elsewhere."""
    data = load("linear", samples=2 * CHUNK + 7)
    spec = Spec("linear", architecture="linear", posterior="full", seeds=(0, 1), steps=5)
    population = train(spec, dataset=data)
    encoded = population.encode(data)
    examples = data.examples(slice(None))
    for member in range(2):
        model = population.model(member)
        posterior = jax.vmap(model.encode)(examples)
        losses = -jax.vmap(lambda z, x, m=model: m.likelihood.log_prob(m.decode(z), x))(
            posterior.mean, examples
        )
        factor = np.asarray(posterior.cholesky)
        np.testing.assert_allclose(encoded.means[member], posterior.mean, atol=1e-5)
        np.testing.assert_allclose(encoded.losses[member], losses, rtol=1e-4, atol=1e-5)
        covariance = factor @ factor.swapaxes(1, 2)
        np.testing.assert_allclose(encoded.variances[member], covariance, atol=1e-5)
    some = np.array([len(data) - 1, 3])
    chosen = encode(population.models, data, some, losses=False)
    assert chosen.losses is None
    np.testing.assert_allclose(chosen.means, encoded.means[:, some], atol=1e-6)
    np.testing.assert_allclose(chosen.variances, encoded.variances[:, some], atol=1e-6)


def test_chunks_under_way_are_all_stored_and_in_their_place(monkeypatch):
    """More chunks than are under way at a time, from models that lie on the host."""
    data = load("linear", samples=100)
    spec = Spec("linear", architecture="linear", seeds=(0, 1), steps=2)
    models = jax.device_get(train(spec, dataset=data).models)
    expected = encode(models, data)
    monkeypatch.setattr(encoding, "CHUNK", 16)
    got = encode(models, data)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("members", "items", "expected"),
    [(64, 10**6, 2048), (1, 10**6, 2**14), (100, 10**6, 1024), (10**6, 9, 1), (3, 5, 8), (3, 8, 8)],
)
def test_chunks_on_an_accelerator_are_powers_of_two_and_smaller_the_more_members(
    monkeypatch, members, items, expected
):
    assert encoding._chunk_size(members, items, fused=False) == CHUNK
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert encoding._chunk_size(members, items, fused=True) == expected
    assert encoding._chunk_size(members, items, fused=False) <= expected
