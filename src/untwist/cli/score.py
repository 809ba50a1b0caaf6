"""`untwist score`: score every member of a run with every metric, and store the table."""

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import tyro

from untwist.cli.settings import mean_and_spread, member_scores, settings_of
from untwist.cli.tables import print_table
from untwist.cli.trained import open_trained
from untwist.datasets import Dataset
from untwist.metrics import ScoreTable, grid_sampler, score
from untwist.store import Run, write_table
from untwist.training import Population, encode
from untwist.types import InputError


@dataclass(frozen=True)
class Score:
    """Score every member of a finished run, print the table and store it as scores.parquet.

    The codes are the means of the posterior. The file has one row a member and metric: value,
    standard error, direction, estimator, settings. The table shows the mean ± the standard
    deviation over the seeds of each setting; its standard error is that of one member, from repeats
    on other items. Metrics that do not apply are listed with the reason.

    Example: untwist score runs/first --metrics mig dci_disentanglement_fast mcc --repeats 8
    """

    run: tyro.conf.Positional[Path]
    """The run's directory."""
    metrics: tuple[str, ...] = ("fast",)
    """Names of metrics, or `fast` (all but the boosted trees, which take minutes), or `all`."""
    items: int = 10_000
    """At most how many examples to score on; the whole dataset if it has fewer."""
    repeats: int = 4
    """Repeats behind each standard error; 0 for none."""
    seed: int = 0
    """Seed of the choice of examples and of every draw."""
    reference: bool = False
    """Follow the field's reference implementation where it has a known defect."""


def main(words: list[str]) -> int:
    """Parses the command line, scores, prints and stores; returns the exit code."""
    options = tyro.cli(Score, prog="untwist score", args=words)
    run, population, dataset = open_trained(options.run, "score them")
    table = score_population(population, dataset, options)
    store_scores(run, population, table)
    _print(table, run)
    print(f"stored in {run.scores}")
    return 0


def score_population(population: Population, dataset: Dataset, options: Score) -> ScoreTable:
    """Returns the scores of the members that did not diverge, in their order.

    Where the data are a whole grid, all of its codes are made once, for metrics that intervene
    draw more points than it has.
    """
    kept = _kept(population)
    if not len(kept):
        raise InputError("every member diverged, so there is nothing to score")
    key = jax.random.key(options.seed)
    index = np.arange(len(dataset))
    if len(index) > options.items:
        index = np.random.default_rng(options.seed).choice(index, options.items, replace=False)
        index.sort()
    models = jax.tree.map(lambda leaf: leaf[kept], population.models)
    means, variances, losses = encode(models, dataset, index, progress=True)
    point = models.posterior == "deterministic"
    samplers = None
    if dataset.has_full_grid:
        grid = encode(models, dataset, losses=False, progress=True).means
        samplers = [grid_sampler(codes, dataset.factors, dataset.space) for codes in grid]
    names = options.metrics
    return score(
        means,
        dataset.factors[index],
        dataset.space,
        names[0] if names in (("all",), ("fast",)) else list(names),
        key=key,
        repeats=options.repeats,
        variances=None if point else variances,
        sampler=samplers,
        losses=None if models.decoder is None else losses,
        reference=options.reference,
    )


def _kept(population: Population) -> np.ndarray:
    """The members that did not diverge."""
    return np.flatnonzero(population.members["status"] != "diverged")


def store_scores(run: Run, population: Population, table: ScoreTable) -> None:
    """Writes the table into the run's directory, its members numbered as in the run."""
    write_table(run.scores, _columns(table, population))


def _columns(table: ScoreTable, population: Population) -> dict[str, list | np.ndarray]:
    """The table's columns, its members numbered as in the run."""
    kept = _kept(population)
    columns: dict[str, list | np.ndarray] = dict(table.columns())
    columns["member"] = [int(kept[member]) for member in columns["member"]]
    for name in ("value", "standard_error"):
        numbers = np.array(columns[name], float)
        columns[name] = np.ma.masked_array(numbers, np.isnan(numbers))  # missing, not NaN
    return columns


def _print(table: ScoreTable, run: Run) -> None:
    """One row a metric: mean and deviation over the seeds of each setting, or why there is none."""
    settings = settings_of(run)
    rows = []
    for metric, values in member_scores(run).items():
        found = [row for row in table.rows if row.metric == metric]
        errors = np.array([row.standard_error for row in found if row.standard_error is not None])
        error = np.sqrt(np.mean(errors**2)) if len(errors) else ""
        cells = [mean_and_spread(values[chosen]) for _, chosen in settings]
        reasons = [f"none: {row.reason}" for row in found if row.value is None]
        note = reasons[0] if len(reasons) == len(found) else found[0].estimator
        rows.append([metric, found[0].direction, *cells, error, note])
    names = [label or "mean" for label, _ in settings]
    columns = ["metric", "better", *names, "standard error", "estimator, or why there is none"]
    print_table(columns, rows, title=f"{run.name}: mean ± sd over the seeds of a setting")
