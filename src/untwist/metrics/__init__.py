"""Scores of disentanglement from codes and factors; no metric sees a model.

`score` computes everything; each metric is also a function of its own, which returns a `Score`:
the value first, then the evidence. What all of them do with degenerate inputs is decided here once.

- *Dead latent* (range at most 1e-6 of its largest magnitude, or 1e-30): a latent that knows
  nothing. Its information and importance are 0 and it predicts as a constant does; it can be the
  second best latent of a gap, and counts in the base of completeness. It is left out of averages
  over latents, of the FactorVAE vote, of IRS and of total correlation. The rule is relative to the
  latent itself, so a latent on a scale a hundred times larger than the others removes none.
- *Constant code*: 0 for scores, chance level for accuracies (1/F for the beta-VAE score, 0.5 for
  explicitness, the share of the most common level for informativeness and downstream accuracy).
- *A missing rival*, with one latent or one factor, is a dead one. Where nothing is left to compare
  (modularity, InfoM and DCI disentanglement with one factor; completeness, InfoC, total
  correlation, mutual information of latents and factorized support with one latent; UDR with one
  member; interventional scores with fewer than two factors), the metric is not applicable.
- *Constant factor*: left out, named in no evidence; bases and means count the factors that vary.
  If none varies no labeled metric applies; if the codes do not vary either, that is an error.
- *A level missing* from training or test items is never predicted, and has no ROC curve; it is
  not an error. Levels are those that occur, ranked, so gaps in their numbering do not matter.
- *Ties*: bins are closed below; of equally informative latents the first is named best, which no
  value depends on (JEMMIG takes the one of least entropy); nearest-neighbor information takes a
  cluster of ties as the neighborhood; equal votes go to the lowest level; ROC areas count a tie
  as half.
- *Categorical factors* are labels for information and classifiers, indicators for linear methods
  (a correlation is then a correlation ratio). *Periodic factors* are levels for information and
  classifiers, cosine and sine for linear methods and regressions. *Ordinal* ones are their level.
  *Continuous* ones are cut into 20 bins of equal width where levels are needed, and taken as they
  are by neighbor information, squared correlation and regressions.
- *Duplicated latents* (and more latents than items) have infinite total correlation, decided by
  rank and not by rounding; no other value is infinite, and none is NaN.
- *Fewer latents than factors*: unmatched factors count 0 in MCC.
- *Bad input* (NaN, infinities, magnitudes beyond 1e30, one item, mismatched lengths, factors
  outside their sizes, fractions where integers are declared, no latents) raises `InputError` with
  a sentence.
"""

from untwist.metrics.beta_vae_score import beta_vae_score
from untwist.metrics.catalog import METRICS, POPULATION_METRICS
from untwist.metrics.dci import dci_completeness, dci_disentanglement, dci_informativeness
from untwist.metrics.downstream import downstream
from untwist.metrics.draws import Split
from untwist.metrics.explicitness import explicitness
from untwist.metrics.factor_vae_score import factor_vae_score
from untwist.metrics.gaps import dcimig, jemmig, mig, mig_sup, rmig
from untwist.metrics.identifiability import linear_r2, mcc, nonlinear_r2
from untwist.metrics.importance import Importance, importance
from untwist.metrics.infomec import infoc, infoe, infom
from untwist.metrics.information import Histogram, Neighbors, Posterior
from untwist.metrics.irs import irs
from untwist.metrics.modularity import modularity
from untwist.metrics.neighbor_score import neighbor_score
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sampler import Sampler, grid_sampler
from untwist.metrics.sap import sap
from untwist.metrics.score import metric_names, score
from untwist.metrics.summaries import kl_to_prior, reconstruction
from untwist.metrics.support import factorized_support
from untwist.metrics.table import Row, ScoreTable
from untwist.metrics.udr import udr
from untwist.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    mean_mutual_information,
    wasserstein_correlation,
)

__all__ = [
    "METRICS",
    "POPULATION_METRICS",
    "Histogram",
    "Importance",
    "Neighbors",
    "NotApplicable",
    "Posterior",
    "Row",
    "Sampler",
    "Score",
    "ScoreTable",
    "Split",
    "active_units",
    "beta_vae_score",
    "dci_completeness",
    "dci_disentanglement",
    "dci_informativeness",
    "dcimig",
    "downstream",
    "explicitness",
    "factor_vae_score",
    "factorized_support",
    "gaussian_total_correlation",
    "grid_sampler",
    "importance",
    "infoc",
    "infoe",
    "infom",
    "irs",
    "jemmig",
    "kl_to_prior",
    "linear_r2",
    "mcc",
    "mean_mutual_information",
    "metric_names",
    "mig",
    "mig_sup",
    "modularity",
    "neighbor_score",
    "nonlinear_r2",
    "reconstruction",
    "rmig",
    "sap",
    "score",
    "udr",
    "wasserstein_correlation",
]
