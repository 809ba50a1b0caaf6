"""A trained population: stacked models and one row a member."""

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from untwist.datasets import Dataset
from untwist.models import VAE
from untwist.store import Run, fill, read_arrays, read_table
from untwist.training.encoding import Encoding, encode
from untwist.training.history import History
from untwist.training.member import Member
from untwist.training.spec import Spec, member_columns, model_builder

COLLAPSED_KL = 0.05
"""A member whose codes say less than so many nats of an image, on average, has collapsed."""


@dataclass(frozen=True)
class Population:
    """What training gives back.

    Attributes:
        models: The models, each array with a leading member axis: `vmap` over it, or take `model`.
        members: The table: seed, hyperparameters, `status` (ok, diverged, collapsed, interrupted),
            `failed_at` (the step at which a member diverged, or -1) and `steps` taken.
        history: The logged parts of the loss, one row a member and log.
    """

    models: VAE
    members: dict[str, np.ndarray]
    history: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.members["seed"])

    def model(self, member: int) -> VAE:
        """Returns one member's model."""
        return jax.tree.map(lambda leaf: leaf[member], self.models)

    def encode(self, dataset: Dataset) -> Encoding:
        """Returns the posteriors of all examples under every member, and how well they decode."""
        return encode(self.models, dataset)


def summarize(spec: Spec, members: Member, history: History, *, done: bool) -> Population:
    """Returns the population of these members, each with its status."""
    failed_at = np.asarray(members.failed_at)
    steps = np.where(failed_at < 0, history.steps[-1], failed_at)
    status = np.where(failed_at >= 0, "diverged", "ok" if done else "interrupted")
    if spec.posterior != "deterministic" and "kl" in history.parts:
        empty = history.parts["kl"][-1] < COLLAPSED_KL
        status = np.where((status == "ok") & empty, "collapsed", status)
    table = {"status": status, "failed_at": failed_at, "steps": steps}
    return Population(members.model, member_columns(spec) | table, history.columns())


def load_population(run: Run) -> Population:
    """Returns the population that a finished run stored."""
    spec = Spec.of(run.config["spec"])
    weights, members = run.require(run.weights), read_table(run.require(run.members))
    keys = jax.random.split(jax.random.key(0), len(members["seed"]))
    build = eqx.filter_vmap(model_builder(spec, tuple(run.config["data"]["shape"])))
    models = fill(eqx.filter_eval_shape(build, keys), read_arrays(weights), where=weights)
    return Population(models, members, read_table(run.require(run.history)))
