"""Objectives: what a population minimizes, behind one interface.

A new method is one file and one line in `OBJECTIVES`. Its hyperparameters are its array fields;
the command line and a study vary them by these names.
"""

from untwist.objectives.annealed_vae import AnnealedVAE
from untwist.objectives.autoencoder import Autoencoder
from untwist.objectives.beta_tcvae import BetaTCVAE, kl_decomposition, mixture_log_weights
from untwist.objectives.beta_vae import BetaVAE
from untwist.objectives.dip_vae import DIPVAEI, DIPVAEII
from untwist.objectives.objective import (
    ACTIVE_VARIANCE,
    AbstractObjective,
    Batch,
    Needs,
    Terms,
    autoencode,
)

OBJECTIVES: dict[str, type[AbstractObjective]] = {
    "ae": Autoencoder,
    "beta-vae": BetaVAE,
    "annealed-vae": AnnealedVAE,
    "beta-tcvae": BetaTCVAE,
    "dip-vae-i": DIPVAEI,
    "dip-vae-ii": DIPVAEII,
}

__all__ = [
    "ACTIVE_VARIANCE",
    "DIPVAEI",
    "DIPVAEII",
    "OBJECTIVES",
    "AbstractObjective",
    "AnnealedVAE",
    "Autoencoder",
    "Batch",
    "BetaTCVAE",
    "BetaVAE",
    "Needs",
    "Terms",
    "autoencode",
    "kl_decomposition",
    "mixture_log_weights",
]
