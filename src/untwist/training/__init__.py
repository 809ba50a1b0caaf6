"""Training: a population in one compiled program, from a spec or from parts.

`train(spec)` resolves names, shows progress and stores; `fit` is the loop underneath, for datasets,
models and objectives of your own.
"""

from untwist.training.encoding import Encoding, encode
from untwist.training.fit import Snapshot, fit
from untwist.training.member import INDEPENDENT, Member, Recipe, Rows
from untwist.training.optimizer import OPTIMIZERS, Optimizer
from untwist.training.order import shuffled
from untwist.training.partners import PAIRS, NextRow, partners_of
from untwist.training.population import Population, load_population
from untwist.training.program import start_population
from untwist.training.spec import Spec, hyperparameters
from untwist.training.train import Conduct, resume, train

__all__ = [
    "INDEPENDENT",
    "OPTIMIZERS",
    "PAIRS",
    "Conduct",
    "Encoding",
    "Member",
    "NextRow",
    "Optimizer",
    "Population",
    "Recipe",
    "Rows",
    "Snapshot",
    "Spec",
    "encode",
    "fit",
    "hyperparameters",
    "load_population",
    "partners_of",
    "resume",
    "shuffled",
    "start_population",
    "train",
]
