"""What objectives make of a dataset, its manipulation and the controls, as in zietlow2021 Table 1.

Every objective is trained with the same seeds on each of the four, in OUT/comparison/, and scored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from untwist.cli.perturb_stages import Stages
from untwist.cli.score import Score, score_population, store_scores
from untwist.cli.settings import mean_and_spread, member_scores
from untwist.cli.train import parse_values
from untwist.datasets import Dataset
from untwist.objectives import OBJECTIVES
from untwist.perturbation import open_perturbed
from untwist.store import open_run, read_table
from untwist.training import Conduct, Population, Spec, hyperparameters, resume, train
from untwist.types import InputError, nearest

METRICS = ("mig", "sap", "factor_vae_score", "active_units")


@dataclass(frozen=True)
class Comparison:
    """Objectives with their hyperparameters, and how many seeds each gets.

    Attributes:
        objectives: For each label its objective's name and hyperparameters.
        seeds: How many.
        critic_layers: Of the second player, if there is one; None for the published ones.
        metrics: What to score.
    """

    objectives: Mapping[str, tuple[str, Mapping[str, tuple[float, ...]]]]
    seeds: int = 5
    critic_layers: tuple[int, ...] | None = None
    metrics: tuple[str, ...] = field(default=METRICS)

    @classmethod
    def of(
        cls, words: Sequence[str], seeds: int, critic_layers: tuple[int, ...] = ()
    ) -> "Comparison":
        """Returns the comparison of NAME or NAME:HYPERPARAMETER=VALUE;... words.

        >>> Comparison.of(["ae", "beta-vae:beta=4"], 2).objectives
        {'ae': ('ae', {}), 'beta-vae:beta=4': ('beta-vae', {'beta': (4.0,)})}
        """
        if seeds < 1:
            raise InputError(f"a comparison needs at least one seed, but got {seeds}")
        found = {}
        for word in words:
            name, _, settings = word.partition(":")
            if name not in OBJECTIVES:
                raise nearest("objective", name, OBJECTIVES)
            values = dict(parse_values(part) for part in settings.split(";") if part)
            known = [*hyperparameters(name), "learning_rate"]
            for key, given in values.items():
                if key not in known:
                    raise nearest(f"hyperparameter of {name}", key, known)
                if len(given) != 1:
                    raise InputError(f"{word!r} must give {key} one value: name it once for each")
            found[word] = (name, values)
        return cls(found, seeds, critic_layers or None)

    def run(self, stages: Stages) -> bool:
        """Trains and scores what is not there yet; returns whether it came to the end."""
        for label in self.objectives:
            for dataset in ("original", *stages.datasets):
                if not self._run_one(stages, label, dataset):
                    return False
        return True

    def table(self, stages: Stages, metric: str) -> tuple[list[str], list[list[object]]]:
        """Returns one score as columns and rows: an objective a row, a dataset a column.

        Members that collapsed or diverged are left out, and how many that were is told.
        """
        datasets = ["original", *stages.datasets]
        rows = []
        for label in self.objectives:
            cells: list[object] = [label]
            for dataset in datasets:
                run = open_run(_place(stages, label, dataset))
                good = read_table(run.members)["status"] == "ok"
                values = member_scores(run).get(metric, np.full(len(good), np.nan))[good]
                lost = f" ({len(good) - len(values)} lost)" if not good.all() else ""
                cells.append(mean_and_spread(values) + lost)
            rows.append(cells)
        return ["objective", *datasets], rows

    def _run_one(self, stages: Stages, label: str, name: str) -> bool:
        """One objective on one dataset, trained and scored; false if it was interrupted."""
        place = _place(stages, label, name)
        if (place / "run.toml").exists() and open_run(place).scores.exists():
            return True
        source = stages.source
        if name == "original":
            dataset = source
        else:
            dataset = open_perturbed(stages.datasets[name], source=source)
        population = self._population(stages, label, name, dataset, place)
        status = population.members["status"]
        if (status == "interrupted").any():
            return False
        if (status != "diverged").any():
            options = Score(run=place, metrics=self.metrics, items=stages.plan.items, repeats=0)
            table = score_population(population, dataset, options)
            store_scores(open_run(place), population, table)
        return True

    def _population(
        self, stages: Stages, label: str, name: str, dataset: Dataset, place: Path
    ) -> Population:
        """The population of one objective on one dataset: read, resumed or trained."""
        conduct = Conduct(stages.progress, stages.checkpoint_seconds)
        if (place / "run.toml").exists():
            return resume(place, dataset=dataset, conduct=conduct)
        return train(self.spec(stages, label, name), place, dataset=dataset, conduct=conduct)

    def spec(self, stages: Stages, label: str, name: str) -> Spec:
        """Returns what to train: as the population of the manipulation, but for the objective."""
        objective, values = self.objectives[label]
        base = stages.plan.spec
        first = min(base.seeds)
        vary = {"learning_rate": base.vary["learning_rate"]} | dict(values)
        spec = replace(
            base,
            objective=objective,
            posterior=None,
            vary=vary,
            seeds=tuple(range(first, first + self.seeds)),
            critic_layers=self.critic_layers if objective == "factor-vae" else None,
        )
        if name == "original":
            return spec
        return replace(spec, dataset=str(stages.datasets[name]), options={})


def _place(stages: Stages, label: str, dataset: str) -> Path:
    """The run of one objective on one dataset."""
    return stages.path / "comparison" / f"{label.replace(':', '-').replace(';', '-')}-{dataset}"
