"""Perturbation: the same factors with the convenient variance taken away.

The manipulation of zietlow2021: an additive change of at most epsilon a pixel, a function of the
factors, learned such that entangled decoders gain by it and disentangled ones pay. Its controls:
uniform noise, and an unlearned manipulation of the same size and smoothness.
"""

from untwist.perturbation.change import AbstractChange, Noise, check_epsilon, fold, perturb
from untwist.perturbation.control import RandomDirection, random_direction, smoothness
from untwist.perturbation.dataset import perturbed_dataset, pixel_changes
from untwist.perturbation.features import factor_features, feature_owners, neighbor_features
from untwist.perturbation.learning import (
    Players,
    Procedure,
    Progress,
    check_source,
    learn,
    reconstruction,
    start_players,
)
from untwist.perturbation.manipulation import Manipulation
from untwist.perturbation.preservation import (
    Preservation,
    factor_r2,
    measure_preservation,
    nearest_originals,
)
from untwist.perturbation.rows import PerturbedRows
from untwist.perturbation.selection import choose_members, stack_members
from untwist.perturbation.storage import (
    Source,
    is_perturbed,
    load_dataset,
    open_perturbed,
    parse_dataset_options,
    write_perturbed,
)

__all__ = [
    "AbstractChange",
    "Manipulation",
    "Noise",
    "PerturbedRows",
    "Players",
    "Preservation",
    "Procedure",
    "Progress",
    "RandomDirection",
    "Source",
    "check_epsilon",
    "check_source",
    "choose_members",
    "factor_features",
    "factor_r2",
    "feature_owners",
    "fold",
    "is_perturbed",
    "learn",
    "load_dataset",
    "parse_dataset_options",
    "measure_preservation",
    "nearest_originals",
    "neighbor_features",
    "open_perturbed",
    "perturb",
    "perturbed_dataset",
    "pixel_changes",
    "random_direction",
    "reconstruction",
    "smoothness",
    "stack_members",
    "start_players",
    "write_perturbed",
]
