"""Bad inputs have a sentence, and odd ones their right value."""

import math
import warnings

import jax
import numpy as np
import pytest
from planted import CASES, CODES, FACTORS, GRID, MIXED, ONE, SPACE, standardized, with_column

from untwist.factors import FactorSpace
from untwist.metrics import (
    METRICS,
    Histogram,
    Neighbors,
    NotApplicable,
    Posterior,
    Split,
    active_units,
    beta_vae_score,
    downstream,
    explicitness,
    factor_vae_score,
    factorized_support,
    gaussian_total_correlation,
    grid_sampler,
    importance,
    infoc,
    infom,
    irs,
    kl_to_prior,
    mcc,
    mean_mutual_information,
    metric_names,
    mig,
    mig_sup,
    modularity,
    neighbor_score,
    reconstruction,
    sap,
    score,
    udr,
)
from untwist.types import InputError

KEY = jax.random.key(0)
SLOW = [name for name, metric in METRICS.items() if metric.slow]


@pytest.mark.parametrize(
    ("codes", "factors", "space", "sentence"),
    [
        (np.where(np.arange(150)[:, None] == 7, np.nan, CODES), FACTORS, SPACE, "first at row 7"),
        (np.where(CODES > 2, np.inf, CODES) + np.inf, FACTORS, SPACE, "must be finite"),
        (CODES[:99], FACTORS, SPACE, "99 rows of codes and 150 of factors"),
        (CODES, FACTORS + 1, SPACE, "expected 0 to 4"),
        (CODES, FACTORS - 1, SPACE, "from -1 to"),
        (CODES, FACTORS * 1.0, SPACE, "must be integers"),
        (CODES, FACTORS + 0.5, MIXED, "takes integers"),
        (CODES, np.where(FACTORS > 1, np.nan, 0.0), MIXED, "factors must be finite"),
        (CODES, FACTORS[:, :2], SPACE, "one column for each of a, b, c"),
        (CODES[:1], FACTORS[:1], SPACE, "give two items or more"),
        (CODES[:, :0], FACTORS, SPACE, "no latents"),
        (CODES[:, 0], FACTORS, SPACE, "one row an item"),
        (CODES.astype(complex), FACTORS, SPACE, "real numbers"),
        (np.ones((9, 2)), np.ones((9, 3), int), SPACE, "all 9 items are equal"),
    ],
)
def test_bad_input_has_a_sentence_in_metrics_and_in_the_table(codes, factors, space, sentence):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(InputError, match=sentence):
            mig(codes, factors, space)
        with pytest.raises(InputError, match=sentence):
            score(codes, factors, space, ["mig"], key=KEY)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: score(CODES, FACTORS, SPACE, ["mgi"], key=KEY), "did you mean 'mig'"),
        (lambda: score(CODES, FACTORS, SPACE, [], key=KEY), "at least one metric"),
        (lambda: score(CODES, FACTORS, SPACE, key=KEY, repeats=1), "repeats must be 0"),
        (lambda: score(CODES, FACTORS, None, key=KEY), "together with their space"),
        (lambda: score(np.zeros((0, 9, 2)), None, None, key=KEY), "no members"),
        (lambda: score(np.stack([CODES, CODES * np.nan]), None, None, key=KEY), "member 1: codes"),
        (
            lambda: score(np.stack([CODES] * 2), FACTORS, SPACE, key=KEY, sampler=[np.sin]),
            "one sampler for each of 2",
        ),
        (
            lambda: score(np.stack([CODES] * 2), FACTORS, SPACE, key=KEY, sampler=np.sin),
            "list of samplers",
        ),
        (
            lambda: score(np.stack([CODES] * 2), None, None, key=KEY, losses=np.ones((1, 150))),
            "losses must have one entry a member",
        ),
        (lambda: explicitness(CODES[:2], FACTORS[:2], SPACE, key=KEY), "cannot be split"),
        (lambda: neighbor_score(CODES[:5], FACTORS[:5], SPACE, key=KEY), "5 neighbors need"),
        (lambda: downstream(CODES, FACTORS, SPACE, key=KEY, sizes=()), "one training size or more"),
        (lambda: mcc(CODES, FACTORS, SPACE, fit="affine"), "pass a key"),
        (
            lambda: sap(CODES, FACTORS, SPACE, key=KEY, parts=Split(np.arange(9), np.arange(999))),
            "rows between 0 and 149",
        ),
        (lambda: mig_sup(CODES, FACTORS, SPACE, active=np.ones(2, bool)), "each of 3 latents"),
        (lambda: kl_to_prior(CODES, variances=np.zeros_like(CODES)), "positive and finite"),
        (lambda: kl_to_prior(CODES, variances=CODES[:9]), "shape of the means"),
        (lambda: active_units(CODES, variances=CODES[:9]), "shape of the means"),
        (lambda: reconstruction(np.array([np.nan])), "losses must be finite"),
        (lambda: reconstruction(np.ones((2, 2))), "one number an item"),
        (
            lambda: score(CODES, FACTORS, SPACE, key=KEY, losses=np.ones(9)),
            "losses must be one an item, 150, but got 9",
        ),
        (
            lambda: score(CODES, FACTORS, SPACE, key=KEY, variances=np.ones((9, 3))),
            r"shape of the means, \(150, 3\)",
        ),
        (
            lambda: score(CODES, FACTORS, SPACE, key=KEY, variances=np.ones((150, 3, 2))),
            "covariances must have the shape",
        ),
        (
            lambda: kl_to_prior(CODES, variances=-np.tile(np.eye(3), (150, 1, 1))),
            "positive definite",
        ),
        (lambda: mig(CODES * 1e35, FACTORS, SPACE), "within 1e.30 of zero"),
        (lambda: score(CODES[None, None], FACTORS, SPACE, key=KEY), "one row an item"),
        (lambda: mig(CODES, FACTORS, SPACE, estimator=Histogram(1)), "bins must be a whole"),
        (lambda: mig(CODES, FACTORS, SPACE, estimator=Neighbors(0)), "neighbors must be a whole"),
        (
            lambda: mig(CODES, FACTORS, SPACE, estimator=Posterior(CODES**2 + 1, KEY, draws=0)),
            "draws must be a whole",
        ),
        (lambda: factorized_support(CODES, points=1), "points must be a whole number from 2"),
        (lambda: mean_mutual_information(CODES, bins=1), "bins must be a whole number from 2"),
        (lambda: neighbor_score(CODES, FACTORS, SPACE, key=KEY, neighbors=0), "neighbors must be"),
        (lambda: downstream(CODES, FACTORS, SPACE, key=KEY, sizes=(0,)), "training size 0 must be"),
        (lambda: importance(CODES, FACTORS, SPACE, key=KEY, alpha=0.0), "penalty must be positive"),
        (lambda: factor_vae_score(np.sin, SPACE, key=KEY, batch=1), "batch must be a whole"),
        (lambda: factor_vae_score(np.sin, SPACE, key=KEY, variance=1), "variance must be a whole"),
        (lambda: factor_vae_score(np.sin, SPACE, key=KEY, test=0), "test must be a whole"),
        (lambda: beta_vae_score(np.sin, SPACE, key=KEY, chunk=0), "chunk must be a whole"),
        (lambda: udr(CODES), r"\[member, item, latent\]"),
        (lambda: udr(CODES[None]), "there is one"),
        (lambda: udr(np.stack([CODES] * 2), kl=np.ones((2, 2))), "one value a member and latent"),
        (lambda: grid_sampler(CODES[:50], FACTORS[:50], SPACE), "lack 70 of them"),
        (lambda: beta_vae_score(lambda i: np.zeros(3), SPACE, key=KEY), "a sampler must give"),
        (
            lambda: beta_vae_score(lambda i: np.full((*i.shape, 2), np.nan), SPACE, key=KEY),
            "NaN or infinite",
        ),
        (lambda: beta_vae_score(lambda i: i[..., None] * 1.0, ONE, key=KEY), "two factors"),
        (
            lambda: mig(CODES, FACTORS, SPACE, estimator=Posterior(-(CODES**2), KEY)),
            "variances must be positive",
        ),
    ],
)
def test_mistakes_have_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


