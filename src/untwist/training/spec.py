"""What to train, as data: names and numbers that a run stores and that make the same run again."""

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from untwist.datasets import Dataset
from untwist.models import ARCHITECTURES, LIKELIHOODS, VAE, Gaussian, build
from untwist.objectives import OBJECTIVES
from untwist.perturbation import load_dataset
from untwist.training.member import BuildModel, Member, Recipe
from untwist.training.optimizer import OPTIMIZERS, Optimizer
from untwist.training.program import start_population
from untwist.types import InputError, nearest

LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Spec:
    """A population: one member for each combination of `vary` and seed.

    Attributes:
        dataset: A name in the catalog of datasets, or the path of a perturbed one.
        options: The dataset's options.
        architecture: A name in `ARCHITECTURES`.
        latents: How many; None for the architecture's published number, or 10.
        posterior: A family in `POSTERIORS`; None for deterministic under "ae", else diagonal.
        likelihood: A name in `LIKELIHOODS`; None for the one that suits the dataset.
        objective: A name in `OBJECTIVES`.
        optimizer: A name in `OPTIMIZERS`.
        precision: "float32", or "bfloat16" for the networks' arithmetic.
        batch: Examples a step.
        steps: Steps of training.
        log_every: Steps a log.
        vary: Values of hyperparameters: the objective's fields, `learning_rate`, and `variance`
            under the Gaussian likelihood. Members are their combinations.
        seeds: Seeds; members that differ in the rest share initial weights and data order by seed.
    """

    dataset: str = "sprites"
    options: Mapping[str, Any] = field(default_factory=dict)
    architecture: str = "convolutional"
    latents: int | None = None
    posterior: str | None = None
    likelihood: str | None = None
    objective: str = "beta-vae"
    optimizer: str = "adam"
    precision: str = "float32"
    batch: int = 64
    steps: int = 10_000
    log_every: int = 100
    vary: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)

    def table(self) -> dict[str, Any]:
        """Returns the spec as nested tables, to be stored."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Spec":
        """Returns the spec that `table` stored."""
        names = [field.name for field in dataclasses.fields(cls)]
        for key in table:
            if key not in names:
                raise nearest("setting", key, names)
        vary = {key: tuple(values) for key, values in table.get("vary", {}).items()}
        return cls(**{**table, "vary": vary, "seeds": tuple(table.get("seeds", (0,)))})


def resolve(spec: Spec, dataset: Dataset | None = None) -> tuple[Spec, Dataset]:
    """Returns the spec with every default filled in and every name checked, and its dataset."""
    for what, name, known in (
        ("architecture", spec.architecture, ARCHITECTURES),
        ("objective", spec.objective, OBJECTIVES),
        ("optimizer", spec.optimizer, OPTIMIZERS),
    ):
        if name not in known:
            raise nearest(what, name, known)
    dataset = load_dataset(spec.dataset, **spec.options) if dataset is None else dataset
    dataset.check()
    likelihood = dataset.likelihood if spec.likelihood is None else spec.likelihood
    if likelihood not in LIKELIHOODS:
        raise nearest("likelihood", likelihood, LIKELIHOODS)
    if likelihood == "bernoulli" and not dataset.is_image:
        raise InputError(
            f"the Bernoulli likelihood needs values from 0 to 1, but {dataset.name} holds vectors: "
            "use gaussian or squared_error"
        )
    latents = spec.latents
    if latents is None:
        latents = ARCHITECTURES[spec.architecture].latents or 10
    posterior = spec.posterior or ("deterministic" if spec.objective == "ae" else "diagonal")
    if posterior == "deterministic" and spec.objective != "ae":
        raise InputError(
            f"{spec.objective} needs a distribution over the latents, but the deterministic "
            "posterior is a point: use diagonal or full, or the objective ae"
        )
    spec = replace(spec, likelihood=likelihood, latents=latents, posterior=posterior)
    spec = replace(spec, vary=_vary(spec), seeds=_seeds(spec.seeds))
    _check_lengths(spec, dataset)
    recipe_of(spec)
    eqx.filter_eval_shape(model_builder(spec, dataset.shape), jax.random.key(0))
    return spec, dataset


def member_columns(spec: Spec) -> dict[str, np.ndarray]:
    """Returns the table of members: one row for each combination of hyperparameters and seed."""
    names = list(spec.vary)
    rows = list(itertools.product(*spec.vary.values(), spec.seeds))
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
    seeds = np.array([row[-1] for row in rows])
    return {"member": np.arange(len(rows)), "seed": seeds, **columns}


def prepare(spec: Spec, shape: tuple[int, ...]) -> tuple[Member, Recipe]:
    """Returns the population of a resolved spec before its first step, and its recipe."""
    columns, recipe = member_columns(spec), recipe_of(spec)
    members = start_population(columns["seed"], recipe, model_builder(spec, shape))
    if spec.likelihood == "gaussian":
        variance = Gaussian(jnp.asarray(columns["variance"], jnp.float32))
        members = eqx.tree_at(lambda m: m.model.likelihood, members, variance)
    return members, recipe


def recipe_of(spec: Spec) -> Recipe:
    """Returns how the members of a resolved spec learn."""
    columns = member_columns(spec)
    fields = hyperparameters(spec.objective)
    objective = OBJECTIVES[spec.objective](**{name: columns[name] for name in fields})
    rate = jnp.asarray(columns["learning_rate"], jnp.float32)
    return Recipe(objective, Optimizer(rate, spec.optimizer), batch=spec.batch)


def model_builder(spec: Spec, shape: tuple[int, ...]) -> BuildModel:
    """Returns the function from a key to a resolved spec's model of examples of this shape."""
    likelihood = LIKELIHOODS[spec.likelihood or ""]
    arguments = (jnp.ones(()),) if likelihood is Gaussian else ()

    def model(key: Key[Array, ""]) -> VAE:
        return build(
            ARCHITECTURES[spec.architecture],
            shape,
            spec.latents or 0,
            likelihood(*arguments),
            posterior=spec.posterior or "",
            precision=spec.precision,
            key=key,
        )

    return model


