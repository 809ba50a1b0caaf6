"""Why a latent space is disentangled, or is not: the mechanism of any trained VAE.

`explain` does everything that applies in one call; each part is a function of its own, on arrays
and callables. `align` gives any decoder the axes that a VAE's objective would have chosen. Models
of PyTorch enter by `untwist.mechanism.torch`.
"""

from untwist.mechanism.align import Alignment, align
from untwist.mechanism.decoder import AbstractDecoder, Number
from untwist.mechanism.directions import (
    direction_agreement,
    mean_jacobians,
    neighbor_directions,
    principal_directions,
)
from untwist.mechanism.explain import Depth, explain, explain_members
from untwist.mechanism.explanation import Explanation, Quantity
from untwist.mechanism.geometry import Geometry, jacobians, local_geometry
from untwist.mechanism.hessian import (
    elbo_comparison,
    hessian_shares,
    likelihood_hessians,
    posterior_kl,
)
from untwist.mechanism.identifiability import free_angles
from untwist.mechanism.independence import (
    factorization,
    gaussian_total_correlation,
    posterior_overlap,
    total_correlation,
)
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.local_fit import local_fits
from untwist.mechanism.loss_split import loss_split
from untwist.mechanism.matching import match_factors
from untwist.mechanism.od_score import od_score, od_score_released
from untwist.mechanism.orthogonality import (
    column_norms,
    cosines,
    distance_to_orthogonality,
    haar_distance,
    hadamard_gap,
    nearest_axes,
    polar_distance,
    published_random_distances,
    spectrum,
)
from untwist.mechanism.plateaus import plateau_contrast, profile
from untwist.mechanism.polarized import (
    polarization,
    polarized_share,
    relative_kl_error,
)
from untwist.mechanism.posterior import Posteriors, posteriors_of
from untwist.mechanism.precision import covariance_relation, noise_rule

__all__ = [
    "AbstractDecoder",
    "Alignment",
    "Depth",
    "Explanation",
    "Geometry",
    "Likelihood",
    "Number",
    "Posteriors",
    "Quantity",
    "align",
    "as_likelihood",
    "column_norms",
    "cosines",
    "covariance_relation",
    "direction_agreement",
    "distance_to_orthogonality",
    "elbo_comparison",
    "explain",
    "explain_members",
    "factorization",
    "free_angles",
    "gaussian_total_correlation",
    "haar_distance",
    "hadamard_gap",
    "hessian_shares",
    "jacobians",
    "likelihood_hessians",
    "local_fits",
    "local_geometry",
    "loss_split",
    "match_factors",
    "mean_jacobians",
    "nearest_axes",
    "neighbor_directions",
    "noise_rule",
    "od_score",
    "od_score_released",
    "plateau_contrast",
    "polar_distance",
    "polarization",
    "polarized_share",
    "posterior_kl",
    "posterior_overlap",
    "posteriors_of",
    "principal_directions",
    "profile",
    "published_random_distances",
    "relative_kl_error",
    "spectrum",
    "total_correlation",
]
