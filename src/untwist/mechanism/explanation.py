"""What `explain` returns: every part that applies, why the others do not, a table and sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Shaped
from numpy import ndarray

from untwist.mechanism.directions import DirectionAgreement
from untwist.mechanism.hessian import ElboComparison, HessianShares
from untwist.mechanism.identifiability import FreeAngles
from untwist.mechanism.independence import Factorization, Overlap, TotalCorrelation
from untwist.mechanism.local_fit import LocalFits
from untwist.mechanism.loss_split import LossSplit
from untwist.mechanism.matching import Matching
from untwist.mechanism.plateaus import PlateauContrast, Profile
from untwist.mechanism.polarized import Polarization
from untwist.mechanism.precision import CovarianceRelation, NoiseRule


@dataclass(frozen=True)
class Orthogonality:
    """How orthogonal the columns of the active latents are, over items.

    Attributes:
        distance: Distance to orthogonality of each item.
        weighted_distance: The same of D'A^2D, where the likelihood weighs the outputs.
        all_distance: Mean distance over all latents, passive ones too.
        random_distance: Mean distance of a random rotation of as many latents.
        polar_distance: Mean polar distance.
        hadamard_gap: Mean Hadamard gap in nats, over items where it is finite.
        cosine: Mean |cosine| of each pair of columns.
        singular_values: Of each item, descending.
        deficient: Share of the items at which the columns are linearly dependent.
    """

    distance: Float[ndarray, " item"]
    weighted_distance: Float[ndarray, " item"]
    all_distance: float
    random_distance: float
    polar_distance: float
    hadamard_gap: float
    cosine: Float[ndarray, "latent latent"]
    singular_values: Float[ndarray, "item latent"]
    deficient: float


@dataclass(frozen=True)
class Quantity:
    """One row of the table: a value, or the reason why there is none."""

    name: str
    value: float | None
    meaning: str
    reason: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why one model's latents are what they are. Parts that do not apply are None.

    Attributes:
        latents: How many the model has.
        items: How many items the geometry is averaged over.
        posterior: `none`, `diagonal` or `full`.
        active: Which latents count.
        polarization: Activity and KL.
        split: Parts of the reconstruction loss.
        orthogonality: Of the decoder's columns.
        noise: sigma^2 against 1/||c||^2.
        covariance: The posterior-covariance relation.
        hessian: Of the log-likelihood.
        elbo: Deterministic against sampled.
        fits: Local maps.
        factorization: Of the push-forward.
        total_correlation: Of the aggregate posterior.
        overlap: Of neighboring posteriors.
        profiles: Along a traversal of each active latent.
        plateau: Steepness at the data and between.
        matching: Latents and factors.
        directions: The decoder's and the data's.
        free: Angles that the objective leaves free.
        reasons: Why each absent part is absent.
        sentences: What all this says, in plain words. Latents and factors count from 0.
        figures: Arrays to draw, by name.
    """

    latents: int
    items: int
    posterior: str
    active: Bool[ndarray, " latent"]
    polarization: Polarization | None = None
    split: LossSplit | None = None
    orthogonality: Orthogonality | None = None
    noise: NoiseRule | None = None
    covariance: CovarianceRelation | None = None
    hessian: HessianShares | None = None
    elbo: ElboComparison | None = None
    fits: LocalFits | None = None
    factorization: Factorization | None = None
    total_correlation: TotalCorrelation | None = None
    overlap: Overlap | None = None
    profiles: tuple[Profile, ...] | None = None
    plateau: PlateauContrast | None = None
    matching: Matching | None = None
    directions: DirectionAgreement | None = None
    free: FreeAngles | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    figures: Mapping[str, Shaped[ndarray, "..."]] = field(default_factory=dict)

    @property
    def table(self) -> tuple[Quantity, ...]:
        """Every number with its meaning, in a fixed order."""
        rows = [
            Quantity("latents", float(self.latents), "latents of the model"),
            Quantity("active_latents", float(self.active.sum()), "latents that count"),
        ]
        for part, name, meaning, value in _ENTRIES:
            found = getattr(self, part)
            number = None if found is None else value(found)
            reason = "" if found is not None else self.reasons.get(part, "not asked for")
            if number is not None and not np.isfinite(number):
                number, reason = None, "infinite or undetermined: columns are linearly dependent"
            elif number is None and not reason:
                reason = _MISSING.get(name, "does not apply to this posterior")
            rows.append(Quantity(name, None if number is None else float(number), meaning, reason))
        return tuple(rows)


def _largest_angle(free: FreeAngles) -> float:
    return float(np.degrees(free.angles.max(initial=0)))


_MISSING = {
    "covariance_expected": "the objective holds no fixed weight of the KL",
    "effective_beta": "the posterior's precision does not grow with the decoder's slopes",
}

