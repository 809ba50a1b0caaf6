"""`align` on members that were trained: the axes of a VAE for models that have none."""

import jax
import numpy as np
import pytest

from untwist.datasets import load
from untwist.mechanism import align
from untwist.metrics import neighbor_score
from untwist.training import Spec, train

KEY = jax.random.key(0)
LEARNING = {"learning_rate": (0.01,)}
KINDS = {
    "autoencoder": Spec(objective="ae", vary=LEARNING),
    "full covariance": Spec(posterior="full", vary={"beta": (1e-4,), **LEARNING}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_members_without_axes_get_those_of_the_data(kind):
    """Above 0.97 after alignment, at the published beta; before it their axes are arbitrary."""
    data = load("linear")
    spec = KINDS[kind].__dict__ | {"dataset": "linear", "architecture": "linear", "latents": 2}
    population = train(Spec(**spec | {"seeds": (0, 1, 2, 3, 4)}))
    encoding = population.encode(data)
    before, after = [], []
    for member in range(5):
        model, means = population.model(member), encoding.means[member]
        spread = None if kind == "autoencoder" else np.linalg.cholesky(encoding.variances[member])
        found = align(model.decode, (means, spread), key=KEY)
        aligned = found.align(means)
        assert found.distance < 0.02
        some = means[:100]
        again = jax.vmap(found.decode(model.decode))(found.align(some))
        np.testing.assert_allclose(again, jax.vmap(model.decode)(some), atol=1e-5)
        before.append(neighbor_score(means, data.factors, data.space, key=KEY).value)
        after.append(neighbor_score(aligned, data.factors, data.space, key=KEY).value)
    assert np.mean(before) < 0.8
    assert min(after) > 0.97
