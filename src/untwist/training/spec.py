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
from untwist.models import ARCHITECTURES, LIKELIHOODS, POSTERIORS, VAE, Gaussian, build
from untwist.objectives import OBJECTIVES
from untwist.perturbation import load_dataset
from untwist.training.member import BuildCritic, BuildModel, Member, Partners, Recipe
from untwist.training.optimizer import OPTIMIZERS, Optimizer
from untwist.training.partners import pair_settings, partners_of
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
        posterior: A family in `POSTERIORS`; None for the objective's own: deterministic under "ae"
            and "pcl", else diagonal.
        likelihood: A name in `LIKELIHOODS`; None for the one that suits the dataset.
        objective: A name in `OBJECTIVES`.
        optimizer: A name in `OPTIMIZERS`.
        critic_layers: Widths of the second player's hidden layers, if the objective has one that
            has any; None for the published ones.
        critic_optimizer: A name in `OPTIMIZERS`; None for the published one.
        pairs: Settings of the pairs, if the objective learns from any: `kind` and what `PAIRS`
            lists for it.
        precision: "float32", or "bfloat16" for the networks' arithmetic.
        batch: Examples a step.
        steps: Steps of training.
        log_every: Steps a log.
        vary: Values of hyperparameters: the objective's fields, `learning_rate`, `variance` under
            the Gaussian likelihood, and `critic_learning_rate` where there is a second player.
            Members are their combinations.
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
    critic_layers: tuple[int, ...] | None = None
    critic_optimizer: str | None = None
    pairs: Mapping[str, Any] = field(default_factory=dict)
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
        lists = {name: tuple(table[name]) for name in ("seeds", "critic_layers") if name in table}
        return cls(**{**table, "vary": vary, **lists})


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
    latents = spec.latents
    if latents is None:
        latents = ARCHITECTURES[spec.architecture].latents or 10
    spec = replace(
        spec, likelihood=_likelihood(spec, dataset), latents=latents, posterior=_posterior(spec)
    )
    spec = replace(spec, **_second_player(spec), pairs=_pairs(spec))
    spec = replace(spec, vary=_vary(spec), seeds=_seeds(spec.seeds))
    _check_lengths(spec, dataset)
    recipe_of(spec, partners_of(spec.objective, spec.pairs, dataset))
    eqx.filter_eval_shape(model_builder(spec, dataset.shape), jax.random.key(0))
    return spec, dataset


def member_columns(spec: Spec) -> dict[str, np.ndarray]:
    """Returns the table of members: one row for each combination of hyperparameters and seed."""
    names = list(spec.vary)
    rows = list(itertools.product(*spec.vary.values(), spec.seeds))
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
    seeds = np.array([row[-1] for row in rows])
    return {"member": np.arange(len(rows)), "seed": seeds, **columns}


def prepare(
    spec: Spec, shape: tuple[int, ...], partners: Partners | str | None = None
) -> tuple[Member, Recipe]:
    """Returns the population of a resolved spec before its first step, and its recipe."""
    columns, recipe = member_columns(spec), recipe_of(spec, partners)
    model, critic = model_builder(spec, shape), critic_builder(spec)
    members = start_population(columns["seed"], recipe, model, critic)
    if spec.likelihood == "gaussian":
        variance = Gaussian(jnp.asarray(columns["variance"], jnp.float32))
        members = eqx.tree_at(lambda m: m.model.likelihood, members, variance)
    return members, recipe


def recipe_of(spec: Spec, partners: Partners | str | None = None) -> Recipe:
    """Returns how the members of a resolved spec learn."""
    columns = member_columns(spec)
    fields = hyperparameters(spec.objective)
    objective = OBJECTIVES[spec.objective](**{name: columns[name] for name in fields})
    rate = jnp.asarray(columns["learning_rate"], jnp.float32)
    critic_optimizer = None
    if spec.critic_optimizer is not None:
        critic_rate = jnp.asarray(columns["critic_learning_rate"], jnp.float32)
        critic_optimizer = Optimizer(critic_rate, spec.critic_optimizer)
    optimizer = Optimizer(rate, spec.optimizer)
    return Recipe(objective, optimizer, critic_optimizer, spec.batch, partners)


def critic_builder(spec: Spec) -> BuildCritic | None:
    """Returns the function from a model and a key to a resolved spec's second player, if any."""
    critic = OBJECTIVES[spec.objective].needs.critic
    if critic is None:
        return None
    return lambda model, key: critic.build(model, spec.critic_layers or (), key)


