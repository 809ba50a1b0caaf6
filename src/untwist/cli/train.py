"""`untwist train`: train a population of models, or resume one."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jax
import tyro

from untwist.cli.tables import print_members
from untwist.datasets import settled_name
from untwist.perturbation import parse_dataset_options
from untwist.store import open_run
from untwist.training import Conduct, Spec, resume, train
from untwist.types import InputError

INTERRUPTED = 130
Assignments = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=VALUE ...]")]


@dataclass(frozen=True)
class Train:
    """Train a population of models, or resume one.

    Every combination of hyperparameters and seeds is one member, and all members train in one
    compiled program. Ctrl-C stops at the next log and keeps a checkpoint; --resume goes on.

    Example: untwist train --dataset sprites --set size=32 positions=8 --beta 1 4 16 --seeds 5
    """

    dataset: str = "sprites"
    """The data: a name that `untwist data list` shows, or the path of your own or of a perturbed
    dataset."""
    set: Assignments = ()
    """Options of the dataset, e.g. size=32 positions=8."""
    out: Path | None = None
    """The run directory to make; runs/DATASET-OBJECTIVE-NUMBER by default."""
    resume: Path | None = None
    """A run directory to go on with; every option that says what to train is then its own."""
    objective: str = "beta-vae"
    """ae, beta-vae, annealed-vae, factor-vae, beta-tcvae, dip-vae-i, dip-vae-ii, slow-vae or pcl;
    docs/objectives.md says which to choose."""
    beta: tuple[float, ...] = ()
    """Weights of the KL, one member each; 1 by default. What it means: nats an image."""
    learning_rate: tuple[float, ...] = ()
    """Learning rates, one member each; 0.001 by default."""
    vary: Assignments = ()
    """Other hyperparameters, e.g. warmup=0,1000 capacity=5,25 gamma=1000 variance=0.1
    critic_learning_rate=0.0001."""
    pairs: Assignments = ()
    """Which pairs slow-vae and pcl learn from: kind=laplace rate=6 (the default; rate=random draws
    it), kind=uniform changed=1 (or random), kind=next for rows in the order of time."""
    critic_layers: tuple[int, ...] = ()
    """Widths of the hidden layers of factor-vae's discriminator; six of 1000, as published, by
    default: 256 256 is ten times faster on a CPU."""
    critic_optimizer: str | None = None
    """The second player's optimizer; the published one by default."""
    seeds: int = 1
    """How many seeds."""
    first_seed: int = 0
    """The first of them."""
    architecture: str = "convolutional"
    """linear, mlp, convolutional, or a published one such as rolinek2019-dsprites."""
    latents: int | None = None
    """How many latents; the architecture's published number, or 10, by default."""
    posterior: str | None = None
    """deterministic, diagonal or full; by default deterministic under ae and pcl, else diagonal."""
    likelihood: str | None = None
    """bernoulli, gaussian or squared_error; what suits the data by default."""
    optimizer: str = "adam"
    """adam, adagrad, sgd, or adam-adversarial: Adam with momenta 0.5 and 0.9."""
    precision: str = "float32"
    """float32, or bfloat16 for the arithmetic of the networks."""
    batch: int = 64
    """Examples a step."""
    steps: int = 10_000
    """Steps of training."""
    log_every: int = 100
    """Steps a log."""
    checkpoint_seconds: float = 30.0
    """How often to write a checkpoint."""
    devices: int = 1
    """How many devices share the members."""
    memory_gb: float | None = None
    """Memory to use on each device; all that is free by default."""
    quiet: bool = False
    """Show no progress and no table."""

    def spec(self) -> Spec:
        """Returns what to train."""
        vary = {}
        if self.beta:
            vary["beta"] = self.beta
        if self.learning_rate:
            vary["learning_rate"] = self.learning_rate
        for assignment in self.vary:
            name, values = parse_values(assignment)
            if name in vary:
                raise InputError(f"{name} is given twice: give all its values at once")
            vary[name] = values
        if self.seeds < 1:
            raise InputError(f"a population needs at least one seed, but got --seeds {self.seeds}")
        return Spec(
            dataset=settled_name(self.dataset),
            options=parse_dataset_options(self.dataset, self.set),
            architecture=self.architecture,
            latents=self.latents,
            posterior=self.posterior,
            likelihood=self.likelihood,
            objective=self.objective,
            optimizer=self.optimizer,
            critic_layers=self.critic_layers or None,
            critic_optimizer=self.critic_optimizer,
            pairs=parse_pairs(self.pairs),
            precision=self.precision,
            batch=self.batch,
            steps=self.steps,
            log_every=self.log_every,
            vary=vary,
            seeds=tuple(range(self.first_seed, self.first_seed + self.seeds)),
        )

    def conduct(self) -> Conduct:
        """Returns how to train it."""
        available = jax.devices()
        if not 1 <= self.devices <= len(available):
            raise InputError(
                f"expected from 1 to {len(available)} devices, which are there, "
                f"but got {self.devices}"
            )
        memory = None if self.memory_gb is None else int(self.memory_gb * 2**30)
        return Conduct(not self.quiet, self.checkpoint_seconds, memory, available[: self.devices])


def main(words: list[str]) -> int:
    """Parses the command line, trains and prints; returns the exit code."""
    options = tyro.cli(Train, prog="untwist train", args=words)
    if options.resume is None:
        stem = f"{Path(options.dataset).stem}-{options.objective}"
        path = options.out or _free_path(Path("runs"), stem)
        population = train(options.spec(), path, conduct=options.conduct())
    else:
        path = options.resume
        population = resume(path, conduct=options.conduct())
    if (population.members["status"] == "interrupted").any():
        print(f"interrupted; go on with: untwist train --resume {path}")
        return INTERRUPTED
    if not options.quiet:
        print_members(open_run(path))
        print(f"stored in {path}")
    return 0


def parse_values(assignment: str) -> tuple[str, tuple[float, ...]]:
    """Returns the name and the numbers of NAME=VALUE,VALUE,...

    >>> parse_values("beta=1,4")
    ('beta', (1.0, 4.0))
    """
    name, equals, values = assignment.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip().replace("-", "_"), tuple(float(v) for v in values.split(","))
    except ValueError:
        raise InputError(
            f"expected a hyperparameter as NAME=NUMBER,NUMBER,... but got {assignment!r}"
        ) from None


def parse_pairs(assignments: tuple[str, ...]) -> dict[str, str | float]:
    """Returns settings of pairs out of NAME=VALUE texts: numbers where they are such.

    >>> parse_pairs(("kind=uniform", "changed=2"))
    {'kind': 'uniform', 'changed': 2.0}
    """
    settings: dict[str, str | float] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(f"expected a setting of pairs as NAME=VALUE, but got {assignment!r}")
        if name in settings:
            raise InputError(f"{name} of the pairs is given twice: give it once")
        try:
            settings[name] = float(value)
        except ValueError:
            settings[name] = value
    return settings


def _free_path(root: Path, stem: str) -> Path:
    """The first of stem-1, stem-2, ... that does not exist."""
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    found = (pattern.fullmatch(path.name) for path in root.glob(f"{stem}-*"))
    return root / f"{stem}-{1 + max((int(match[1]) for match in found if match), default=0)}"
