"""Laws over all metrics, in lists: every metric is in exactly one list for each law."""

import jax
import numpy as np
import pytest
from planted import CATEGORICAL, GRID, SIZES, SPACE, rotation, standardized

from untwist.metrics import metric_names, score

KEY = jax.random.key(7)
ALL = set(metric_names())
FACTORS = np.tile(GRID, (3, 1))
RNG = np.random.default_rng(5)
CODES = standardized(FACTORS) + 0.01 * RNG.standard_normal(FACTORS.shape)
VARIANCES = np.full(CODES.shape, 0.01)
LOSSES = np.linspace(1.0, 2.0, len(CODES))
CLOSE = 0.06

TREES = {
    f"dci_{part}{kind}"
    for part in ("disentanglement", "completeness", "informativeness")
    for kind in ("", "_fast")
}
LASSO = {f"dci_{part}_lasso" for part in ("disentanglement", "completeness", "informativeness")}
GAPS = {"mig", "mig_sup", "rmig", "jemmig", "dcimig", "modularity"}
NEIGHBORS = {"mig_neighbors", "infom", "infoc"}
# Draws of their own, or a fit whose rounding differs: equal up to sampling.
FITTED = {
    "explicitness",
    "infoe",
    "downstream",
    "nonlinear_r2",
    "mcc_componentwise",
    "beta_vae_score",
}
SPLIT_EXACT = {"sap", "neighbor_score", "linear_r2", "mcc_affine"}
MATCHED = {"mcc", "mcc_spearman"}
PAIRED = {
    "gaussian_total_correlation",
    "wasserstein_correlation",
    "mean_mutual_information",
    "factorized_support",
}
POPULATION = {"udr_lasso", "udr_spearman"}
REST = {
    "sap_continuous",
    "factor_vae_score",
    "irs",
    "active_units",
    "kl_to_prior",
    "reconstruction",
    "mig_posterior",
}


def values(codes, factors=FACTORS, space=SPACE, variances=VARIANCES, losses=LOSSES, table=None):
    """The values by name; UDR is that of a population with a peer of reversed latents.

    Interventions read `table`, the codes of the grid in its order.
    """
    table = codes[: len(GRID)] if table is None else table
    alone = score(
        codes,
        factors,
        space,
        ALL - POPULATION,
        key=KEY,
        repeats=0,
        variances=variances,
        losses=losses,
        sampler=lambda index: table[index],
    )
    peers = np.stack([codes, codes[:, ::-1]])
    spread = np.stack([variances, variances[:, ::-1]])
    both = score(peers, None, None, POPULATION, key=KEY, repeats=0, variances=spread)
    found = {row.metric: row.value for row in (*alone.rows, *both.rows) if row.member == 0}
    assert None not in found.values()
    return found


@pytest.fixture(scope="module")
def base():
    return values(CODES)


def check(base, found, exact, close):
    for name in exact:
        assert found[name] == pytest.approx(base[name], abs=1e-6), name
    for name in close:
        assert found[name] == pytest.approx(base[name], abs=CLOSE), name


