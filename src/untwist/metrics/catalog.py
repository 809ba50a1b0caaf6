"""The list of all metrics under the names that `score` knows, and what each needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.beta_vae_score import beta_vae_score
from untwist.metrics.dci import dci_completeness, dci_disentanglement, dci_informativeness
from untwist.metrics.downstream import downstream
from untwist.metrics.explicitness import explicitness
from untwist.metrics.factor_vae_score import factor_vae_score
from untwist.metrics.gaps import dcimig, jemmig, mig, mig_sup, rmig
from untwist.metrics.identifiability import linear_r2, mcc, nonlinear_r2
from untwist.metrics.importance import Importance, importance
from untwist.metrics.infomec import infoc, infoe, infom
from untwist.metrics.information import Neighbors, Posterior
from untwist.metrics.irs import irs
from untwist.metrics.modularity import modularity
from untwist.metrics.neighbor_score import neighbor_score
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors
from untwist.metrics.sampler import Sampler
from untwist.metrics.sap import sap
from untwist.metrics.summaries import kl_to_prior, reconstruction
from untwist.metrics.support import factorized_support
from untwist.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    marginal_variances,
    mean_mutual_information,
    wasserstein_correlation,
)
from untwist.types import RandomKey

Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Draw:
    """One member's inputs, or a random half of them, and the key of the draw."""

    codes: RawCodes
    key: RandomKey
    labels: RawFactors | None = None
    factor_space: FactorSpace | None = None
    posterior: RawCodes | None = None
    interventions: Sampler | None = None
    item_losses: RawCodes | None = None
    reference: bool = False

    @property
    def factors(self) -> RawFactors:
        """The factors, or the reason why a metric cannot do without them."""
        if self.labels is None:
            raise NotApplicable("needs the factors of the items, but none were given")
        return self.labels

    @property
    def space(self) -> FactorSpace:
        """The factor space, or the reason why a metric cannot do without it."""
        if self.factor_space is None:
            raise NotApplicable("needs the factors of the items, but none were given")
        return self.factor_space

    @property
    def sampler(self) -> Sampler:
        """The codes under interventions, or the reason why there are none."""
        if self.interventions is None:
            raise NotApplicable(
                "needs codes under interventions, but the items do not cover a grid of factor "
                "values: pass a sampler"
            )
        return self.interventions

    @property
    def covariances(self) -> RawCodes:
        """Posterior variances or covariances, or the reason why a metric needs them."""
        if self.posterior is None:
            raise NotApplicable(
                "needs posterior variances, but none were given (a deterministic code has none)"
            )
        return self.posterior

    @property
    def variances(self) -> Float[ndarray, "item latent"]:
        """The variance of each latent under the posterior, whether that is diagonal or full."""
        return marginal_variances(np.asarray(self.covariances))

    @property
    def losses(self) -> RawCodes:
        """The reconstruction losses, or the reason why a metric cannot do without them."""
        if self.item_losses is None:
            raise NotApplicable("needs the reconstruction loss of each item, but got none")
        return self.item_losses

    @cached_property
    def boosted(self) -> Importance:
        """Importances by the reference implementation's gradient boosting."""
        return importance(self.codes, self.factors, self.space, key=self.key)

    @cached_property
    def boosted_fast(self) -> Importance:
        """Importances by histogram boosting."""
        return importance(self.codes, self.factors, self.space, key=self.key, model="histogram")

    @cached_property
    def linear(self) -> Importance:
        """Importances by the lasso."""
        return importance(self.codes, self.factors, self.space, key=self.key, model="lasso")


@dataclass(frozen=True)
class Metric:
    """How `score` computes a metric, and which way is better.

    Metrics of the same `group` share work, so they are computed one after another. A `slow` one
    is drawn once unless it is asked for by name, and `redrawn` ones take a fresh key in place of a
    random half of the items for their standard error.
    """

    run: Callable[[Draw], Score]
    group: str
    direction: Direction = "higher"
    slow: bool = False
    redrawn: bool = False


def _posterior_mig(draw: Draw) -> Score:
    estimator = Posterior(draw.variances, draw.key)
    return mig(draw.codes, draw.factors, draw.space, estimator=estimator)


def _labeled(
    name: str, function: Callable[..., Score], *, keyed: bool, **options: object
) -> Metric:
    """A metric of codes and factors; `reference=True` in the options hands on the draw's flag."""
    takes_reference = options.pop("reference", False)

    def run(draw: Draw) -> Score:
        more: dict[str, object] = {"key": draw.key} if keyed else {}
        if takes_reference:
            more["reference"] = draw.reference
        return function(draw.codes, draw.factors, draw.space, **options, **more)

    return Metric(run, name)


