"""`untwist demo`: the point of the field in three minutes."""

from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float

from untwist.cli.runs import summarize_runs
from untwist.cli.score import Score, score_population, store_scores
from untwist.cli.tables import print_table
from untwist.datasets import Dataset, load
from untwist.models import VAE, traverse
from untwist.report import Traversal, training_curves, traversal_panels
from untwist.store import Run, open_run, read_table
from untwist.training import Conduct, Population, Spec, resume, train

BASE = Spec(
    dataset="sprites",
    options={"size": 32, "scales": 3, "orientations": 1, "positions": 16},
    architecture="small",
    latents=5,
    steps=3000,
)
SPECS = {
    "ae": replace(BASE, objective="ae"),
    "beta-vae": replace(BASE, vary={"beta": (1.0, 4.0, 16.0)}),
    "full-covariance": replace(BASE, posterior="full", vary={"beta": (4.0,)}),
}
SCORES = ("mig", "factor_vae_score")
SHOWN = {
    "AE": ("ae", 0.0),
    "VAE": ("beta-vae", 1.0),
    "beta-VAE, beta 16": ("beta-vae", 16.0),
    "full covariance, beta 4": ("full-covariance", 4.0),
}


@dataclass(frozen=True)
class Demo:
    """See the point of the field in three minutes.

    Trains an autoencoder, a VAE, beta-VAEs and a beta-VAE with full covariance on small sprites,
    three seeds each; prints a table and draws what their latents do. Run again, it shows what is
    there.
    """

    out: Path = Path("demo")
    """The directory for the runs and the pictures."""
    seeds: int = 3
    """Seeds of each kind of model."""
    steps: int = BASE.steps
    """Steps of training."""
    quiet: bool = False
    """Show no progress."""


def main(words: list[str]) -> int:
    """Parses the command line, trains, prints and draws; returns the exit code."""
    options = tyro.cli(Demo, prog="untwist demo", args=words)
    dataset = load(BASE.dataset, **BASE.options)
    print(f"{len(dataset):,} images, {dataset.provenance['source']}: shape, scale, posX, posY")
    populations = {}
    for name, spec in SPECS.items():
        spec = replace(spec, seeds=tuple(range(options.seeds)), steps=options.steps)
        populations[name] = _train(spec, options.out / "runs" / name, dataset, not options.quiet)
        if (populations[name].members["status"] == "interrupted").any():
            print("interrupted; untwist demo goes on from here")
            return 130
    runs = {name: open_run(options.out / "runs" / name) for name in SPECS}
    for name, run in runs.items():
        if not run.scores.exists():
            table = score_population(populations[name], dataset, Score(run.path, SCORES, repeats=0))
            store_scores(run, populations[name], table)
    title = "losses in nats an image, scores from 0 to 1; mean ± sd over seeds"
    print_table(*summarize_runs(list(runs.values()), SCORES), title=title)
    training_curves(_curves(runs), options.out / "curves.png", logarithmic=["reconstruction"])
    traversal_panels(
        {
            title: _traversal(populations[run], beta, dataset)
            for title, (run, beta) in SHOWN.items()
        },
        options.out / "traversals.png",
        title="each row moves one latent (seed 0; the twin of dSprites at 32x32)",
    )
    print(f"pictures: {options.out / 'traversals.png'}, {options.out / 'curves.png'}")
    print("A diagonal posterior turns the latents onto the factors; without it they stay mixed.")
    return 0


def _train(spec: Spec, path: Path, dataset: Dataset, progress: bool) -> Population:
    """The population of a spec: trained, resumed or read, whatever is left to do."""
    conduct = Conduct(progress=progress)
    if (path / "run.toml").exists():
        return resume(path, dataset=dataset, conduct=conduct)
    return train(spec, path, dataset=dataset, conduct=conduct)


def _curves(runs: dict[str, Run]) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Reconstruction and KL of each setting over steps."""
    panels: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {"reconstruction": {}, "kl": {}}
    for name, run in runs.items():
        members, history = read_table(run.members), read_table(run.history)
        settings = members.get("beta", np.zeros(len(members["seed"])))
        for value in dict.fromkeys(settings):
            label = name if name == "ae" else f"{name}, beta {value:g}"
            chosen = np.flatnonzero(settings == value)
            rows = [history["member"] == member for member in chosen]
            steps = history["step"][rows[0]]
            for part, curves in panels.items():
                curves[label] = (steps, np.stack([history[part][row] for row in rows]))
    return panels


def _traversal(population: Population, beta: float, dataset: Dataset) -> Traversal:
    """What the latents of the first member at this beta do, the most used first."""
    betas = population.members.get("beta", np.zeros(len(population)))
    model = population.model(int(np.flatnonzero(betas == beta)[0]))
    examples = jnp.asarray(dataset.examples(slice(None)))
    images, variance = _move_latents(model, examples)
    order = np.argsort(variance)
    labels = [f"latent {j + 1}\n" + (f"$\\sigma^2$ {variance[j]:.2f}") for j in order]
    return Traversal(np.asarray(images)[order], labels)


@eqx.filter_jit
def _move_latents(model: VAE, examples: Float[Array, "item *shape"]) -> tuple[Array, Array]:
    """Traversals from the middle image over two deviations of the codes, and mean variances."""
    posterior = jax.vmap(model.encode)(examples)
    variance = jnp.mean(jax.vmap(lambda q: q.variance)(posterior), axis=0)
    center = jnp.mean(posterior.mean, axis=0)
    spread = 2 * jnp.sqrt(jnp.var(posterior.mean, axis=0) + variance)
    code = posterior.mean[len(examples) // 2 + 8 * 16 + 8]
    decode = lambda z: model.likelihood.mean(model.decode(z))  # noqa: E731
    return traverse(decode, code, center - spread, center + spread, 8), variance
