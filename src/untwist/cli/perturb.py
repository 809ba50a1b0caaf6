"""`untwist perturb`: make the dataset that hides the convenient variance, with its controls."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from untwist.cli.perturb_comparison import Comparison
from untwist.cli.perturb_show import change_table, choice_table, preservation_table
from untwist.cli.perturb_stages import Plan, Stages, population_spec, run_spec
from untwist.cli.tables import print_table
from untwist.cli.train import INTERRUPTED
from untwist.perturbation import Procedure, parse_dataset_options
from untwist.training import Spec
from untwist.types import InputError

Assignments = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=VALUE ...]")]
SHAPES3D = 0.175
"""The paper's epsilon for Shapes3D; 0.1 elsewhere."""


@dataclass(frozen=True)
class Perturb:
    """Make the dataset that was built to defeat VAEs: same factors, images changed a little.

    Four steps, each kept in the directory, so that a killed call goes on with --resume:

    1. train a population of beta-VAEs on the original and score it;
    2. freeze the encoders of its most disentangled and most entangled members, and learn a change
       of the images, a function of the factors of at most epsilon a pixel, that lets the entangled
       members' decoders draw well and the disentangled ones' badly;
    3. write the manipulated dataset, and two controls of the same size: noise, and a manipulation
       that was not learned. Each is a small directory that stands for a dataset anywhere:
       untwist train --dataset OUT/manipulated
    4. measure that the factors are still there, and draw original, manipulation and result.

    Example: untwist perturb --dataset sprites --set size=32 orientations=1 --architecture small
    """

    dataset: str = "sprites"
    """The original: a dataset of images with factors; `untwist data list` shows all."""
    set: Assignments = ()
    """Options of the dataset, e.g. size=32 positions=8."""
    out: Path | None = None
    """The directory to make; perturbed/DATASET by default."""
    resume: Path | None = None
    """A directory to go on with; all settings are then its own."""
    population: Path | None = None
    """A finished run to choose members from, instead of training one; it names the dataset too."""
    members: int = 10
    """Seeds of the population."""
    beta: float = 8.0
    """The weight of the KL: zietlow2021 uses 8 on dSprites and 32 on Shapes3D."""
    architecture: str = "convolutional"
    """Of the population and of the manipulation's network."""
    latents: int | None = None
    """How many latents; as many as factors that vary by default, as in the paper."""
    steps: int = 10_000
    """Steps of the population's training."""
    batch: int = 64
    """Examples a step."""
    learning_rate: float = 1e-3
    """Of the population."""
    first_seed: int = 0
    """The first seed of the population; the manipulation and the controls follow from it too."""
    score: str = "mig"
    """The score that says what is disentangled; any name that `untwist score` prints."""
    choose: int = 1
    """How many members of each kind: the paper takes 1 on dSprites, 4 on Shapes3D."""
    items: int = 10_000
    """At most how many examples to score on."""
    epsilon: float | None = None
    """The largest change of a pixel, from 0 to 1; 0.175 for Shapes3D and its twin, else 0.1."""
    rounds: int = 10_000
    """Rounds of learning: three batches for the decoders and one for the manipulation each."""
    manipulation_learning_rate: float = 1e-4
    """Of the manipulation and of the decoders that it plays against."""
    common: bool = True
    """Let the manipulation learn its mean over images too; without, it cannot become a veil that
    is the same on all images, as it may with a large epsilon."""
    samples: int = 5
    """Latent samples an image in these rounds."""
    decoder_batches: int = 3
    """Batches for the decoders in a round."""
    reader_steps: int = 2000
    """Steps of the regressors that say what is left of the factors."""
    log_every: int = 100
    """Steps or rounds a log."""
    checkpoint_seconds: float = 30.0
    """How often to write a checkpoint."""
    compare: tuple[str, ...] = ()
    """Objectives to train on original, manipulated, noisy and random-direction data afterwards, and
    to score side by side, e.g. ae beta-vae:beta=4 factor-vae:gamma=35 pcl."""
    compare_seeds: int = 5
    """Seeds of each of them."""
    critic_layers: tuple[int, ...] = ()
    """Widths of the discriminator's hidden layers when factor-vae is compared."""
    quiet: bool = False
    """Show no progress and no table."""

    def plan(self) -> Plan:
        """Returns everything that the result depends on."""
        epsilon = self.epsilon
        spec = self.spec() if self.population is None else run_spec(self.population)
        if epsilon is None:
            epsilon = SHAPES3D if "shapes3d" in spec.dataset else 0.1
        procedure = Procedure(
            epsilon=epsilon,
            rounds=self.rounds,
            batch=self.batch,
            samples=self.samples,
            common=self.common,
            decoder_batches=self.decoder_batches,
            learning_rate=self.manipulation_learning_rate,
            architecture=spec.architecture,
            seed=self.first_seed,
            log_every=self.log_every,
        )
        procedure.check()
        members = self.members if self.population is None else 2 * self.choose
        if self.choose < 1 or members < 2 * self.choose:
            raise InputError(
                f"expected at least 1 member of each kind, and twice as many in the population, "
                f"but got --choose {self.choose} and --members {self.members}"
            )
        population = None if self.population is None else str(self.population.resolve())
        choice = (self.score, self.choose, self.items, self.reader_steps)
        return Plan(spec, procedure, population, *choice)

    def spec(self) -> Spec:
        """Returns the population to train."""
        return population_spec(
            self.dataset,
            parse_dataset_options(self.dataset, self.set),
            architecture=self.architecture,
            latents=self.latents,
            vary={"beta": (self.beta,), "learning_rate": (self.learning_rate,)},
            seeds=tuple(range(self.first_seed, self.first_seed + self.members)),
            steps=self.steps,
            batch=self.batch,
            log_every=self.log_every,
        )


def main(words: list[str]) -> int:
    """Parses the command line, goes through the stages and prints; returns the exit code."""
    options = tyro.cli(Perturb, prog="untwist perturb", args=words)
    comparison = None
    if options.compare:
        comparison = Comparison.of(options.compare, options.compare_seeds, options.critic_layers)
    show = {"progress": not options.quiet, "checkpoint_seconds": options.checkpoint_seconds}
    if options.resume is not None:
        stages = Stages.open(options.resume, **show)
    else:
        out = options.out or Path("perturbed") / Path(options.dataset).name
        stages = Stages.create(out, options.plan(), **show)
    if not stages.run():
        print(f"interrupted; go on with: untwist perturb --resume {stages.path}")
        return INTERRUPTED
    if not options.quiet:
        print_result(stages)
    if comparison is not None:
        return _compare(stages, comparison, options.quiet)
    return 0


def _compare(stages: Stages, comparison: Comparison, quiet: bool) -> int:
    """Trains and scores what is compared, and prints it; returns the exit code."""
    if not comparison.run(stages):
        print(f"interrupted; go on with the same --compare and --resume {stages.path}")
        return INTERRUPTED
    if not quiet:
        for metric in comparison.metrics:
            print_table(*comparison.table(stages, metric), title=f"{metric}, mean ± sd over seeds")
    return 0


def print_result(stages: Stages) -> None:
    """Prints the chosen members, the changes, what is left of the factors, and where all is."""
    print_table(*choice_table(stages.path), title="members of the population")
    print_table(*change_table(stages.path), title="changes of the images")
    print_table(*preservation_table(stages.path), title="factors read from unseen images, R^2")
    print(f"datasets: {', '.join(str(path) for path in stages.datasets.values())}")
    print(f"picture: {stages.picture}")
