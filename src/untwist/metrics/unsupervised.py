"""Scores without labels: dependence among latents, and how many of them are in use."""

import math

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray

from untwist.metrics.information import digitize
from untwist.metrics.record import NotApplicable, Score, check_counts
from untwist.metrics.sample import RawCodes, checked_codes, live_latents
from untwist.types import InputError


def _pair_of_latents(codes: RawCodes, what: str) -> Float[ndarray, "item latent"]:
    array = checked_codes(codes)
    if array.shape[1] < 2:
        raise NotApplicable(f"{what} compares latents, but the code has one")
    return array.astype(np.float64)


def gaussian_total_correlation(codes: RawCodes) -> Score:
    """Returns the total correlation of a Gaussian with the covariance of the codes, in nats.

    TC = (sum_j log C_jj - log det C) / 2 = -log det(correlation) / 2 over the latents that vary.

    Range 0 to infinity, lower is better: 0 where latents are uncorrelated, infinite where one is a
    linear function of others, an exact copy for instance (decided by the rank of the correlation
    matrix in double precision, not left to rounding). Invariant to order, sign, shift and scale.

    Reference: Locatello et al. 2019, section 5.3.

    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> gaussian_total_correlation(codes).value
    0.0
    >>> gaussian_total_correlation(codes[:, [0, 0]]).value
    inf
    """
    array = _pair_of_latents(codes, "total correlation")
    live = live_latents(array)
    moved = array[:, live] - array[:, live].mean(0)
    moved /= np.sqrt((moved**2).sum(0))
    # The variables' own rounding counts too: codes often come in single precision.
    precision = np.finfo(np.asarray(codes).dtype if np.asarray(codes).dtype.kind == "f" else float)
    values = np.linalg.eigvalsh(moved.T @ moved) if live.any() else np.ones(1)
    singular = values.min() <= len(values) * float(precision.eps) ** 2 * 4 + 4e-15
    total = math.inf if singular else max(0.0, float(-0.5 * np.log(values).sum()))
    return Score(
        total,
        "Gaussian with the codes' covariance",
        parts={"eigenvalues": values, "active": live},
    )


def wasserstein_correlation(codes: RawCodes) -> Score:
    """Returns the squared Wasserstein distance of that Gaussian from its product of marginals.

    W = 2 tr C - 2 tr (D^(1/2) C D^(1/2))^(1/2), with D the diagonal of the covariance C.

    Range 0 to 2 tr C, lower is better, finite for copies too. Invariant to order, sign and shift;
    it scales as the square of the codes, and `parts["normalized"]`, divided by tr C, does not.

    Reference: Locatello et al. 2019, section 5.3 (after Watanabe 1960).

    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> round(abs(wasserstein_correlation(codes).value), 12)
    0.0
    """
    array = _pair_of_latents(codes, "Wasserstein correlation")
    covariance = np.cov(array.T)
    root = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(root[:, None] * covariance * root)
    trace = float(np.trace(covariance))
    distance = max(0.0, 2 * trace - 2 * float(np.sqrt(np.maximum(values, 0.0)).sum()))
    return Score(
        distance,
        "Gaussian with the codes' covariance",
        parts={"normalized": distance / trace if trace > 0 else 0.0},
    )


def mean_mutual_information(codes: RawCodes, *, bins: int = 20) -> Score:
    """Returns the mean mutual information of pairs of latents, in nats.

    Each latent is cut into `bins` of equal width; dead latents share no information with others.

    Range 0 to log(bins), lower is better. Invariant to order, sign, shift and scale of latents.

    Reference: Locatello et al. 2019, section 5.3.

    >>> codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> mean_mutual_information(codes).value
    0.0
    """
    check_counts(2, bins=bins)
    raw = checked_codes(codes)
    latents = _pair_of_latents(codes, "mutual information of latents").shape[1]
    live = [int(i) for i in np.flatnonzero(live_latents(raw))]
    cut = {i: digitize(raw[:, i], bins) for i in live}
    matrix = np.zeros((latents, latents))
    for position, i in enumerate(live):
        for j in live[position + 1 :]:
            table = np.bincount(cut[i] * bins + cut[j], minlength=bins**2).reshape(bins, bins)
            joint = table / len(raw)
            outer = np.multiply.outer(joint.sum(1), joint.sum(0))
            held = joint > 0
            found = float((joint[held] * np.log(joint[held] / outer[held])).sum())
            matrix[i, j] = matrix[j, i] = max(0.0, found)
    return Score(
        float(matrix.sum() / (latents**2 - latents)),
        f"histogram, {bins} bins",
        {"bins": bins},
        parts={"information": matrix},
    )


def active_units(
    codes: RawCodes, *, variances: RawCodes | None = None, threshold: float = 0.01
) -> Score:
    """Returns the number of active units: latents whose posterior mean varies over the data.

    AU = number of j with Var_x(E q(z_j|x)) > threshold.

    Range 0 to the number of latents, neither better. Invariant to order, sign and shift; the
    threshold is in units of the prior's variance, so the scale matters.

    Args:
        codes: posterior means, one row an item.
        variances: posterior variances; with them `parts["confident"]` marks the latents whose
            mean variance is below 0.8, the rule of Zietlow et al. 2021.
        threshold: least variance of an active unit.

    Reference: Burda et al. 2016, Importance Weighted Autoencoders, section 5.2.

    >>> active_units(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])).value
    1.0
    """
    array = checked_codes(codes).astype(np.float64)
    spread = array.var(0)
    parts = {"active": spread > threshold}
    if variances is not None:
        parts["confident"] = checked_variances(variances, array).mean(0) < 0.8
    return Score(
        float((spread > threshold).sum()),
        "variance of posterior means",
        {"threshold": threshold},
        per_latent=spread,
        parts=parts,
    )


def checked_variances(
    variances: RawCodes, means: Float[ndarray, "item latent"]
) -> Float[ndarray, "item latent"]:
    """Returns posterior variances in double precision, or raises with a sentence."""
    array = np.asarray(variances).astype(np.float64)
    if array.shape != means.shape:
        raise InputError(
            f"variances must have the shape of the means, {means.shape}, but got {array.shape}"
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError("variances must be positive and finite, but some are not")
    return array


def checked_covariances(
    variances: RawCodes, means: Float[ndarray, "item latent"]
) -> Float[ndarray, "item latent"] | Float[ndarray, "item latent latent"]:
    """Returns posterior variances, or covariances where there is one axis more."""
    array = np.asarray(variances).astype(np.float64)
    if array.ndim < 3:
        return checked_variances(array, means)
    if array.shape != (*means.shape, means.shape[1]):
        raise InputError(
            f"covariances must have the shape of the means, {means.shape}, and one axis more, "
            f"but got {array.shape}"
        )
    if not np.isfinite(array).all() or (np.linalg.slogdet(array)[0] <= 0).any():
        raise InputError("covariances must be finite and positive definite, but some are not")
    checked_variances(marginal_variances(array), means)
    return array


def marginal_variances(variances: Shaped[ndarray, "..."]) -> Float[ndarray, "item latent"]:
    """Returns the diagonals of covariances, or variances as they are."""
    return np.diagonal(variances, axis1=1, axis2=2) if variances.ndim == 3 else variances
