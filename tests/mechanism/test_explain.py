"""`explain`: one call on planted models, on degenerate ones, and on bare arrays."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_decoders import dead, linear, orthogonal, polar

from untwist.mechanism import Depth, as_likelihood, explain, jacobians
from untwist.types import InputError

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
SMALL = Depth(items=60, costly_items=20, fit_items=4, draws=8, steps=5)
UNFITTED = replace(SMALL, fit_items=0)
LIGHT = Depth(items=60, costly_items=0, fit_items=0, steps=3)
NAMES = ("size", "angle", "color")


def whole(decode, mean, beta=1.0):
    """Posterior widths at the optimum of the deterministic objective."""
    slopes = np.sum(jacobians(decode, mean).astype(float) ** 2, 1)
    return np.sqrt(1 / (1 + 2 * slopes / beta)).astype(np.float32)


def explained(decode, latents, *, sigma=True, items=120, depth=LIGHT, **options):
    mean = DRAW.standard_normal((items, latents)).astype(np.float32)
    x = np.stack([np.asarray(decode(jnp.asarray(z))) for z in mean])
    width = whole(decode, mean) if sigma is True else sigma
    return explain(decode, (mean, width), x, key=KEY, depth=depth, **options)


def table_of(found):
    """The table by name; every value is finite, every gap has a sentence."""
    for row in found.table:
        assert (row.value is None) == bool(row.reason), row
        assert row.value is None or np.isfinite(row.value), row
        assert row.meaning
    return {row.name: row.value for row in found.table}


def test_a_linear_vae_at_its_optimum():
    decode, _ = linear([6.0, 3.0, 1.5], np.eye(3))
    found = explained(decode, 3, depth=SMALL)
    table = table_of(found)
    assert table["active_latents"] == 3
    assert table["distance"] == pytest.approx(0, abs=1e-3)
    assert table["distance_random"] == pytest.approx(0.98, abs=0.01)
    assert table["covariance_slope"] == pytest.approx(1, rel=1e-3)
    assert table["covariance_residual"] < 1e-3
    assert table["bends"] == 0
    assert table["fit_linear"] < 1e-6 * table["fit_zero"]
    assert table["direction_subspace"] == pytest.approx(1, abs=1e-3)
    assert table["plateau_ratio"] == pytest.approx(1, abs=1e-5)
    assert table["free_angle"] < 15
    assert "3 of 3 latents are active (0, 1 and 2)." in found.sentences
    assert any(line.startswith("The decoder's columns are nearly") for line in found.sentences)
    assert len(found.profiles) == 3


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_without_a_fixed_weight_of_the_kl_the_posterior_says_which(kind):
    """The variances of beta 4, explained by 4 and by no beta: all that rests on beta agrees."""
    decode, matrix = linear([6.0, 3.0, 1.5], np.eye(3))
    mean = DRAW.standard_normal((120, 3)).astype(np.float32)
    sigma = whole(decode, mean, beta=4.0)
    if kind == "full":
        best = np.linalg.inv(np.eye(3) + 2 * matrix.T @ matrix / 4)
        sigma = np.tile(np.linalg.cholesky(best).astype(np.float32), (120, 1, 1))
    known, free = (
        explain(decode, (mean, sigma), key=KEY, beta=beta, depth=LIGHT) for beta in (4.0, None)
    )
    tables = table_of(known), table_of(free)
    assert tables[1]["effective_beta"] == pytest.approx(4, rel=1e-3)
    for name in ("covariance_residual", "free_angle"):
        assert tables[1][name] == pytest.approx(tables[0][name], abs=1e-3)
    reasons = {row.name: row.reason for row in free.table}
    assert reasons["covariance_expected"] == "the objective holds no fixed weight of the KL"
    said = [line for line in free.sentences if line.startswith("The objective holds no fixed")]
    assert "variances are those of beta 4, at which" in said[0]
    assert not any(line.startswith("The objective holds no") for line in known.sentences)


def test_no_weight_of_the_kl_fits_a_posterior_that_ignores_the_decoder():
    decode, _ = linear([6.0, 3.0, 1.5], np.eye(3))
    found = explained(decode, 3, sigma=np.full((120, 3), 1.2, np.float32), beta=None)
    table_of(found)
    assert found.reasons["covariance"].startswith("no weight of the KL fits this posterior")
    found = explained(decode, 3, sigma=np.full((120, 3), 1.2, np.float32))
    assert {row.name: row.reason for row in found.table}["effective_beta"].endswith("slopes")


def test_equal_singular_values_are_warned_of():
    decode, _ = linear([3.0, 3.0, 1.0], np.eye(3))
    found = explained(decode, 3)
    said = [line for line in found.sentences if "equal variance" in line]
    assert len(said) == 1
    assert said[0].startswith(
        "Latents 0 and 1 carry nearly equal variance: their axes are not determined by this "
        "objective (turning them by"
    )


def test_an_entangled_decoder_is_no_better_than_random_axes():
    decode, _ = linear([6.0, 3.0, 1.0], orthogonal(3, 2))
    found = explained(decode, 3)
    assert table_of(found)["distance"] > 0.5
    assert any("no more orthogonal" in s or "partly orthogonal" in s for s in found.sentences)


def test_factors_are_named():
    decode, _ = linear([6.0, 3.0, 1.5], np.eye(3))
    mean = DRAW.standard_normal((300, 3)).astype(np.float32)
    x = np.stack([np.asarray(decode(jnp.asarray(z))) for z in mean])
    factors = np.digitize(mean[:, [2, 0, 1]], [-1, -0.5, 0, 0.5, 1])
    sigma = whole(decode, mean)
    found = explain(decode, (mean, sigma), x, factors, key=KEY, names=NAMES, depth=LIGHT)
    for latent, name in ((2, "size"), (0, "angle"), (1, "color")):
        assert any(s.startswith(f"Latent {latent} encodes {name} (") for s in found.sentences)
    few = explain(decode, (mean, sigma), x, factors, key=KEY, depth=LIGHT)
    assert any("encodes factor 0 (" in line for line in few.sentences)


def test_a_dead_latent_is_left_out():
    found = explained(dead, 3)
    table = table_of(found)
    assert "depth.fit_items is 0" in found.reasons["fits"]
    assert found.active.tolist() == [True, False, True]
    assert table["passive_latents"] == 1
    assert table["distance"] == pytest.approx(0, abs=1e-4)
    assert table["rank_deficient"] == 0
    assert "2 of 3 latents are active (0 and 2)." in found.sentences


def test_pruning_is_said():
    mean = DRAW.standard_normal((100, 3)).astype(np.float32)
    x = np.stack([np.asarray(dead(jnp.asarray(z))) for z in mean])
    factors = DRAW.integers(0, 3, (100, 4))
    factors[:, 3] = 1
    found = explain(dead, (mean, whole(dead, mean)), x, factors, key=KEY, depth=LIGHT)
    start = "There are fewer active latents (2) than factors that vary (3)"
    assert any(line.startswith(start) for line in found.sentences)
    assert not any("factor 3" in line for line in found.sentences)


def test_dependent_columns_are_said():
    repeated = lambda z: jnp.stack([z[0] + z[1], 2 * z[0] + 2 * z[1], 3 * z[2]])  # noqa: E731
    found = explained(repeated, 3)
    table = table_of(found)
    assert table["rank_deficient"] == 1
    assert table["hadamard_gap"] is None
    assert any("linearly dependent" in line for line in found.sentences)


def test_all_passive():
    nothing = lambda z: jnp.ones(4) + 0 * z.sum()  # noqa: E731
    found = explained(nothing, 3, sigma=np.ones((120, 3), np.float32), depth=UNFITTED)
    table = table_of(found)
    assert table["active_latents"] == 0
    assert len(found.sentences) == 1
    assert found.sentences[0].startswith("No latent is active: the posterior has collapsed")


def test_one_latent():
    found = explained(lambda z: jnp.stack([z[0], 2 * z[0]]), 1)
    table = table_of(found)
    assert table["distance"] == 0
    assert found.sentences[0] == "The only latent is active (0)."
    assert "nothing to rotate" in found.sentences[1]


def test_one_item():
    decode, _ = linear([6.0, 3.0, 1.5], np.eye(3))
    found = explained(decode, 3, items=1, depth=UNFITTED)
    table = table_of(found)
    assert table["distance"] == pytest.approx(0, abs=1e-3)
    assert table["overlap"] is None
    assert "two items" in found.reasons["overlap"]


def test_an_autoencoder():
    decode, _ = linear([6.0, 3.0, 1.5], orthogonal(3))
    found = explained(decode, 3, sigma=None)
    table = table_of(found)
    assert found.posterior == "none"
    assert table["kl"] is None
    assert table["distance"] > 0
    assert any("`align` chooses one" in line for line in found.sentences)


def test_a_full_covariance():
    decode, matrix = linear([6.0, 3.0, 1.5], orthogonal(3))
    best = np.linalg.inv(np.eye(3) + 2 * matrix.T @ matrix)
    factor = np.tile(np.linalg.cholesky(best).astype(np.float32), (120, 1, 1))
    found = explained(decode, 3, sigma=factor)
    table = table_of(found)
    assert found.posterior == "full"
    assert table["covariance_slope"] == pytest.approx(1, rel=1e-2)
    assert found.covariance.off_diagonal < 1e-2
    assert any("full posterior covariance turns" in line for line in found.sentences)


def test_bernoulli_logits_and_the_weight_of_their_curvature():
    decode = lambda z: jnp.stack([3 * z[0], z[0] + 2 * z[1], z[1]])  # noqa: E731
    found = explained(
        decode, 2, sigma=np.full((120, 2), 0.3, np.float32), likelihood="bernoulli", depth=UNFITTED
    )
    table = table_of(found)
    assert table["distance_weighted"] != pytest.approx(table["distance"], abs=1e-3)
    assert table["hessian_off_diagonal"] == pytest.approx(
        table["information_off_diagonal"], rel=1e-3
    )


def test_bare_arrays_give_all_that_arrays_can():
    mean = (DRAW.uniform(0.5, 1.5, (80, 2))).astype(np.float32)
    sigma = np.full_like(mean, 0.1)
    from_arrays = table_of(explain(jacobians(polar, mean), (mean, sigma), key=KEY, depth=LIGHT))
    from_decoder = table_of(explain(polar, (mean, sigma), key=KEY, depth=LIGHT))
    for name in ("distance", "polar_distance", "covariance_slope", "kl", "free_angle"):
        assert from_arrays[name] == pytest.approx(from_decoder[name], abs=1e-4)
    assert from_arrays["fit_linear"] is None
    assert from_decoder["fit_linear"] is None
    with pytest.raises(InputError, match="80 codes: give one each"):
        explain(jacobians(polar, mean)[:70], (mean, sigma), key=KEY)


def test_an_encoder_alone_is_explained_by_its_codes():
    """What needs no decoder is there; all else says why not, and nothing is said of axes."""
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 4, (300, 2))
    mean = factors[:, ::-1] + 0.01 * draw.standard_normal((300, 2))
    found = explain(None, (mean, None), mean, factors, key=KEY)
    assert found.matching is not None
    assert found.total_correlation is not None
    reason = "needs a decoder, and the model is an encoder alone"
    alone = ["orthogonality", "factorization", "free", "noise", "covariance", "split", "hessian"]
    for name in [*alone, "elbo", "fits", "profiles", "plateau", "directions"]:
        assert getattr(found, name) is None
        assert found.reasons[name] == reason
    assert found.items == 0
    assert "column_norms" not in found.figures
    assert "There is no decoder to look at: what follows is of the codes alone." in found.sentences
    assert not any("axes" in sentence for sentence in found.sentences)


def test_generators_as_functions_and_as_arrays():
    factors = DRAW.uniform(0.5, 1.5, (80, 2))
    mean = factors.astype(np.float32)
    x = np.stack([np.asarray(polar(jnp.asarray(z))) for z in mean])
    slopes = jacobians(polar, factors) * factors.std(0)
    posterior = (mean, np.full_like(mean, 0.1))
    depth = replace(LIGHT, fit_items=4)

    def call(source):
        return explain(polar, posterior, x, factors, key=KEY, generator=source, depth=depth)

    first, second = call(polar).directions, call(slopes).directions
    assert first.source == "the generator"
    assert first.columns == pytest.approx(second.columns, abs=1e-5)
    assert first.columns == pytest.approx(1, abs=1e-4)


def test_data_that_do_not_move_have_no_directions():
    """A single item has factors without spread, so the scaled generator stands still."""
    mean = np.full((1, 2), 1.0, np.float32)
    x = np.asarray(polar(jnp.asarray(mean[0])))[None]
    depth = replace(LIGHT, fit_items=4)
    posterior = (mean, np.full_like(mean, 0.1))
    found = explain(polar, posterior, x, mean, key=KEY, generator=polar, depth=depth)
    assert found.directions is None
    assert found.reasons["directions"].startswith("the data do not move at any of these items")
    table_of(found)


@pytest.mark.parametrize(("name", "bad"), [("items", 0), ("fit_items", -1), ("steps", 1)])
def test_depths_that_look_at_nothing(name, bad):
    with pytest.raises(InputError, match=f"depth.{name} must be at least .*, but got {bad}"):
        Depth(**{name: bad})


def test_relabeling_the_latents_relabels_the_explanation():
    decode, _ = linear([6.0, 3.0, 1.5], orthogonal(3, 4))
    mean = DRAW.standard_normal((60, 3)).astype(np.float32)
    x = np.stack([np.asarray(decode(jnp.asarray(z))) for z in mean])
    sigma, order = whole(decode, mean), np.array([2, 0, 1])
    back = np.argsort(order)
    first = table_of(explain(decode, (mean, sigma), x, key=KEY, depth=LIGHT))
    turned = lambda z: decode(z[back])  # noqa: E731
    both = (mean[:, order], sigma[:, order])
    second = table_of(explain(turned, both, x, key=KEY, depth=LIGHT))
    for name in (
        "distance",
        "polar_distance",
        "kl",
        "covariance_slope",
        "free_angle",
    ):
        assert second[name] == pytest.approx(first[name], rel=1e-3, abs=1e-5)


def test_misuse_is_one_sentence():
    mean = np.zeros((5, 2), np.float32)
    with pytest.raises(InputError, match="4 examples have 5 codes"):
        explain(polar, (mean, None), np.zeros((4, 2), np.float32), key=KEY)
    with pytest.raises(InputError, match="beta must be at least 0, but got -1"):
        explain(polar, (mean, None), key=KEY, beta=-1.0)
    with pytest.raises(InputError, match="variance above 0"):
        as_likelihood("gaussian", 0.0)


def test_pytorch_is_needed_only_for_its_models(monkeypatch):
    from untwist.mechanism.torch import TorchDecoder, torch_encoder

    monkeypatch.setitem(sys.modules, "torch", None)
    for wrap in (TorchDecoder, torch_encoder):
        with pytest.raises(InputError, match=r"not installed: pip install 'untwist\[torch\]'"):
            wrap(None)
