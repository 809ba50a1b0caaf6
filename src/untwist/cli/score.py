"""`untwist score`: score every member of a run with every metric, and store the table."""

from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float
from rich.progress import track

from untwist.cli.tables import print_table
from untwist.datasets import Dataset
from untwist.metrics import ScoreTable, grid_sampler, score
from untwist.models import VAE
from untwist.perturbation import load_dataset
from untwist.store import Run, open_run, write_table
from untwist.training import Population, load_population
from untwist.types import InputError

CHUNK = 1024


@dataclass(frozen=True)
class Score:
    """Score every member of a finished run, print the table and store it as scores.parquet.

    The codes are the means of the posterior. Metrics that do not apply are listed with the reason.
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
    run = open_run(options.run)
    population = load_population(run)
    dataset = load_dataset(run.config["spec"]["dataset"], **run.config["spec"]["options"])
    if dataset.checksum() != run.config["data"]["checksum"]:
        raise InputError(
            f"the data of {run.path} are not those that the catalog makes now: score them from "
            "Python with the dataset that the run was given"
        )
    table = score_population(population, dataset, options)
    write_table(run.path / "scores.parquet", _columns(table, population))
    _print(table, population, run)
    print(f"stored in {run.path / 'scores.parquet'}")
    return 0


def score_population(population: Population, dataset: Dataset, options: Score) -> ScoreTable:
    """Returns the scores of the members that did not diverge, in their order.

    Where the data are a whole grid, all of it is encoded once, for metrics that intervene draw
    more points than it has.
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
    whole = dataset.has_full_grid
    encoded = _encode(models, dataset, np.arange(len(dataset)) if whole else index)
    means, variances, losses = (part[:, index] for part in encoded) if whole else encoded
    samplers = None
    if whole:
        samplers = [grid_sampler(codes, dataset.factors, dataset.space) for codes in encoded[0]]
    names = options.metrics
    return score(
        means,
        dataset.factors[index],
        dataset.space,
        names[0] if names in (("all",), ("fast",)) else list(names),
        key=key,
        repeats=options.repeats,
        variances=variances,
        sampler=samplers,
        losses=losses,
        reference=options.reference,
    )


def _encode(
    models: VAE, dataset: Dataset, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior means, variances [member, item, latent] and reconstruction losses in nats."""
    pieces = []
    padded = np.resize(index, -(-len(index) // CHUNK) * CHUNK)
    for first in track(range(0, len(padded), CHUNK), "encoding", transient=True):
        examples = jnp.asarray(dataset.examples(padded[first : first + CHUNK]))
        pieces.append(jax.device_get(_encode_chunk(models, examples)))
    means, variances, losses = (np.concatenate(part, 1) for part in zip(*pieces, strict=True))
    return means[:, : len(index)], variances[:, : len(index)], losses[:, : len(index)]


@eqx.filter_jit
def _encode_chunk(models: VAE, examples: Float[Array, "item *shape"]) -> tuple[Array, Array, Array]:
    """One chunk of examples through every member."""

    def one(model: VAE, x: Array) -> tuple[Array, Array, Array]:
        posterior = model.encode(x)
        loss = -model.likelihood.log_prob(model.decode(posterior.mean), x)
        return posterior.mean, posterior.variance, loss

    members = eqx.filter_vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(eqx.if_array(0), None))
    return members(models, examples)


def _kept(population: Population) -> np.ndarray:
    """The members that did not diverge."""
    return np.flatnonzero(population.members["status"] != "diverged")


def _columns(table: ScoreTable, population: Population) -> dict[str, list | np.ndarray]:
    """The table's columns, its members numbered as in the run."""
    kept = _kept(population)
    columns: dict[str, list | np.ndarray] = dict(table.columns())
    columns["member"] = [int(kept[member]) for member in columns["member"]]
    for name in ("value", "standard_error"):
        columns[name] = np.array(columns[name], float)
    return columns


def _print(table: ScoreTable, population: Population, run: Run) -> None:
    """One row a metric: mean and spread over members, or why it does not apply."""
    rows = []
    for name in dict.fromkeys(row.metric for row in table.rows):
        found = [row for row in table.rows if row.metric == name]
        values = np.array([row.value for row in found if row.value is not None], float)
        if len(values):
            spread = values.std(ddof=1) if len(values) > 1 else np.nan
            rows.append([name, values.mean(), spread, values.min(), values.max(), ""])
        else:
            rows.append([name, "", "", "", "", found[0].reason])
    title = f"{run.name}: {len(_kept(population))} members"
    print_table(["metric", "mean", "sd over members", "least", "most", "why not"], rows, title)
