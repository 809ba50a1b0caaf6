"""The stages of `untwist perturb`, each of which is done once and found again when resumed.

perturb.toml                what was asked for
population/                 the run of beta-VAEs
members.parquet             their scores, and which were chosen
checkpoint/                 the manipulation while it is learned
learning.parquet            what both sides paid, log by log
manipulated/ noise/ random-direction/
                            the datasets, each a few numbers that make it
changes.parquet             size and smoothness of every change
preservation.parquet        what is left of the factors
figure.png                  original, manipulation, result
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untwist.cli.perturb_show import learning_bar
from untwist.cli.score import Score, score_population
from untwist.datasets import Dataset
from untwist.metrics import METRICS, metric_names
from untwist.models import ARCHITECTURES, VAE
from untwist.perturbation import (
    AbstractChange,
    Manipulation,
    Noise,
    Players,
    Procedure,
    Source,
    check_source,
    choose_members,
    factor_r2,
    feature_owners,
    learn,
    load_dataset,
    measure_preservation,
    neighbor_features,
    open_perturbed,
    perturbed_dataset,
    pixel_changes,
    random_direction,
    smoothness,
    stack_members,
    start_players,
    write_perturbed,
)
from untwist.report import traversal_sheet
from untwist.store import (
    cannot_write,
    fill,
    named_arrays,
    open_run,
    read_arrays,
    read_table,
    toml,
    write_arrays,
    write_table,
)
from untwist.training import Conduct, Population, Spec, load_population, resume, train
from untwist.types import InputError, nearest

FORMAT = 1
POINTS = 1024
"""Images on which size and smoothness of a change are measured."""
SHOWN = 10
"""Images in the picture."""


@dataclass(frozen=True)
class Plan:
    """Everything that the result depends on.

    Attributes:
        spec: The population.
        procedure: How the manipulation is learned.
        population: A finished run that takes the population's place, or None.
        score: What says how disentangled a member is.
        choose: How many members of each kind.
        items: At most how many examples to score on.
        reader_steps: Steps of the regressors that say what is left of the factors.
    """

    spec: Spec
    procedure: Procedure
    population: str | None = None
    score: str = "mig"
    choose: int = 1
    items: int = 10_000
    reader_steps: int = 2000

    def table(self) -> dict[str, Any]:
        """Returns the plan as nested tables, to be stored."""
        choice = {"score": self.score, "choose": self.choose, "items": self.items}
        choice |= {"reader_steps": self.reader_steps}
        if self.population is not None:
            choice["population"] = self.population
        return choice | {"spec": self.spec.table(), "procedure": asdict(self.procedure)}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Plan":
        """Returns the plan that `table` stored."""
        return cls(
            Spec.of(table["spec"]),
            Procedure(**table["procedure"]),
            table.get("population"),
            table["score"],
            table["choose"],
            table["items"],
            table["reader_steps"],
        )


@dataclass(frozen=True)
class Stages:
    """The directory of one `untwist perturb`, and what to do in it."""

    path: Path
    plan: Plan
    progress: bool = True
    checkpoint_seconds: float = 30.0

    @classmethod
    def create(cls, path: Path, plan: Plan, **show: Any) -> "Stages":
        """Returns a new directory; everything that can be refused is refused before it is made."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists already: choose another directory, or --resume {path}")
        stages = cls(path, plan, **show)
        known = [name for name in metric_names() if name in METRICS]
        if plan.score not in known:
            raise nearest("score", plan.score, known)
        check_source(stages.source)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from error
        toml.write(path / "perturb.toml", {"format": FORMAT} | plan.table())
        return stages

    @classmethod
    def open(cls, path: Path, **show: Any) -> "Stages":
        """Returns the directory that an earlier call made."""
        file = path / "perturb.toml"
        if not file.is_file():
            raise InputError(
                f"{path} has no perturb.toml: expected a directory that `untwist perturb` made"
            )
        table = toml.read(file)
        if table.get("format") != FORMAT:
            raise InputError(f"{file} is damaged or of a newer version: expected format {FORMAT}")
        try:
            return cls(path, Plan.of(table), **show)
        except (KeyError, TypeError) as error:
            raise InputError(f"{file} is damaged: expected the settings of a plan") from error

    @property
    def datasets(self) -> dict[str, Path]:
        """The directories of the three datasets."""
        return {name: self.path / name for name in ("manipulated", "noise", "random-direction")}

    @property
    def picture(self) -> Path:
        """The picture of original, manipulation and result."""
        return self.path / "figure.png"

    @cached_property
    def source(self) -> Dataset:
        """The original images."""
        return load_dataset(self.plan.spec.dataset, **self.plan.spec.options)

    def run(self) -> bool:
        """Goes through the stages that are left; returns whether it came to the end."""
        try:
            population = self.population()
            if (population.members["status"] == "interrupted").any():
                return False
            best, worst = self.choice(population)
            if not all(map(_is_written, self.datasets.values())):
                models = stack_members(population.models, np.concatenate([best, worst]))
                self.write_datasets(self.manipulation(models), self.told(population, best, worst))
            self.measure()
            self.draw()
        except KeyboardInterrupt:
            return False
        return True

    def population(self) -> Population:
        """Returns the population: given, read, resumed or trained."""
        if self.plan.population is not None:
            return load_population(open_run(Path(self.plan.population)))
        path = self.path / "population"
        conduct = Conduct(self.progress, self.checkpoint_seconds)
        if (path / "run.toml").exists():
            return resume(path, dataset=self.source, conduct=conduct)
        return train(self.plan.spec, path, dataset=self.source, conduct=conduct)

    def choice(self, population: Population) -> tuple[np.ndarray, np.ndarray]:
        """Returns the disentangled and the entangled members; scores them if that is not done."""
        file = self.path / "members.parquet"
        lower = METRICS[self.plan.score].direction == "lower"
        if not file.exists():
            scores = member_scores(population, self.source, self.plan.score, self.plan.items)
            status = population.members["status"]
            best, worst = choose_members(scores, status, self.plan.choose, lower_is_better=lower)
            chosen = np.full(len(population), "", object)
            chosen[best], chosen[worst] = "disentangled", "entangled"
            names = {"member", "status", "seed", *self.plan.spec.vary}
            kept = {name: population.members[name] for name in population.members if name in names}
            write_table(file, kept | {"score": scores, "chosen": chosen.astype(str)})
        table = read_table(file)
        return choose_members(
            table["score"], table["status"], self.plan.choose, lower_is_better=lower
        )

    def manipulation(self, models: VAE) -> Manipulation:
        """Returns the learned manipulation, from the last checkpoint on if there is one."""
        procedure = self.plan.procedure
        players, logs = start_players(self.source, models, procedure), {}
        file = self.path / "checkpoint" / "state.safetensors"
        if file.exists():
            arrays = read_arrays(file)
            players = fill(players, arrays, "players.", where=file)
            players = jax.tree.map(_to_device, players)
            logs = {n[5:]: list(a) for n, a in arrays.items() if n.startswith("logs.")}
        first = int(logs["round"][-1]) if logs else 0
        written = time.monotonic()
        with learning_bar(self.progress, first, procedure.rounds) as show:
            for step in learn(self.source, models, procedure, players=players, first=first):
                players = step.players
                for name, value in {"round": step.round, **step.logs}.items():
                    logs.setdefault(name, []).append(value)
                show(step.round, step.logs)
                if time.monotonic() - written >= self.checkpoint_seconds:
                    self._write_checkpoint(file, players, logs)
                    written = time.monotonic()
        self._write_checkpoint(file, players, logs)
        write_table(self.path / "learning.parquet", {n: np.array(v) for n, v in logs.items()})
        return players.manipulation

    def _write_checkpoint(self, file: Path, players: Players, logs: dict[str, list]) -> None:
        """Writes all that learning needs to go on, as one file."""
        file.parent.mkdir(exist_ok=True)
        arrays = named_arrays(players, "players.")
        write_arrays(file, arrays | {f"logs.{name}": np.array(v) for name, v in logs.items()})

    def told(self, population: Population, best: np.ndarray, worst: np.ndarray) -> dict[str, Any]:
        """Returns the provenance that the datasets share."""
        scores = read_table(self.path / "members.parquet")["score"]
        told: dict[str, Any] = {"perturbed_from": self.source.name, "score": self.plan.score}
        for name, members in (("disentangled", best), ("entangled", worst)):
            told[f"{name}_members"] = ", ".join(map(str, members))
            told[f"{name}_seeds"] = ", ".join(str(population.members["seed"][m]) for m in members)
            told[f"{name}_score"] = float(scores[members].mean())
        return told | {"seed": self.plan.procedure.seed, "rounds": self.plan.procedure.rounds}

    def write_datasets(self, learned: Manipulation, told: dict[str, Any]) -> None:
        """Writes the three datasets and the table of their changes."""
        source, procedure = self.source, self.plan.procedure
        points = neighbor_features(source.factors, source.space, POINTS, seed=procedure.seed)
        here, there = map(jnp.asarray, points)
        layers = ARCHITECTURES[procedure.architecture].decoder
        key = jax.random.fold_in(jax.random.key(procedure.seed), 1)
        changes: dict[str, AbstractChange] = {
            "manipulated": learned,
            "noise": Noise(jnp.uint32(procedure.seed), source.shape),
            "random-direction": random_direction(learned, layers, here, there, key=key),
        }
        rows: list[dict[str, Any]] = []
        for name, change in changes.items():
            changed = perturbed_dataset(source, change, procedure.epsilon, name=name)
            largest, mean = pixel_changes(source, changed)
            size: dict[str, Any] = {"largest_change": largest, "mean_change": mean}
            measured = smoothness(change, here, there) if name != "noise" else {}
            rows.append({"dataset": name, **size, **measured})
            write_perturbed(
                self.datasets[name],
                Source(self.plan.spec.dataset, self.plan.spec.options, source.checksum()),
                change,
                procedure.epsilon,
                name=f"{source.name}-{name}",
                architecture=procedure.architecture,
                provenance=size | (told if name != "noise" else {"seed": procedure.seed}),
            )
        columns = {name: [row.get(name) for row in rows] for name in rows[0]}
        write_table(self.path / "changes.parquet", columns)

    def measure(self) -> None:
        """Measures what is left of the factors, once."""
        file = self.path / "preservation.parquet"
        if file.exists():
            return
        columns: dict[str, list] = {
            name: [] for name in ("dataset", "factor", "original", "perturbed", "found")
        }
        seed = self.plan.procedure.seed
        steps = self.plan.reader_steps
        original = factor_r2(self.source, steps=steps, seed=seed)
        for name, path in self.datasets.items():
            changed = open_perturbed(path, source=self.source)
            kept = measure_preservation(
                self.source, changed, steps=steps, seed=seed, before=original
            )
            for factor, before, after in zip(
                kept.factors, kept.original, kept.perturbed, strict=True
            ):
                row = (name, factor, float(before), float(after), kept.found)
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
        write_table(file, columns)

    def draw(self) -> None:
        """Draws original, manipulation and result of some images, and the two controls."""
        if self.picture.exists():
            return
        source = self.source
        rng = np.random.default_rng(self.plan.procedure.seed)
        index = np.sort(rng.choice(len(source), min(SHOWN, len(source)), replace=False))
        original = source.examples(index)
        results = {
            name: open_perturbed(path, source=source).examples(index)
            for name, path in self.datasets.items()
        }
        change = (results["manipulated"] - original) / (2 * self.plan.procedure.epsilon) + 0.5
        rows = {"original": original, "manipulation": np.clip(change, 0, 1)} | results
        title = f"{source.name}: epsilon {self.plan.procedure.epsilon:g}; gray is no change"
        traversal_sheet(list(rows.values()), self.picture, names=list(rows), title=title)


def population_spec(dataset: str, options: Mapping[str, Any], **settings: Any) -> Spec:
    """Returns the spec of a population of beta-VAEs; as many latents as factors by default."""
    if settings.get("latents") is None:
        space = load_dataset(dataset, **options).space
        settings["latents"] = max(1, len(set(feature_owners(space))))
    return Spec(dataset, options, objective="beta-vae", **settings)


def run_spec(path: Path) -> Spec:
    """Returns the spec of a finished run of VAEs, to choose members from."""
    run = open_run(path)
    run.require(run.weights)
    return Spec.of(run.config["spec"])


def member_scores(population: Population, dataset: Dataset, metric: str, items: int) -> np.ndarray:
    """Returns one score a member; not a number where it diverged or the metric does not apply."""
    options = Score(run=Path(), metrics=(metric,), items=items, repeats=0)
    scores = np.full(len(population), np.nan)
    kept = np.flatnonzero(population.members["status"] != "diverged")
    for row in score_population(population, dataset, options).rows:
        scores[kept[row.member]] = np.nan if row.value is None else row.value
    return scores


def _is_written(path: Path) -> bool:
    """Whether a dataset is there: its settings are written last."""
    return (path / "perturbation.toml").exists()


def _to_device(leaf: object) -> object:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