def model_builder(spec: Spec, shape: tuple[int, ...]) -> BuildModel:
    """Returns the function from a key to a resolved spec's model of examples of this shape.

    A model without a decoder has no likelihood to choose: it holds one that nothing asks.
    """
    likelihood = LIKELIHOODS[spec.likelihood or "squared_error"]
    arguments = (jnp.ones(()),) if likelihood is Gaussian else ()

    def model(key: Key[Array, ""]) -> VAE:
        return build(
            ARCHITECTURES[spec.architecture],
            shape,
            spec.latents or 0,
            likelihood(*arguments),
            posterior=spec.posterior or "",
            precision=spec.precision,
            decoder=OBJECTIVES[spec.objective].needs.decoder,
            key=key,
        )

    return model


def hyperparameters(objective: str) -> list[str]:
    """Returns the names of an objective's hyperparameters."""
    return [field.name for field in dataclasses.fields(OBJECTIVES[objective])]


def _likelihood(spec: Spec, dataset: Dataset) -> str | None:
    """The likelihood's name: the one given, or the dataset's; None where nothing is decoded."""
    if not OBJECTIVES[spec.objective].needs.decoder:
        if spec.likelihood is not None:
            raise InputError(
                f"{spec.objective} trains an encoder alone, so it has no likelihood, but got "
                f"{spec.likelihood}: leave it out"
            )
        return None
    likelihood = dataset.likelihood if spec.likelihood is None else spec.likelihood
    if likelihood not in LIKELIHOODS:
        raise nearest("likelihood", likelihood, LIKELIHOODS)
    if likelihood == "bernoulli" and not dataset.is_image:
        raise InputError(
            f"the Bernoulli likelihood needs values from 0 to 1, but {dataset.name} holds vectors: "
            "use gaussian or squared_error"
        )
    return likelihood


def _second_player(spec: Spec) -> dict[str, Any]:
    """The settings of the second player, its published ones where none are given."""
    critic = OBJECTIVES[spec.objective].needs.critic
    layers, optimizer = spec.critic_layers, spec.critic_optimizer
    if critic is None:
        if layers is not None or optimizer is not None:
            raise InputError(
                f"{spec.objective} has no second player: leave the settings of a critic out"
            )
        return {}
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise nearest("optimizer", optimizer, OPTIMIZERS)
    if layers is not None and not critic.layers:
        raise InputError(f"the second player of {spec.objective} has no hidden layers to choose")
    if layers is not None and (not layers or min(layers) < 1):
        raise InputError(
            f"the critic's hidden layers need a width of at least 1 each, but got {list(layers)}"
        )
    published = critic.layers or None
    return {
        "critic_layers": published if layers is None else tuple(layers),
        "critic_optimizer": optimizer or critic.optimizer,
    }


def _pairs(spec: Spec) -> Mapping[str, Any]:
    """The settings of pairs with every default, where the objective learns from pairs."""
    needed = OBJECTIVES[spec.objective].needs.partners == "pairs"
    return pair_settings(spec.pairs) if needed else spec.pairs


def _posterior(spec: Spec) -> str:
    """The family: the one given, if the objective works with it, or the objective's first."""
    families = OBJECTIVES[spec.objective].needs.posteriors
    if spec.posterior is None:
        return families[0]
    if spec.posterior not in POSTERIORS:
        raise nearest("posterior", spec.posterior, POSTERIORS)
    if spec.posterior == "deterministic" and spec.posterior not in families:
        raise InputError(
            f"{spec.objective} needs a distribution over the latents, but the deterministic "
            f"posterior is a point: use {' or '.join(families)}, or the objective ae"
        )
    if spec.posterior not in families:
        raise InputError(
            f"{spec.objective} works with the posterior {' or '.join(families)}, but got "
            f"{spec.posterior}"
        )
    return spec.posterior


def _vary(spec: Spec) -> dict[str, tuple[float, ...]]:
    """Every hyperparameter with its values: those given, in their order, then the defaults."""
    defaults = {name: _default(spec.objective, name) for name in hyperparameters(spec.objective)}
    defaults["learning_rate"] = LEARNING_RATE
    if spec.likelihood == "gaussian":
        defaults["variance"] = 1.0
    critic = OBJECTIVES[spec.objective].needs.critic
    if critic is not None:
        defaults["critic_learning_rate"] = critic.learning_rate
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
    least = OBJECTIVES[spec.objective].needs.batch
    if 1 <= spec.batch < least:
        raise InputError(
            f"{spec.objective} compares the examples of a batch, so it needs at least {least} of "
            f"them, but got a batch of {spec.batch}"
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
