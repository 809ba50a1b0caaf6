"""Degenerate inputs have a value or a reason in every metric."""

import math

import jax
import numpy as np
import pytest
from planted import CODES, FACTORS, MIXED, ONE, SPACE, with_column

from untwist.metrics import (
    METRICS,
    POPULATION_METRICS,
    metric_names,
    score,
)

KEY = jax.random.key(0)


RNG = np.random.default_rng(2)
COPIES = (
    "copy",
    "two items",
    "negated copies",
    "more latents than items",
)
# The neighbor estimator exceeds one by its error, and RMIG is in nats.
BOUNDED = {
    name
    for name in metric_names()
    if (name in POPULATION_METRICS or METRICS[name].direction == "higher")
    and name not in ("mig_neighbors", "rmig")
} | {"factorized_support"}


def degenerate():
    constant = FACTORS.copy()
    constant[:, 1] = 2
    gappy = FACTORS.copy()
    gappy[:, 2] = np.where(gappy[:, 2] == 5, 5, 0)
    rare = FACTORS.copy()
    rare[:, 0] = 0
    rare[3, 0] = 4
    real = FACTORS.astype(float)
    real[:, 0] = np.random.default_rng(1).standard_normal(len(real))
    wild = CODES * [1.0, 1.0, 1e8]
    return {
        "dead latent": (with_column(CODES, np.full((150, 1), 3.0)), FACTORS, SPACE),
        "dead latent with rounding": (
            with_column(CODES, 3.0 + 1e-7 * np.arange(150)[:, None] / 150),
            FACTORS,
            SPACE,
        ),
        "constant code": (np.full((150, 3), 2.0), FACTORS, SPACE),
        "copy": (with_column(CODES, CODES[:, :1]), FACTORS, SPACE),
        "one latent": (CODES[:, :1], FACTORS, SPACE),
        "one dead latent": (np.zeros((150, 1)), FACTORS, SPACE),
        "one factor": (CODES, FACTORS[:, :1], ONE),
        "one latent and factor": (CODES[:, :1], FACTORS[:, :1], ONE),
        "constant factor": (CODES, constant, SPACE),
        "levels that never occur": (CODES, gappy, SPACE),
        "a level that occurs once": (CODES, rare, SPACE),
        "fewer latents": (CODES[:, :2], FACTORS, SPACE),
        "one latent a million times larger": (wild, FACTORS, SPACE),
        "mixed kinds": (CODES, real, MIXED),
        "tied codes": (np.round(CODES), FACTORS, SPACE),
        "single precision": (CODES.astype(np.float32), FACTORS, SPACE),
        "nearly dead in single precision": (
            with_column(CODES, 1 + 1.5e-6 * RNG.random((150, 1))).astype(np.float32),
            FACTORS,
            SPACE,
        ),
        "a continuous factor far from zero": (CODES, real + [[1e16, 0, 0]], MIXED),
        "few items": (CODES[:12], FACTORS[:12], SPACE),
        "two items": (CODES[:2], FACTORS[:2] + [[0, 0, 0], [1, 1, 1]], SPACE),
        "binary codes": (np.sign(CODES), FACTORS, SPACE),
        "truth values": (CODES > 0, FACTORS, SPACE),
        "dead latent first": (with_column(np.zeros((150, 1)), CODES), FACTORS, SPACE),
        # Each latent varies in one item, which may fall among the test items.
        "single spikes": (np.eye(150)[:, :3], FACTORS, SPACE),
        "negated copies": (with_column(CODES, -CODES), FACTORS, SPACE),
        "more latents than items": (RNG.standard_normal((150, 200)), FACTORS, SPACE),
        "five items of mixed kinds": (CODES[::30], real[::30], MIXED),
        "unrelated to a continuous factor": (RNG.standard_normal((150, 3)), real, MIXED),
        "vanishing scale": (CODES * 1e-200, FACTORS, SPACE),
        "largest scale": (CODES * 1e29, FACTORS, SPACE),
        "heavy tails": (np.exp(12 * RNG.standard_normal((150, 3))), FACTORS, SPACE),
    }


DEGENERATE = degenerate()


LONG = "more latents than items"
QUICK = ("copy", "single spikes", "dead latent first", "constant factor", "few items")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        pytest.param(name, False, marks=[pytest.mark.slow] if name == LONG else [])
        for name in sorted(DEGENERATE)
    ]
    + [(name, True) for name in QUICK],
)
def test_every_metric_has_a_finite_value_or_a_reason(name, reference):
    codes, factors, space = DEGENERATE[name]
    table = score(
        codes,
        factors,
        space,
        "fast" if reference else "all",
        key=KEY,
        repeats=0,
        variances=np.full(codes.shape, 0.1),
        losses=np.ones(len(codes)),
        reference=reference,
    )
    if not reference:
        assert [row.metric for row in table.rows] == list(metric_names())
    for row in table.rows:
        if row.value is None:
            assert row.reason, row.metric
        elif name in COPIES and row.metric == "gaussian_total_correlation":
            assert row.value == math.inf
        else:
            assert math.isfinite(row.value), row.metric
            assert not row.reason
            if row.metric in BOUNDED and not reference:
                assert -1e-9 <= row.value <= 1 + 1e-9, row.metric


def reasons(codes, factors, space, **options):
    rows = score(codes, factors, space, key=KEY, repeats=0, **options).rows
    return {row.metric: row.reason for row in rows if row.value is None}


def test_metrics_without_labels_say_so():
    found = reasons(CODES, None, None)
    assert "needs the factors" in found["mig"]
    assert "posterior variances" in found["kl_to_prior"]
    assert "reconstruction loss" in found["reconstruction"]
    assert "gaussian_total_correlation" not in found


def test_metrics_without_a_grid_say_so():
    assert "pass a sampler" in reasons(CODES[:50], FACTORS[:50], SPACE)["beta_vae_score"]
    real = DEGENERATE["mixed kinds"]
    assert "pass a sampler" in reasons(*real)["factor_vae_score"]


def test_metrics_of_pairs_of_latents_say_that_there_is_one():
    found = reasons(CODES[:, :1], FACTORS, SPACE)
    for name in (
        "gaussian_total_correlation",
        "wasserstein_correlation",
        "infoc",
        "mean_mutual_information",
        "factorized_support",
        "dci_completeness_fast",
    ):
        assert "one" in found[name]
    assert "mig" not in found


def test_metrics_of_pairs_of_factors_say_that_one_varies():
    found = reasons(CODES, FACTORS[:, :1], ONE)
    for name in ("modularity", "infom", "dci_disentanglement_fast"):
        assert "only a varies" in found[name]
