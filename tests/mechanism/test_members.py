"""A population in one program: every function gives each member what it gets alone."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.mechanism import (
    Depth,
    Likelihood,
    Posteriors,
    as_likelihood,
    elbo_comparison,
    explain,
    explain_members,
    factorization,
    hessian_shares,
    jacobians,
    likelihood_hessians,
    local_fits,
    local_geometry,
    loss_split,
    mean_jacobians,
    plateau_contrast,
    profile,
)
from untwist.mechanism.decoder import CHUNK_NUMBERS
from untwist.mechanism.local_fit import DRAWS
from untwist.mechanism.members import member_of
from untwist.mechanism.posterior import posteriors_of
from untwist.types import InputError

DRAW = np.random.default_rng(0)
MEMBERS, ITEMS, LATENTS, PIXELS = 3, 11, 2, 5
CODES = DRAW.standard_normal((MEMBERS, ITEMS, LATENTS)).astype(np.float32)
KEY = jax.random.key(0)
WIDTHS = {
    "diagonal": DRAW.uniform(0.1, 0.5, CODES.shape).astype(np.float32),
    "full": np.tril(DRAW.uniform(0.1, 0.5, (*CODES.shape, LATENTS))).astype(np.float32),
}
X = DRAW.integers(0, 2, (ITEMS, PIXELS)).astype(np.float32)
FACTORS = DRAW.integers(0, 3, (ITEMS, 2))
BETAS = np.array([1.0, 4.0, 0.5])
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


def agree(found, alone, member):
    """One member's part of what was found for all is what it gets alone."""
    part, other = (jax.tree.leaves(_plain(side)) for side in (member_of(found, member), alone))
    assert len(part) == len(other) > 0
    for one, two in zip(part, other, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)


def _plain(part):
    """A record as a dictionary of arrays; vectors as projectors, since their signs are free."""
    if dataclasses.is_dataclass(part):
        part = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        if "vectors" in part:
            part["vectors"] = np.abs(part["vectors"])
    return part


def calls(networks, codes, sigma, name, member):
    """What every function that calls a decoder makes of these networks, by name."""
    model, decode = likelihood_of(name, member), networks.decode
    posteriors = Posteriors(codes, sigma)
    geometry = local_geometry(decode, codes, likelihood=model, chunk=4)
    split = loss_split(
        decode, posteriors, X, key=KEY, geometry=geometry, likelihood=model, draws=6, chunk=4
    )
    hessian = likelihood_hessians(decode, codes, X, likelihood=model, chunk=4)
    line = np.linspace(-1, 1, 4) * np.ones((*codes.shape[:-2], 1))
    return {
        "geometry": geometry,
        "jacobians": jacobians(decode, codes, chunk=4),
        "mean jacobians": mean_jacobians(decode, codes, likelihood=model, chunk=4),
        "split": split,
        "hessian": hessian_shares(hessian, geometry),
        "elbo": elbo_comparison(
            hessian, posteriors, split, beta=BETAS if member is None else BETAS[member]
        ),
        "fits": local_fits(decode, posteriors, key=KEY, draws=8, steps=5, chunk=4),
        "profile": profile(decode, codes[..., 0, :], 1, line),
        "plateau": plateau_contrast(decode, codes, chunk=4),
        "factorization": factorization(geometry.gram, codes),
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param("gaussian", "full", marks=pytest.mark.slow), ("bernoulli", "diagonal")],
)
def test_every_function_gives_each_member_what_it_gets_alone(name, kind):
    sigma = WIDTHS[kind]
    found = calls(NETWORKS, CODES, sigma, name, None)
    for member in range(MEMBERS):
        alone = calls(network(member), CODES[member], sigma[member], name, member)
        for what, part in alone.items():
            agree(found[what], part, member)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_geometry_of_a_population_from_jacobians(name):
    matrices = jacobians(NETWORKS.decode, CODES)
    outputs = np.stack([jax.vmap(network(m).decode)(codes) for m, codes in enumerate(CODES)])
    model = likelihood_of(name)
    found = local_geometry(matrices, CODES, likelihood=model, outputs=outputs)
    expected = local_geometry(NETWORKS.decode, CODES, likelihood=model)
    np.testing.assert_allclose(found.gram, expected.gram, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.information, expected.information, rtol=1e-5, atol=1e-5)


