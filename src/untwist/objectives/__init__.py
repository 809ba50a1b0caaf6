"""Objectives: what a population minimizes, behind one interface.

A new method is one file and one line in `OBJECTIVES`. Its hyperparameters are its array fields;
the command line and a study vary them by these names.
"""

from untwist.objectives.annealed_vae import AnnealedVAE
from untwist.objectives.autoencoder import Autoencoder
from untwist.objectives.beta_tcvae import BetaTCVAE, kl_decomposition, mixture_log_weights
from untwist.objectives.beta_vae import BetaVAE
from untwist.objectives.dip_vae import DIPVAEI, DIPVAEII
from untwist.objectives.factor_vae import FactorVAE
from untwist.objectives.objective import (
    ACTIVE_VARIANCE,
    AbstractObjective,
    Batch,
    Critic,
    Needs,
    Terms,
    autoencode,
)
from untwist.objectives.pcl import PCL
from untwist.objectives.slow_vae import SlowVAE, transition_kl

OBJECTIVES: dict[str, type[AbstractObjective]] = {
    "ae": Autoencoder,
    "beta-vae": BetaVAE,
    "annealed-vae": AnnealedVAE,
    "factor-vae": FactorVAE,
    "beta-tcvae": BetaTCVAE,
    "dip-vae-i": DIPVAEI,
    "dip-vae-ii": DIPVAEII,
    "slow-vae": SlowVAE,
    "pcl": PCL,
}

__all__ = [
    "ACTIVE_VARIANCE",
    "DIPVAEI",
    "DIPVAEII",
    "OBJECTIVES",
    "PCL",
    "AbstractObjective",
    "AnnealedVAE",
    "Autoencoder",
    "Batch",
    "BetaTCVAE",
    "BetaVAE",
    "Critic",
    "FactorVAE",
    "Needs",
    "SlowVAE",
    "Terms",
    "autoencode",
    "kl_decomposition",
    "mixture_log_weights",
    "transition_kl",
]
