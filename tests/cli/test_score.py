"""`untwist score`: what it prints and stores for every kind of posterior, and what it refuses."""

import json
import shutil

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

from untwist.cli import main
from untwist.cli.score import Score, score_population
from untwist.datasets import load
from untwist.metrics import METRICS, metric_names, mig
from untwist.store import open_run, read_table
from untwist.training import Conduct, Spec, load_population, train

SPEC = Spec(
    "linear",
    {"samples": 300},
    "linear",
    latents=2,
    vary={"beta": (0.01, 0.1)},
    steps=20,
    batch=50,
)
KINDS = {
    "diagonal": SPEC,
    "full": Spec(**{**vars(SPEC), "posterior": "full"}),
    "deterministic": Spec(**{**vars(SPEC), "objective": "ae", "vary": {}, "seeds": (0, 1)}),
}
FEW = ["mig", "mcc", "kl_to_prior", "mig_posterior", "active_units", "reconstruction", "udr_lasso"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, spec in KINDS.items():
        train(spec, root / name, conduct=Conduct(progress=False))
    return root


def call(capsys, *words):
    code = main(["score", *map(str, words)])
    output = capsys.readouterr()
    return code, output.out, output.err


def member_codes(run, member):
    """Means, marginal variances, covariances and divergences of one member, one item at a time."""
    opened = open_run(run)
    population = load_population(opened)
    dataset = load(opened.config["spec"]["dataset"], **opened.config["spec"]["options"])
    model = jax.tree.map(lambda leaf: leaf[member], population.models)
    posterior = jax.vmap(model.encode)(dataset.examples(np.arange(len(dataset))))
    return dataset, posterior


def test_the_table_is_printed_and_stored(runs, capsys):
    run = runs / "diagonal"
    code, out, _ = call(capsys, run, "--repeats", "2")
    assert code == 0
    assert f"stored in {run / 'scores.parquet'}" in out
    stored = read_table(run / "scores.parquet")
    fast = [n for n in metric_names() if not METRICS.get(n, METRICS["mig"]).slow]
    assert list(stored["metric"]) == fast * 2
    assert stored["member"].tolist() == [0] * len(fast) + [1] * len(fast)
    for name in fast:
        assert name in out
    for value, error, estimator, settings, reason, metric in zip(
        *(stored[c] for c in ("value", "standard_error", "estimator", "settings", "reason")),
        stored["metric"],
        strict=True,
    ):
        assert isinstance(json.loads(settings), dict)
        assert np.isfinite(value) == bool(estimator) != bool(reason), metric
        assert np.isfinite(value) == np.isfinite(error), metric
    lines = [line for line in out.splitlines() if "beta_vae_score" in line]
    assert "do not cover a grid" in lines[0]
    assert "standard error" in out
    assert "histogram, 20 bins" in out


def test_stored_values_are_those_of_the_functions(runs, capsys):
    run = runs / "diagonal"
    assert call(capsys, run, "--metrics", *FEW, "--repeats", "0")[0] == 0
    stored = read_table(run / "scores.parquet")
    for member in range(2):
        dataset, posterior = member_codes(run, member)
        found = dict(zip(FEW, stored["value"][stored["member"] == member], strict=True))
        expected = mig(np.asarray(posterior.mean), dataset.factors, dataset.space).value
        assert found["mig"] == pytest.approx(expected, abs=1e-6)
        divergence = jax.vmap(lambda p: p.kl())(posterior).mean()
        assert found["kl_to_prior"] == pytest.approx(float(divergence), rel=1e-5)


def test_the_divergence_of_a_full_posterior_counts_its_correlations(runs, capsys):
    run = runs / "full"
    assert call(capsys, run, "--metrics", *FEW, "--repeats", "0")[0] == 0
    stored = read_table(run / "scores.parquet")
    for member in range(2):
        _, posterior = member_codes(run, member)
        found = dict(zip(FEW, stored["value"][stored["member"] == member], strict=True))
        whole = float(jax.vmap(lambda p: p.kl())(posterior).mean())
        marginal = float(jax.vmap(lambda p: p.kl_per_latent().sum())(posterior).mean())
        assert whole > marginal + 1e-4
        assert found["kl_to_prior"] == pytest.approx(whole, rel=1e-5)


def test_an_autoencoder_has_scores_but_no_divergence(runs, capsys):
    run = runs / "deterministic"
    code, out, _ = call(capsys, run, "--metrics", *FEW, "--repeats", "2")
    assert code == 0
    stored = read_table(run / "scores.parquet")
    none = {m for m, v in zip(stored["metric"], stored["value"], strict=True) if np.isnan(v)}
    assert none == {"kl_to_prior", "mig_posterior"}
    assert pq.read_table(run / "scores.parquet").column("value").null_count == 4
    lines = [line for line in out.splitlines() if "kl_to_prior" in line]
    assert "a deterministic code has none" in lines[0]


def test_interventions_are_scored_where_the_data_are_a_grid(tmp_path):
    grid = {"size": 16, "positions": 2, "orientations": 1, "scales": 2}
    spec = Spec("sprites", grid, "small", latents=2, steps=2, batch=8)
    population = train(spec, conduct=Conduct(progress=False))
    dataset = load("sprites", **grid)
    names = ("beta_vae_score", "factor_vae_score", "irs")
    options = Score(tmp_path, metrics=names, items=10, repeats=0)
    rows = score_population(population, dataset, options).rows
    assert [row.metric for row in rows] == list(names)
    assert all(row.value is not None for row in rows)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--metrics", "mgi"], "did you mean 'mig'"),
        (["--metrics"], "at least one metric"),
        (["--repeats", "1"], "repeats must be 0"),
        (["--items", "1"], "two items or more"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(runs, capsys, words, sentence):
    code, _, err = call(capsys, runs / "diagonal", *words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_what_is_no_finished_run_is_refused(runs, tmp_path, capsys):
    assert call(capsys, tmp_path / "none")[0] == 2
    unfinished = tmp_path / "unfinished"
    shutil.copytree(runs / "diagonal", unfinished)
    (unfinished / "weights.safetensors").unlink()
    code, _, err = call(capsys, unfinished)
    assert code == 2
    assert "unfinished" in err