# Law: the lists of exact, close and exempt metrics. Exempt ones say why.
ORDER = (
    GAPS
    | NEIGHBORS
    | SPLIT_EXACT
    | MATCHED
    | PAIRED
    | POPULATION
    | LASSO
    | (REST - {"mig_posterior"}),
    TREES | FITTED | {"mig_posterior"},
    set(),
)
SIGN = (
    NEIGHBORS
    | SPLIT_EXACT
    | MATCHED
    | PAIRED - {"mean_mutual_information"}
    | POPULATION
    | LASSO
    | (REST - {"mig_posterior"}),
    GAPS | TREES | FITTED | {"mig_posterior", "mean_mutual_information"},
    set(),
)
# Absolute thresholds, penalties on raw codes, and sums over latents in their own units.
UNITS = {"sap", "beta_vae_score", "irs", "wasserstein_correlation", "active_units", "kl_to_prior"}
SCALE = (
    NEIGHBORS
    | MATCHED
    | POPULATION
    | LASSO
    | PAIRED - UNITS
    | SPLIT_EXACT - UNITS
    | (REST - UNITS - {"mig_posterior"})
    | GAPS,
    TREES | FITTED - UNITS | {"mig_posterior"},
    UNITS,
)
# Bins of equal width, linear fits and moments see the shape of the marginal.
SHAPE = (
    GAPS
    | PAIRED
    | POPULATION - {"udr_spearman"}
    | LASSO
    | FITTED - {"mcc_componentwise"}
    | {
        "mcc",
        "sap",
        "sap_continuous",
        "linear_r2",
        "mcc_affine",
        "irs",
        "active_units",
        "kl_to_prior",
        "mig_posterior",
        "factor_vae_score",
    }
)
MONOTONE = (
    {"mcc_spearman", "udr_spearman", "reconstruction"},
    TREES | NEIGHBORS | {"neighbor_score", "mcc_componentwise"},
    SHAPE,
)
RELABEL = (
    GAPS
    | NEIGHBORS
    | SPLIT_EXACT - {"neighbor_score"}
    | MATCHED
    | PAIRED
    | POPULATION
    | (REST - {"sap_continuous", "factor_vae_score"}),
    TREES | FITTED | LASSO | {"factor_vae_score", "neighbor_score"},
    {"sap_continuous"},
)
ITEMS = (
    GAPS
    | NEIGHBORS
    | MATCHED
    | PAIRED
    | POPULATION
    | {
        "sap_continuous",
        "irs",
        "active_units",
        "kl_to_prior",
        "reconstruction",
        "beta_vae_score",
        "factor_vae_score",
    },
    {
        "infoe",
        "explicitness",
        "downstream",
        "nonlinear_r2",
        "mcc_componentwise",
        "mig_posterior",
        "linear_r2",
        "mcc_affine",
        "neighbor_score",
    }
    | LASSO,
    # Their training items change, and 240 of them leave such spreads.
    TREES | {"sap"},
)
PERFECT = (
    {
        "mig",
        "mig_sup",
        "dcimig",
        "modularity",
        "infom",
        "infoc",
        "beta_vae_score",
        "factor_vae_score",
        "mcc",
        "mcc_spearman",
        "mcc_affine",
        "linear_r2",
        "udr_spearman",
        "sap_continuous",
    },
    (
        TREES
        | LASSO
        | {
            "explicitness",
            "infoe",
            "downstream",
            "nonlinear_r2",
            "irs",
            "mig_posterior",
            "mig_neighbors",
            "mcc_componentwise",
            "neighbor_score",
        }
    )
    - {"dci_informativeness_lasso"},
    # Not a score of one at best, or (SAP) a classifier that cannot separate middle levels.
    {
        "rmig",
        "jemmig",
        "sap",
        "active_units",
        "kl_to_prior",
        "reconstruction",
        "udr_lasso",
        "dci_informativeness_lasso",
    }
    | PAIRED,
)
CONSTANT = (
    GAPS - {"jemmig"}
    | NEIGHBORS
    | MATCHED
    | POPULATION
    | {
        "mig_posterior",
        "sap",
        "sap_continuous",
        "neighbor_score",
        "irs",
        "active_units",
        "factor_vae_score",
        "linear_r2",
        "nonlinear_r2",
        "mcc_affine",
        "mcc_componentwise",
        "infoe",
    }
    | PAIRED
    | {f"dci_{p}{k}" for p in ("disentanglement", "completeness") for k in ("", "_fast", "_lasso")},
    set(),
    # At the level of a constant guess, tested below, or not about the codes.
    {
        "explicitness",
        "downstream",
        "beta_vae_score",
        "dci_informativeness",
        "dci_informativeness_fast",
        "dci_informativeness_lasso",
        "jemmig",
        "kl_to_prior",
        "reconstruction",
    },
)
LOWER = PAIRED | {"jemmig", "kl_to_prior", "reconstruction"}
ROTATION = (ALL - LOWER, LOWER, set())
LAWS = {
    "order": ORDER,
    "sign": SIGN,
    "scale": SCALE,
    "monotone": MONOTONE,
    "relabel": RELABEL,
    "items": ITEMS,
    "perfect": PERFECT,
    "constant": CONSTANT,
    "rotation": ROTATION,
}


