"""Objectives: what a population minimizes, behind one interface.

A new method is one file and one line in `OBJECTIVES`. Its hyperparameters are its array fields;
the command line and a study vary them by these names.
"""

from untwist.objectives.annealed_vae import AnnealedVAE
from untwist.objectives.autoencoder import Autoencoder
from untwist.objectives.beta_vae import BetaVAE
from untwist.objectives.objective import (
    ACTIVE_VARIANCE,
    AbstractObjective,
    Batch,
    Terms,
    autoencode,
)

OBJECTIVES: dict[str, type[AbstractObjective]] = {
    "ae": Autoencoder,
    "beta-vae": BetaVAE,
    "annealed-vae": AnnealedVAE,
}

__all__ = [
    "ACTIVE_VARIANCE",
    "OBJECTIVES",
    "AbstractObjective",
    "AnnealedVAE",
    "Autoencoder",
    "Batch",
    "BetaVAE",
    "Terms",
    "autoencode",
]