_ENTRIES = (
    ("polarization", "passive_latents", "sigma^2 near 1", lambda p: (p.kinds == "passive").sum()),
    (
        "polarization",
        "mixed_latents",
        "active on some items only",
        lambda p: (p.kinds == "mixed").sum(),
    ),
    ("polarization", "kl", "nats an item", lambda p: p.kl),
    ("polarization", "polarized_kl", "nats an item (Eq. 10)", lambda p: p.polarized_kl),
    ("polarization", "polarized_error", "below 0.03 it holds", lambda p: p.relative_error),
    ("split", "loss", "-log p(x|z), nats an item", lambda s: s.total),
    ("split", "loss_error", "standard error of its draws", lambda s: s.total_error),
    ("split", "loss_deterministic", "at the posterior mean", lambda s: s.deterministic),
    ("split", "loss_stochastic", "what noise in the codes adds", lambda s: s.stochastic),
    ("split", "loss_linearized", "sum ||c_j||^2 sigma_j^2 predicts", lambda s: s.linearized),
    ("split", "loss_bias", "0 if noisy decoding is unbiased", lambda s: s.bias),
    ("orthogonality", "distance", "to orthogonality, active", lambda o: o.distance.mean()),
    ("orthogonality", "distance_all", "over all latents", lambda o: o.all_distance),
    ("orthogonality", "distance_weighted", "of D'A^2D", lambda o: o.weighted_distance.mean()),
    ("orthogonality", "distance_random", "of a random rotation", lambda o: o.random_distance),
    ("orthogonality", "polar_distance", "0 if orthogonal", lambda o: o.polar_distance),
    ("orthogonality", "hadamard_gap", "nats, 0 if orthogonal", lambda o: o.hadamard_gap),
    ("orthogonality", "rank_deficient", "share of items", lambda o: o.deficient),
    ("noise", "noise_slope", "1 if sigma^2 ~ 1/||c||^2", lambda n: n.slope),
    ("noise", "noise_correlation", "1 if they agree", lambda n: n.correlation),
    ("covariance", "covariance_slope", "expected: 1/beta", lambda c: c.slope),
    ("covariance", "covariance_expected", "1/beta", lambda c: c.expected),
    ("covariance", "effective_beta", "1/slope", lambda c: 1 / c.slope if c.slope > 0 else None),
    ("covariance", "covariance_residual", "median |log ratio|", lambda c: c.residual),
    ("hessian", "hessian_off_diagonal", "0 if diagonal", lambda h: h.off_diagonal),
    ("hessian", "information_off_diagonal", "of D'A^2D", lambda h: h.information_off_diagonal),
    ("hessian", "bends", "0 for a piecewise linear decoder", lambda h: h.bends),
    ("elbo", "elbo_deterministic", "second order, nats", lambda e: e.deterministic),
    ("elbo", "elbo_sampled", "by draws, nats", lambda e: e.sampled),
    ("fits", "fit_zero", "E||Dec(z) - Dec(mu)||^2: control", lambda f: f.zero),
    ("fits", "fit_tangent", "error of J eps", lambda f: f.tangent),
    ("fits", "fit_linear", "error of M eps, fitted", lambda f: f.linear),
    ("fits", "fit_nonlinear", "error of tanh, fitted", lambda f: f.nonlinear),
    ("fits", "fit_converged", "share of items", lambda f: f.converged),
    ("fits", "stochastic_tangent", "Table 2, relative", lambda f: f.stochastic["tangent"]),
    ("fits", "stochastic_nonlinear", "Table 2, relative", lambda f: f.stochastic["nonlinear"]),
    (
        "total_correlation",
        "total_correlation_gaussian",
        "of the aggregate posterior's covariance, nats",
        lambda t: t.gaussian,
    ),
    ("total_correlation", "total_correlation", "of its mixture, nats", lambda t: t.mixture),
    ("overlap", "overlap", "with the nearest posterior, 0 to 1", lambda o: o.nearest),
    ("overlap", "overlap_agreement", "overlapping ones are neighbors", lambda o: o.agreement),
    ("overlap", "overlap_chance", "by chance", lambda o: o.chance),
    ("plateau", "plateau_ratio", "below 1: flat at the data", lambda p: p.ratio),
    ("directions", "direction_subspace", "tangent spaces shared", lambda d: d.subspace),
    ("directions", "direction_axes", "|cos| of singular vectors", lambda d: d.axes),
    ("directions", "direction_columns", "|cos| of latents' columns", lambda d: d.columns),
    ("directions", "direction_chance", "of random axes", lambda d: d.chance),
    ("free", "free_angle", "largest, in degrees; 45 is any", _largest_angle),
)