@pytest.mark.parametrize("law", sorted(LAWS))
def test_every_metric_is_in_exactly_one_list(law):
    lists = LAWS[law]
    assert set().union(*lists) == ALL
    assert sum(len(part) for part in lists) == len(ALL)


def test_order_of_latents(base):
    check(base, values(CODES[:, [2, 0, 1]]), *ORDER[:2])


def test_sign_of_latents(base):
    check(base, values(CODES * [-1.0, 1.0, -1.0]), *SIGN[:2])


def test_scale_of_latents(base):
    scales = np.array([8.0, 1.0, 0.125])
    check(base, values(CODES * scales, variances=VARIANCES * scales**2), *SCALE[:2])


def test_monotone_rescaling(base):
    check(base, values(np.exp(0.5 * CODES)), *MONOTONE[:2])


def test_relabeling_of_factors(base):
    moved = FACTORS.copy()
    for column, size in enumerate(SIZES):
        moved[:, column] = np.random.default_rng(column).permutation(size)[FACTORS[:, column]]
    before = values(CODES, FACTORS, CATEGORICAL)
    table = CODES[np.lexsort(moved[: len(GRID), ::-1].T)]
    check(before, values(CODES, moved, CATEGORICAL, table=table), *RELABEL[:2])


def test_order_of_items(base):
    order = np.random.default_rng(1).permutation(len(CODES))
    found = values(CODES[order], FACTORS[order], losses=LOSSES[order], table=CODES[: len(GRID)])
    check(base, found, *ITEMS[:2])


def test_a_perfect_code_scores_one():
    found = values(standardized(FACTORS))
    for name in PERFECT[0]:
        assert found[name] == pytest.approx(1.0, abs=1e-6), name
    for name in PERFECT[1]:
        assert found[name] == pytest.approx(1.0, abs=0.07), name
    assert found["rmig"] == pytest.approx(np.mean(np.log(SIZES)))
    assert found["active_units"] == 3
    for name in PAIRED | {"jemmig"}:
        assert found[name] == pytest.approx(0.0, abs=1e-9), name


def test_a_constant_code_scores_zero_or_as_a_constant_guess():
    found = values(np.full(CODES.shape, 0.3))
    for name in CONSTANT[0]:
        assert found[name] == pytest.approx(0.0, abs=1e-9), name
    assert found["explicitness"] == 0.5
    assert found["jemmig"] == pytest.approx(np.mean(np.log(SIZES)))
    chance = np.mean(1 / np.array(SIZES))
    for name in ("downstream", "dci_informativeness", "dci_informativeness_fast"):
        assert found[name] == pytest.approx(chance, abs=0.06)
    assert found["beta_vae_score"] == pytest.approx(1 / 3, abs=0.03)
    assert found["dci_informativeness_lasso"] == 0.0


@pytest.mark.parametrize("degrees", [15, 30, 45])
def test_a_rotation_never_scores_above_its_original(base, degrees):
    found = values(CODES @ rotation(degrees))
    for name in ROTATION[0]:
        assert found[name] <= base[name] + 1e-4, name
    for name in ROTATION[1] - {"kl_to_prior", "reconstruction"}:
        assert found[name] >= base[name] - 1e-4, name
    for name in (
        "mig",
        "dcimig",
        "modularity",
        "infom",
        "dci_disentanglement",
        "mcc",
        "irs",
        "neighbor_score",
        "mig_sup",
        "dci_disentanglement_fast",
    ):
        assert found[name] < base[name] - 0.02, name