def test_a_level_that_the_test_rows_lack_is_no_error():
    missing = Split(np.arange(150), np.flatnonzero(FACTORS[:, 0] != 4))
    assert explicitness(CODES, FACTORS, SPACE, key=KEY, parts=missing).value > 0.99
    unseen = Split(np.flatnonzero(FACTORS[:, 0] != 4), np.arange(150))
    assert sap(CODES, FACTORS, SPACE, key=KEY, parts=unseen).value < 1
    assert downstream(CODES, FACTORS, SPACE, key=KEY, parts=unseen).value < 0.95


def test_one_large_latent_prunes_the_others_only_in_the_reference():
    codes, factors = CASES["aligned"]
    large = codes * [100.0, 1.0, 1.0]
    before = infom(codes, factors, SPACE).value
    assert infom(large, factors, SPACE).value == pytest.approx(before, abs=1e-9)
    assert infom(large, factors, SPACE, reference=True).parts["active"].tolist() == [
        True,
        False,
        False,
    ]
    with pytest.raises(NotApplicable, match="only one is active"):
        infoc(large, factors, SPACE, reference=True)


def test_active_latents_are_counted_and_not_the_length_of_a_mask():
    table = np.concatenate([standardized(GRID), np.zeros((120, 2)), 0.01 * GRID[:, :1]], 1)

    def sampler(index):
        return table[index]

    sizes = {"train": 200, "test": 100}
    assert factor_vae_score(sampler, SPACE, key=KEY, **sizes).parts["active_count"] == 4
    pruned = factor_vae_score(sampler, SPACE, key=KEY, reference=True, **sizes)
    assert pruned.parts["active_count"] == 3
    empty = factor_vae_score(lambda i: np.zeros((*i.shape, 2)), SPACE, key=KEY, **sizes)
    assert (empty.value, empty.parts["active_count"]) == (0.0, 0.0)


