"""A population's encoding of a dataset is that of its models, one example at a time."""

import jax
import numpy as np

from untwist.datasets import load
from untwist.training import Spec, encode, train
from untwist.training.encoding import CHUNK


def test_every_example_is_encoded_in_every_chunk():
    """Losses too: a mean over the first batch alone is a mistake seen elsewhere."""
    data = load("linear", samples=2 * CHUNK + 7)
    spec = Spec("linear", architecture="linear", posterior="full", seeds=(0, 1), steps=5)
    population = train(spec, dataset=data)
    encoding = population.encode(data)
    examples = data.examples(slice(None))
    for member in range(2):
        model = population.model(member)
        posterior = jax.vmap(model.encode)(examples)
        losses = -jax.vmap(lambda z, x, m=model: m.likelihood.log_prob(m.decode(z), x))(
            posterior.mean, examples
        )
        factor = np.asarray(posterior.cholesky)
        np.testing.assert_allclose(encoding.means[member], posterior.mean, atol=1e-5)
        np.testing.assert_allclose(encoding.losses[member], losses, rtol=1e-4, atol=1e-5)
        covariance = factor @ factor.swapaxes(1, 2)
        np.testing.assert_allclose(encoding.variances[member], covariance, atol=1e-5)
    some = np.array([len(data) - 1, 3])
    chosen = encode(population.models, data, some)
    np.testing.assert_allclose(chosen.means, encoding.means[:, some], atol=1e-6)