def _unlabeled(name: str, function: Callable[..., Score], direction: Direction = "lower") -> Metric:
    return Metric(lambda draw: function(draw.codes), name, direction)


def _importance_metrics() -> dict[str, Metric]:
    found = {}
    parts = (
        ("dci_disentanglement", dci_disentanglement),
        ("dci_completeness", dci_completeness),
        ("dci_informativeness", dci_informativeness),
    )
    for suffix, source in (("", "boosted"), ("_fast", "boosted_fast"), ("_lasso", "linear")):
        for name, part in parts:
            found[name + suffix] = Metric(
                lambda draw, part=part, source=source: part(getattr(draw, source)),
                f"dci{suffix}",
                slow=source == "boosted",
            )
    return found


def _drawn(name: str, function: Callable[..., Score], *, reference: bool) -> Metric:
    def run(draw: Draw) -> Score:
        more = {"reference": draw.reference} if reference else {}
        return function(draw.sampler, draw.space, key=draw.key, **more)

    return Metric(run, name, redrawn=True)


METRICS: Mapping[str, Metric] = {
    "mig": _labeled("mig", mig, keyed=False),
    "mig_neighbors": _labeled("mig_neighbors", mig, keyed=False, estimator=Neighbors()),
    "mig_posterior": Metric(_posterior_mig, "mig_posterior"),
    "mig_sup": _labeled("mig_sup", mig_sup, keyed=False),
    "rmig": _labeled("rmig", rmig, keyed=False),
    "jemmig": Metric(lambda draw: jemmig(draw.codes, draw.factors, draw.space), "jemmig", "lower"),
    "dcimig": _labeled("dcimig", dcimig, keyed=False),
    "modularity": _labeled("modularity", modularity, keyed=False, reference=True),
    "infom": _labeled("infom", infom, keyed=False, reference=True),
    "infoc": _labeled("infoc", infoc, keyed=False, reference=True),
    "infoe": _labeled("infoe", infoe, keyed=False),
    **_importance_metrics(),
    "sap": _labeled("sap", sap, keyed=True, reference=True),
    "sap_continuous": _labeled("sap_continuous", sap, keyed=True, continuous=True, reference=True),
    "explicitness": _labeled("explicitness", explicitness, keyed=True, reference=True),
    "neighbor_score": _labeled("neighbor_score", neighbor_score, keyed=True, reference=True),
    "downstream": _labeled("downstream", downstream, keyed=True),
    "beta_vae_score": _drawn("beta_vae_score", beta_vae_score, reference=False),
    "factor_vae_score": _drawn("factor_vae_score", factor_vae_score, reference=True),
    "irs": _labeled("irs", irs, keyed=False, reference=True),
    "mcc": _labeled("mcc", mcc, keyed=False),
    "mcc_spearman": _labeled("mcc_spearman", mcc, keyed=False, correlation="spearman"),
    "mcc_affine": _labeled("mcc_affine", mcc, keyed=True, fit="affine"),
    "mcc_componentwise": _labeled("mcc_componentwise", mcc, keyed=True, fit="componentwise"),
    "linear_r2": _labeled("linear_r2", linear_r2, keyed=True),
    "nonlinear_r2": _labeled("nonlinear_r2", nonlinear_r2, keyed=True),
    "gaussian_total_correlation": _unlabeled("total", gaussian_total_correlation),
    "wasserstein_correlation": _unlabeled("wasserstein", wasserstein_correlation),
    "mean_mutual_information": _unlabeled("mutual", mean_mutual_information),
    "active_units": Metric(
        lambda draw: active_units(
            draw.codes, variances=None if draw.posterior is None else draw.variances
        ),
        "active",
        "neither",
    ),
    "kl_to_prior": Metric(
        lambda draw: kl_to_prior(draw.codes, variances=draw.covariances), "kl", "lower"
    ),
    "reconstruction": Metric(lambda draw: reconstruction(draw.losses), "losses", "lower"),
    "factorized_support": Metric(
        lambda draw: factorized_support(draw.codes, reference=draw.reference), "support", "lower"
    ),
}

# Scores of the members of a population together.
POPULATION_METRICS: Mapping[str, Literal["lasso", "spearman"]] = {
    "udr_lasso": "lasso",
    "udr_spearman": "spearman",
}
