"""A population in one program: every function gives each member what it gets alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.mechanism import Likelihood, as_likelihood, jacobians, local_geometry
from untwist.types import InputError

DRAW = np.random.default_rng(0)
MEMBERS, ITEMS, LATENTS, PIXELS = 3, 11, 2, 5
CODES = DRAW.standard_normal((MEMBERS, ITEMS, LATENTS)).astype(np.float32)
TRACES = []
VARIANCES = jnp.array([0.3, 1.0, 2.0])
LIKELIHOODS = ("squared_error", "gaussian", "bernoulli")


class Network(eqx.Module):
    """A small smooth decoder that counts how often it is traced."""

    first: jax.Array
    last: jax.Array

    def __init__(self, key):
        keys = jax.random.split(key)
        self.first = jax.random.normal(keys[0], (8, LATENTS))
        self.last = jax.random.normal(keys[1], (PIXELS, 8))

    def decode(self, z):
        TRACES.append(z)
        return self.last @ jnp.tanh(self.first @ z)


NETWORKS = eqx.filter_vmap(Network)(jax.random.split(jax.random.key(0), MEMBERS))


def network(member):
    """One member's network."""
    return jax.tree.map(lambda leaf: leaf[member], NETWORKS)


def likelihood_of(name, member=None):
    """A likelihood whose variance, if it has one, differs between the members."""
    if name != "gaussian":
        return as_likelihood(name)
    return Likelihood(name, VARIANCES if member is None else VARIANCES[member])


def traced(call):
    """What a call returns, and how often it traced the decoder."""
    TRACES.clear()
    return call(), len(TRACES)


@pytest.mark.parametrize("chunk", [None, 4])
def test_jacobians_of_a_population(chunk):
    found = jacobians(NETWORKS.decode, CODES, chunk=chunk)
    assert found.shape == (MEMBERS, ITEMS, PIXELS, LATENTS)
    for member, codes in enumerate(CODES):
        alone = jacobians(network(member).decode, codes)
        np.testing.assert_allclose(found[member], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_geometry_of_a_population(name):
    found = local_geometry(NETWORKS.decode, CODES, likelihood=likelihood_of(name), chunk=4)
    for member, codes in enumerate(CODES):
        model = likelihood_of(name, member)
        alone = local_geometry(network(member).decode, codes, likelihood=model)
        np.testing.assert_allclose(found.gram[member], alone.gram, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            found.information[member], alone.information, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_geometry_of_a_population_from_jacobians(name):
    matrices = jacobians(NETWORKS.decode, CODES)
    outputs = np.stack([jax.vmap(network(m).decode)(codes) for m, codes in enumerate(CODES)])
    model = likelihood_of(name)
    found = local_geometry(matrices, CODES, likelihood=model, outputs=outputs)
    expected = local_geometry(NETWORKS.decode, CODES, likelihood=model)
    np.testing.assert_allclose(found.gram, expected.gram, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.information, expected.information, rtol=1e-5, atol=1e-5)


def test_a_population_is_one_program():
    fresh = eqx.filter_vmap(Network)(jax.random.split(jax.random.key(1), MEMBERS))
    local_geometry(NETWORKS.decode, CODES, chunk=4)
    assert traced(lambda: local_geometry(fresh.decode, CODES, chunk=4))[1] == 0
    one = traced(lambda: local_geometry(network(0).decode, CODES[0], chunk=3))[1]
    many = traced(lambda: local_geometry(NETWORKS.decode, CODES, chunk=3))[1]
    assert 0 < many <= one


def test_a_function_without_arrays_serves_every_member():
    found = local_geometry(lambda z: jnp.array([2 * z[0], z[1] ** 2]), CODES)
    np.testing.assert_allclose(found.gram[..., 1, 1], 4 * CODES[..., 1] ** 2, rtol=1e-5)


def test_members_that_do_not_fit_are_one_sentence():
    with pytest.raises(InputError, match="every array of the decoder needs a leading axis of 3"):
        local_geometry(network(0).decode, CODES)
    with pytest.raises(InputError, match="leading axis of 2"):
        jacobians(NETWORKS.decode, CODES[:2])
    broken = eqx.tree_at(lambda n: n.last, NETWORKS, NETWORKS.last.at[1].set(jnp.nan))
    with pytest.raises(InputError, match="Jacobian of members 1 is not finite"):
        local_geometry(broken.decode, CODES)