def test_irs_counts_latents_and_not_a_sum_of_codes():
    dead_first = with_column(np.full((150, 1), 9.0), CODES)
    found = irs(dead_first, FACTORS, SPACE)
    assert found.parts["active_count"] == 3
    assert found.value == pytest.approx(irs(CODES, FACTORS, SPACE).value)


def test_half_of_the_items_may_be_too_few_without_harm():
    rare = np.zeros((40, 1), int)
    rare[3] = 1
    binary = FactorSpace(("a",), (2,), ("ordinal",))
    table = score(np.ones((40, 2)), rare, binary, ["mig"], key=KEY, repeats=4)
    assert table.rows[0].value == 0.0
    assert "all 20 items are equal" in table.rows[0].reason
    few = score(CODES[::50], FACTORS[::50], SPACE, "fast", key=KEY, repeats=2)
    assert any("codes hold 1" in row.reason for row in few.rows)


def test_small_integers_do_not_wrap_around_in_differences():
    table = np.asarray(GRID, dtype=np.uint8)
    sizes = {"key": KEY, "train": 300, "test": 100}
    wide = beta_vae_score(lambda i: GRID[i] * 1.0, SPACE, **sizes)
    assert beta_vae_score(lambda i: table[i], SPACE, **sizes).value == wide.value


def test_names_may_mix_with_the_lists_and_count_once():
    names = ["mig", "fast", "mig"]
    rows = score(CODES[:12], FACTORS[:12], SPACE, names, key=KEY, repeats=0).rows
    found = [row.metric for row in rows]
    assert found[0] == "mig"
    assert sorted(found) == sorted(n for n in metric_names() if n not in SLOW)


def test_a_dead_latent_is_no_downstream_clue():
    clue = with_column(CODES[:, 1:], 1 + 1e-7 * FACTORS[:, :1])
    found = downstream(clue, FACTORS, SPACE, key=KEY)
    plain = downstream(CODES[:, 1:], FACTORS, SPACE, key=KEY)
    assert found.value == pytest.approx(plain.value)


def test_no_call_of_the_sampler_exceeds_the_chunk():
    largest = []

    def sampler(index):
        largest.append(index.size)
        return standardized(GRID)[index]

    sizes = {"key": KEY, "train": 300, "test": 100}
    factor_vae_score(sampler, SPACE, chunk=256, **sizes)
    beta_vae_score(sampler, SPACE, chunk=256, **sizes)
    assert max(largest) <= 256
    factor_vae_score(sampler, SPACE, **sizes)
    assert max(largest) < 10000  # the variance over the grid takes 10,000 points, but not at once


def test_factors_with_many_values_keep_them_all():
    space = FactorSpace(("x",), (40,), ("ordinal",))
    factors = np.tile(np.arange(40), 10)[:, None]
    found = mig(factors * 1.0, factors, space)
    assert found.parts["entropies"][0] == pytest.approx(np.log(40))
    assert found.matrix[0, 0] == pytest.approx(np.log(20))


def test_total_correlation_of_a_linear_combination_is_infinite_in_either_precision():
    joined = np.concatenate([CODES, CODES @ [[1.0], [2.0], [-1.0]]], 1)
    assert gaussian_total_correlation(joined).value == math.inf
    assert gaussian_total_correlation(joined.astype(np.float32)).value == math.inf
    nearly = joined + 1e-4 * np.random.default_rng(0).standard_normal(joined.shape)
    assert math.isfinite(gaussian_total_correlation(nearly).value)


def test_periodic_factors_are_found_on_the_circle_and_categorical_ones_under_any_names():
    angle = 2 * np.pi * GRID[:, [2]] / 6
    circle = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    space = FactorSpace(("hue",), (6,), ("periodic",))
    found = mcc(circle, GRID[:, [2]], space)
    assert found.value == pytest.approx(1.0)
    names = FactorSpace(("shape",), (6,), ("categorical",))
    shuffled = np.array([3, 0, 5, 1, 4, 2])[GRID[:, [2]]]
    assert mcc(GRID[:, [2]] * 1.0, shuffled, names).value == pytest.approx(1.0)


def test_modularity_of_a_perfect_code_does_not_pay_for_dead_latents():
    codes, factors = CASES["dead"]
    assert modularity(codes, factors, SPACE).value > 0.99
    assert modularity(codes, factors, SPACE, reference=True).value < 0.76