DEPTH = Depth(items=8, costly_items=6, fit_items=4, draws=4, steps=3)


def explanations(networks, codes, sigma, *, member=None, call=explain_members, **options):
    """Explanations of these networks, each with a beta of its own."""
    beta = BETAS if member is None else BETAS[member]
    options = {"key": KEY, "depth": DEPTH, "beta": beta, "likelihood": "bernoulli"} | options
    return call(networks.decode, (codes, sigma), X, FACTORS, **options)


@pytest.mark.parametrize("kind", ["diagonal", "full", "none"])
def test_each_member_is_explained_as_it_is_alone(kind):
    sigma = WIDTHS.get(kind)
    if kind == "diagonal":  # the members do not have the same active latents
        sigma = sigma.copy()
        sigma[1, :, 0] = 1
    every = explanations(NETWORKS, CODES, sigma)
    assert len(every) == MEMBERS
    for member, found in enumerate(every):
        own = None if sigma is None else sigma[member]
        alone = explanations(network(member), CODES[member], own, member=member, call=explain)
        assert found.active.tolist() == alone.active.tolist()
        assert found.reasons == alone.reasons
        assert [one.latent for one in found.profiles] == np.flatnonzero(alone.active).tolist()
        for one, two in zip(found.table, alone.table, strict=True):
            assert (one.name, one.reason) == (two.name, two.reason)
            rough = 1e-2 if one.name in ("fit_nonlinear", "stochastic_nonlinear") else 1e-4
            assert one.value == (
                two.value if two.value is None else pytest.approx(two.value, rough, 1e-4)
            ), one
        assert found.figures.keys() == alone.figures.keys()


def test_members_are_taken_in_blocks_that_fit(monkeypatch):
    whole = explanations(NETWORKS, CODES, WIDTHS["diagonal"])
    monkeypatch.setitem(CHUNK_NUMBERS, "cpu", 2 * PIXELS * DRAWS * (LATENTS + 2) // 8)
    for one, two in zip(whole, explanations(NETWORKS, CODES, WIDTHS["diagonal"]), strict=True):
        assert [row.value for row in one.table] == [
            row.value if row.value is None else pytest.approx(row.value, 1e-2, 1e-4)
            for row in two.table
        ]


def test_a_second_population_compiles_nothing():
    explanations(NETWORKS, CODES, WIDTHS["diagonal"])
    fresh = eqx.filter_vmap(Network)(jax.random.split(jax.random.key(1), MEMBERS))
    assert traced(lambda: explanations(fresh, CODES, WIDTHS["diagonal"]))[1] == 0


def test_encoders_of_a_population_go_batch_by_batch():
    items = 1500

    def encode(batch):
        means = jnp.stack([batch, 2 * batch, 3 * batch])
        return means, jnp.broadcast_to(jnp.array([0.1, 0.2]), means.shape)

    x = DRAW.standard_normal((items, LATENTS)).astype(np.float32)
    found = posteriors_of(encode, x)
    np.testing.assert_allclose(found.mean, np.stack([x, 2 * x, 3 * x]), rtol=1e-6)
    assert found.diagonal
    assert found.sigma.shape == (MEMBERS, items, LATENTS)


def test_one_model_and_a_population_are_not_confused():
    with pytest.raises(InputError, match="population of 3 members: explain each by"):
        explanations(NETWORKS, CODES, None, call=explain, beta=1.0)
    with pytest.raises(InputError, match="one model: explain it by `explain`"):
        explanations(network(0), CODES[0], None, beta=1.0)


def test_a_population_is_one_program():
    fresh = eqx.filter_vmap(Network)(jax.random.split(jax.random.key(1), MEMBERS))
    local_geometry(NETWORKS.decode, CODES, chunk=4)
    assert traced(lambda: local_geometry(fresh.decode, CODES, chunk=4))[1] == 0
    one = traced(lambda: local_geometry(network(0).decode, CODES[0], chunk=7))[1]
    many = traced(lambda: local_geometry(NETWORKS.decode, CODES, chunk=7))[1]
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
