"""`untwist explain`: why each member of a run is disentangled, or is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float

from untwist.cli.tables import print_table
from untwist.cli.trained import open_trained
from untwist.datasets import GENERATORS, Dataset, generator
from untwist.mechanism import (
    Depth,
    Explanation,
    Likelihood,
    Number,
    Quantity,
    as_likelihood,
    distance_to_orthogonality,
    explain_members,
    local_geometry,
    od_score,
    polarized_share,
    spectrum,
)
from untwist.models import ARCHITECTURES, VAE, Deterministic, FullGaussian, Gaussian, build
from untwist.report import explanation_figure
from untwist.store import Run, write_arrays, write_table
from untwist.training import Population, Spec
from untwist.types import AnyArray, InputError


@dataclass(frozen=True)
class Explain:
    """Explain every member of a finished run: print a table and plain sentences, store them all.

    Writes explanation.parquet (a row a member and quantity), sentences.parquet,
    explanation.safetensors (the figures' data) and explanation.png into the run. Latents count
    from 0. Quantities that do not apply are listed with the reason.
    """

    run: tyro.conf.Positional[Path]
    """The run's directory."""
    members: tuple[int, ...] = ()
    """Only these members; all that did not diverge by default."""
    items: int = 5000
    """At most how many examples to encode; the whole dataset if it has fewer."""
    depth: Depth = Depth()  # noqa: RUF009
    """How much of the decoder to look at."""
    seed: int = 0
    """Seed of the choice of examples and of every draw."""
    every_sentence: bool = False
    """Print the sentences of every member, not of the first of each setting alone."""


def main(words: list[str]) -> int:
    """Parses the command line, explains, stores and prints; returns the exit code."""
    options = tyro.cli(Explain, prog="untwist explain", args=words)
    run, population, dataset = open_trained(options.run, "explain the models")
    found = explain_population(population, Spec.of(run.config["spec"]), dataset, options)
    _store(run, population, found)
    _print(run, population, found, options.every_sentence)
    print(f"stored in {run.path}: explanation.parquet, sentences.parquet, explanation.png")
    return 0


Found = dict[int, tuple[Explanation, tuple[Quantity, ...]]]


def explain_population(
    population: Population, spec: Spec, dataset: Dataset, options: Explain
) -> Found:
    """Returns the explanation and the whole table of each chosen member."""
    chosen = _chosen(population, options.members)
    if options.items < 1:
        raise InputError(f"expected at least one of the examples, but got --items {options.items}")
    draw = np.random.default_rng(options.seed)
    rows = np.arange(len(dataset))
    if len(rows) > options.items:
        rows = np.sort(draw.choice(rows, options.items, replace=False))
    models = jax.tree.map(lambda leaf: leaf[np.array(chosen)], population.models)
    explained = explain_members(
        None if models.decoder is None else models.decode,
        encoder(models),
        dataset.examples(rows),
        dataset.factors[rows],
        key=jax.random.key(options.seed),
        likelihood=_likelihood(models, spec),
        beta=kl_weights(population.members, spec, chosen),
        generator=_generator(spec, dataset),
        names=dataset.space.names,
        depth=options.depth,
    )
    untrained, deviations = _untrained(models, spec, dataset), _deviations(explained)
    found = {}
    for member, one, deviation in zip(chosen, explained, deviations, strict=True):
        share = _polarized_share(population, spec, member)
        found[member] = one, (*one.table, share, untrained, deviation)
    return found


def _chosen(population: Population, members: tuple[int, ...]) -> list[int]:
    """The members asked for, or all that did not diverge."""
    kept = np.flatnonzero(population.members["status"] != "diverged").tolist()
    if not kept:
        raise InputError("every member diverged, so there is nothing to explain")
    for member in members:
        if member not in kept:
            raise InputError(
                f"member {member} diverged or does not exist: choose from "
                f"{', '.join(map(str, kept))}"
            )
    return list(members) or kept


def encoder(models: VAE) -> Callable[[AnyArray], tuple[AnyArray, AnyArray | None]]:
    """Returns the encoder of stacked models as the mechanism takes it."""
    return lambda batch: _encode(models, jnp.asarray(batch))


@eqx.filter_jit
def _encode(models: VAE, batch: Float[Array, "item *shape"]) -> tuple[Array, Array | None]:
    """Means and widths as the mechanism takes them, one member after another."""
    arrays, rest = eqx.partition(models, eqx.is_array)

    def one(model: VAE, x: Array) -> tuple[Array, Array | None]:
        posterior = model.encode(x)
        if isinstance(posterior, Deterministic):
            return posterior.mean, None
        if isinstance(posterior, FullGaussian):
            return posterior.mean, posterior.cholesky
        return posterior.mean, jnp.sqrt(posterior.variance)

    members = lambda own: jax.vmap(partial(one, eqx.combine(own, rest)))(batch)  # noqa: E731
    return jax.lax.map(members, arrays)


def _likelihood(models: VAE, spec: Spec) -> Likelihood:
    """The members' likelihood; of encoders alone, one that nothing asks."""
    if models.decoder is None:
        return as_likelihood("squared_error")
    variance = models.likelihood.variance if isinstance(models.likelihood, Gaussian) else None
    return as_likelihood(spec.likelihood or "", variance)


def kl_weights(table: dict[str, np.ndarray], spec: Spec, members: list[int]) -> Number | None:
    """Returns the weight of each member's KL at the end of training; None where none is fixed.

    A capacity for the KL has a multiplier that training finds. Under the other objectives than
    those with a beta on the KL the whole KL weighs 1, and a beta, if any, something in it.
    """
    if spec.objective == "annealed-vae":
        return None
    if spec.objective not in ("beta-vae", "slow-vae"):
        return 1.0
    beta = np.asarray(table["beta"][members], float)
    if "warmup" not in table:
        return beta
    steps, warmup = table["steps"][members], table["warmup"][members]
    return beta * np.where(warmup > 0, np.minimum(1.0, steps / np.maximum(warmup, 1.0)), 1.0)


def _generator(spec: Spec, dataset: Dataset) -> Callable[[Array], Array] | None:
    """The generator of the data, where one is known; a file may have a drawn dataset's name."""
    known = spec.dataset == dataset.name and dataset.name in GENERATORS
    return generator(dataset) if known else None


def _polarized_share(population: Population, spec: Spec, member: int) -> Quantity:
    """The share of training from which the polarized KL holds to the end."""
    name, meaning = "polarized_share", "of training with an error below 0.03 to the end (Table 1)"
    if spec.posterior != "diagonal":
        return Quantity(name, None, meaning, "speaks of a diagonal posterior")
    history = population.history
    rows = history["member"] == member
    steps, kl, polarized = (history[part][rows] for part in ("step", "kl", "polarized_kl"))
    return Quantity(name, float(polarized_share(steps, kl, polarized)), meaning)


def _deviations(explained: Sequence[Explanation]) -> list[Quantity]:
    """The OD score of each member's fitted maps, beside the other members'."""
    name, meaning = "od_score", "of fitted maps; the worst member at an item scores 1"
    fitted = [one.fits.nonlinear_matrices for one in explained if one.fits is not None]
    if len(fitted) < max(2, len(explained)):
        reason = "compares the local fits of several members"
        return [Quantity(name, None, meaning, reason)] * len(explained)
    return [Quantity(name, float(score), meaning) for score in od_score(np.stack(fitted))]


def _untrained(models: VAE, spec: Spec, dataset: Dataset) -> Quantity:
    """Distance to orthogonality of the same decoder before training, at standard normal codes."""
    name, meaning = "distance_untrained", "of this decoder before training"
    if models.decoder is None:
        return Quantity(name, None, meaning, "needs a decoder, and the model is an encoder alone")
    key, noise = jax.random.split(jax.random.key(0))
    fresh = build(
        ARCHITECTURES[spec.architecture], dataset.shape, models.latents, models.likelihood, key=key
    )
    codes = np.asarray(jax.random.normal(noise, (500, models.latents)))
    vectors = spectrum(local_geometry(fresh.decode, codes).gram).vectors
    distance = float(distance_to_orthogonality(vectors).mean())
    return Quantity(name, distance, meaning)


def _store(run: Run, population: Population, found: Found) -> None:
    """The table, the sentences, the arrays of the figures and the figure."""
    rows = [(member, row) for member, (_, table) in found.items() for row in table]
    said = [(member, line) for member, (one, _) in found.items() for line in one.sentences]
    write_table(
        run.explanation,
        {
            "member": np.array([member for member, _ in rows]),
            "quantity": [row.name for _, row in rows],
            "value": [row.value for _, row in rows],  # nulls, which averages of SQL leave out
            "meaning": [row.meaning for _, row in rows],
            "reason": [row.reason for _, row in rows],
        },
    )
    write_table(
        run.sentences,
        {"member": np.array([m for m, _ in said]), "sentence": [line for _, line in said]},
    )
    arrays = {
        f"member.{member}.{name}": array
        for member, (one, _) in found.items()
        for name, array in one.figures.items()
    }
    write_arrays(run.path / "explanation.safetensors", arrays)
    shown = _first_of_settings(population, list(found))
    explanation_figure(run, run.path / "explanation.png", members=shown)


def _settings(population: Population, members: list[int]) -> dict[int, str]:
    """What was varied, in words, for each member."""
    fixed = ("member", "seed", "status", "failed_at", "steps")
    table = population.members
    varied = [n for n in table if n not in fixed and len(set(np.asarray(table[n])[members])) > 1]
    return {m: ", ".join(f"{n}={table[n][m]:g}" for n in varied) for m in members}


def _first_of_settings(population: Population, members: list[int]) -> dict[int, str]:
    """The first member of each setting."""
    settings = _settings(population, members)
    first = {setting: member for member, setting in reversed(list(settings.items()))}
    return {m: settings[m] for m in sorted(first.values())}


def _print(run: Run, population: Population, found: Found, every: bool) -> None:
    """The table, mean and deviation over the members of each setting, then the sentences."""
    settings = _settings(population, list(found))
    groups = list(dict.fromkeys(settings.values()))
    quantities = next(iter(found.values()))[1]
    rows = []
    for index, quantity in enumerate(quantities):
        cells = []
        for group in groups:
            own = [found[m][1][index] for m in found if settings[m] == group]
            cells.append(_cell(own))
        rows.append([quantity.name, *cells, quantity.meaning])
    title = f"{run.name}: mean ± sd over the members of a setting, {len(found)} in all"
    print_table(["quantity", *(group or "value" for group in groups), "meaning"], rows, title)
    shown = settings if every else _first_of_settings(population, list(found))
    for member, setting in shown.items():
        print(f"\nmember {member}{f' ({setting})' if setting else ''}:")
        for line in found[member][0].sentences:
            print(f"- {line}")


def _cell(rows: list[Quantity]) -> str:
    """Mean and deviation of the values, or the reason why there are none."""
    values = np.array([row.value for row in rows if row.value is not None], float)
    if not len(values):
        return rows[0].reason
    spread = f" ± {values.std(ddof=1):.2g}" if len(values) > 1 else ""
    return f"{values.mean():.4g}{spread}"
