"""The table of scores: populations, standard errors, and the same rows alone and together."""

import json

import jax
import numpy as np
import pyarrow
import pytest
from planted import GRID, SPACE, rotation, standardized

from untwist.metrics import METRICS, Row, grid_sampler, metric_names, mig, score

KEY = jax.random.key(1)
FACTORS = np.tile(GRID, (2, 1))
CODES = standardized(FACTORS) + 0.1 * np.random.default_rng(0).standard_normal(FACTORS.shape)
QUICK = [name for name in metric_names() if not METRICS.get(name, METRICS["mig"]).slow]


@pytest.fixture(scope="module")
def population():
    codes = np.stack([CODES, CODES @ rotation(45), np.zeros_like(CODES)])
    return codes, score(codes, FACTORS, SPACE, "fast", key=KEY, repeats=2)


def test_a_population_has_one_row_a_member_and_metric(population):
    _, table = population
    assert [(row.member, row.metric) for row in table.rows] == [
        (member, name) for member in range(3) for name in QUICK
    ]
    assert pyarrow.table(table.columns()).num_rows == 3 * len(QUICK)
    assert table.records()[0]["metric"] == "mig"
    assert all(isinstance(json.loads(row.settings), dict) for row in table.rows)


def test_a_member_scores_the_same_alone(population):
    codes, table = population
    alone = score(codes[1], FACTORS, SPACE, "fast", key=KEY, repeats=2)
    for row in alone.rows:
        if not row.metric.startswith("udr"):
            assert row.value == pytest.approx(table.value(row.metric, 1), abs=1e-9), row.metric


def test_every_value_has_a_standard_error_or_says_why(population):
    for row in population[1].rows:
        if row.value is not None:
            assert (row.standard_error is None) == bool(row.reason)
            assert row.repeats == (0 if row.standard_error is None else 2)


def test_standard_errors_are_those_of_repeated_samples():
    rng = np.random.default_rng(0)
    values, errors = [], []
    for repeat in range(60):
        codes = rng.standard_normal((400, 1))
        factors = (codes + rng.standard_normal((400, 1)) > 0).astype(int)
        table = score(
            np.concatenate([codes, rng.standard_normal((400, 1))], 1),
            np.concatenate([factors, 1 - factors], 1),
            _two(),
            ["mcc"],
            key=jax.random.key(repeat),
            repeats=8,
        )
        values.append(table.rows[0].value)
        errors.append(table.rows[0].standard_error)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.35)


def _two():
    from untwist.factors import FactorSpace

    return FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))


def test_the_table_holds_what_the_functions_return():
    table = score(CODES, FACTORS, SPACE, ["mig"], key=KEY, repeats=0)
    assert table.rows == (
        Row(
            0,
            "mig",
            mig(CODES, FACTORS, SPACE).value,
            None,
            0,
            "higher",
            "histogram, 20 bins",
            '{"bins": 20}',
            "",
        ),
    )


def test_interventions_come_from_the_items_where_they_cover_the_grid():
    names = ["beta_vae_score", "factor_vae_score"]
    order = np.random.default_rng(0).permutation(len(GRID))
    codes = standardized(GRID)[order]
    own = score(codes, GRID[order], SPACE, names, key=KEY, repeats=2)
    sampler = grid_sampler(standardized(GRID), GRID, SPACE)
    given = score(codes, GRID[order], SPACE, names, key=KEY, repeats=2, sampler=sampler)
    assert own == given
    assert [row.value for row in own.rows] == [1.0, 1.0]


def test_the_slow_metrics_of_all_are_drawn_once_unless_named():
    codes, factors = CODES[:90], FACTORS[:90]
    once = score(codes, factors, SPACE, "all", key=KEY, repeats=2)
    row = next(row for row in once.rows if row.metric == "dci_disentanglement")
    assert (row.repeats, row.standard_error) == (0, None)
    named = score(codes, factors, SPACE, ["dci_disentanglement"], key=KEY, repeats=2)
    assert named.rows[0].repeats == 2
    assert named.rows[0].value == row.value


def test_the_reference_flag_reaches_the_metrics():
    dead = np.concatenate([CODES, np.zeros((len(CODES), 3))], 1)
    names = ["modularity", "mig"]
    ours = score(dead, FACTORS, SPACE, names, key=KEY, repeats=0)
    theirs = score(dead, FACTORS, SPACE, names, key=KEY, repeats=0, reference=True)
    assert theirs.value("modularity") == pytest.approx(ours.value("modularity") / 2)
    assert theirs.value("mig") == ours.value("mig")