def hyperparameters(objective: str) -> list[str]:
    """Returns the names of an objective's hyperparameters."""
    return [field.name for field in dataclasses.fields(OBJECTIVES[objective])]


def _vary(spec: Spec) -> dict[str, tuple[float, ...]]:
    """Every hyperparameter with its values: those given, in their order, then the defaults."""
    defaults = {name: _default(spec.objective, name) for name in hyperparameters(spec.objective)}
    defaults["learning_rate"] = LEARNING_RATE
    if spec.likelihood == "gaussian":
        defaults["variance"] = 1.0
    for name, values in spec.vary.items():
        if name not in defaults:
            raise nearest(f"hyperparameter of {spec.objective}", name, defaults)
        if not values:
            raise InputError(f"{name} needs at least one value, but got none")
    given = {name: tuple(float(v) for v in values) for name, values in spec.vary.items()}
    return given | {name: (value,) for name, value in defaults.items() if name not in given}


def _default(objective: str, name: str) -> float:
    """The value that an objective's constructor gives a hyperparameter."""
    return float(np.asarray(getattr(OBJECTIVES[objective](), name)))


def _check_lengths(spec: Spec, dataset: Dataset) -> None:
    """Raises unless there is at least one step, and a batch that the data can fill."""
    if spec.steps < 1 or spec.log_every < 1:
        raise InputError(
            "training takes at least one step and logs at least once in so many, but got "
            f"{spec.steps} steps and a log every {spec.log_every}"
        )
    if not 1 <= spec.batch <= len(dataset):
        raise InputError(
            f"a batch holds at least one example and at most the {len(dataset)} examples that "
            f"{dataset.name} has, but got a batch of {spec.batch}"
        )


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds, each once and within 32 bits."""
    if not seeds:
        raise InputError("a population needs at least one seed, but got none")
    for seed in seeds:
        if not 0 <= seed < 2**32:
            raise InputError(f"a seed must be from 0 to {2**32 - 1}, but got {seed}")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"seeds must differ, but got {', '.join(map(str, seeds))}")
    return tuple(seeds)
