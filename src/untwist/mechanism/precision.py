"""How precise the posterior is, beside how precise the objective wants it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray

from untwist.mechanism.geometry import Geometry
from untwist.mechanism.orthogonality import column_norms
from untwist.mechanism.posterior import Posteriors
from untwist.types import AnyArray, InputError

FAILS = 2.0
"""A latent fails the covariance relation where its variance is off by this factor or more."""


@dataclass(frozen=True)
class NoiseRule:
    """sigma_j^2 against 1/||c_j||^2, over items and active latents.

    Attributes:
        slope: Of log sigma^2 on log 1/||c||^2; 1 where one is proportional to the other.
        correlation: Between the two logarithms.
        evenness: Standard deviation of log(||c_j||^2 sigma_j^2) over the latents of an item, on
            average: 0 where all latents carry the same noise (rolinek2019, Prop. S5).
        entries: How many pairs of item and latent entered.
    """

    slope: float
    correlation: float
    evenness: float
    entries: int


def noise_rule(
    norms: Float[AnyArray, "item latent"], variance: Float[AnyArray, "item latent"]
) -> NoiseRule:
    """Returns how closely posterior variances follow 1/||c_j||^2.

    The optimum is `sigma_j^2 = 1 / (1 + a ||c_j||^2)` with a set by likelihood and beta, so the
    rule holds for latents with sigma^2 well below 1; pass those only.

    Args:
        norms: Lengths ||c_j|| of the Jacobian's columns; columns of length 0 are left out.
        variance: Posterior variances.

    Reference: bhowal2024, Theorem 1 (c), where the text has the norm and its square (erratum E15).

    >>> norms = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> found = noise_rule(norms, 0.01 / norms**2)
    >>> round(found.slope, 6), round(found.correlation, 6), round(found.evenness, 6)
    (1.0, 1.0, 0.0)
    """
    norms, variance = np.asarray(norms, np.float64), np.asarray(variance, np.float64)
    used = (norms > 0) & (variance > 0)
    if used.sum() < 2:
        raise InputError(
            "the noise rule needs two or more entries with a column that is not zero, but got "
            f"{int(used.sum())}: no active latent, or a single item and latent"
        )
    rate, width = -2 * np.log(norms[used]), np.log(variance[used])
    spread = rate.std()
    slope = _slope(rate, width) if spread > 1e-9 else np.nan
    correlation = np.corrcoef(rate, width)[0, 1] if spread > 1e-9 and width.std() > 1e-9 else np.nan
    noise = np.where(used, np.log(np.where(used, norms**2 * variance, 1)), np.nan)
    rows = used.sum(1) > 1
    evenness = float(np.nanstd(noise[rows], axis=1).mean()) if rows.any() else 0.0
    return NoiseRule(float(slope), float(correlation), evenness, int(used.sum()))


def _slope(x: Float[ndarray, " entry"], y: Float[ndarray, " entry"]) -> float:
    """The least-squares slope with an intercept."""
    centered = x - x.mean()
    return float(centered @ y / (centered @ centered))


@dataclass(frozen=True)
class CovarianceRelation:
    """Sigma^-1 = I + D'A^2D / beta, as the posterior has it.

    Attributes:
        slope: Fitted through the origin: of Sigma^-1 - I on D'A^2D; 1/beta is expected.
        beta: The weight of the KL that the rest is measured at: the one given, or 1/slope.
        expected: 1/beta where beta was given; otherwise nothing.
        residual: Median of |log(sigma_j^2 / predicted)|.
        per_latent: Median of sigma_j^2 / predicted for each latent.
        failing: Latents where that ratio is off by a factor of 2 or more.
        off_diagonal: For a full covariance, the relative Frobenius error of Sigma^-1, on average;
            otherwise nothing.
        predicted: The variances that the relation asks for.
    """

    slope: float
    beta: float
    expected: float | None
    residual: float
    per_latent: Float[ndarray, " latent"]
    failing: Shaped[ndarray, " failing"]
    off_diagonal: float | None
    predicted: Float[ndarray, "item latent"]


def covariance_relation(
    geometry: Geometry, posteriors: Posteriors, *, beta: float | None = 1.0
) -> CovarianceRelation:
    """Returns how well the posterior covariance obeys the relation at which the loss is stationary.

    A full covariance: `S^-1 = I + D'A^2D / beta`. A diagonal one: `1/S_jj = 1 + [D'A^2D]_jj /
    beta`, not the diagonal of the full inverse (erratum E9). A^2 is the likelihood's curvature: 2
    for a squared error, 1/variance for a Gaussian, p (1 - p) for Bernoulli logits (erratum E7).

    The relation is of second order in sigma: it fails where the decoder bends within the width of
    a posterior, and for encoders that have not converged.

    Args:
        geometry: Of the decoder, at the posterior means.
        posteriors: With widths.
        beta: The weight of the KL term. None if the objective holds none (a capacity for the KL,
            with its multiplier found in training): the relation is then taken at the weight that
            fits best, so its slope says what that weight is, and the residual how well it fits.

    Reference: allen2024, Eq. 7.

    >>> geometry = Geometry(np.full((1, 1, 1), 3.0), np.full((1, 1, 1), 3.0))
    >>> posteriors = Posteriors(np.zeros((1, 1)), np.full((1, 1), 0.5))
    >>> found = covariance_relation(geometry, posteriors)
    >>> found.slope, found.residual
    (1.0, 0.0)
    """
    if posteriors.sigma is None:
        raise InputError("a plain autoencoder has no posterior covariance to compare")
    if beta is not None and not beta > 0:
        raise InputError(f"the relation needs a beta above 0, but got {beta}")
    information = np.asarray(geometry.information, np.float64)
    surplus, cost = _surplus(information, posteriors)
    power = float(np.sum(cost**2))
    slope = float(np.sum(surplus * cost) / power) if power > 0 else 0.0
    if beta is None and not slope > 0:
        raise InputError(
            "no weight of the KL fits this posterior, and none was given: its precision does not "
            "grow with the decoder's slopes"
        )
    weight, off = 1 / slope if beta is None else beta, None
    if posteriors.diagonal:
        wanted = 1 / (1 + cost / weight)
    else:
        unit = np.eye(information.shape[-1])
        asked = unit + information / weight
        wanted = np.diagonal(np.linalg.inv(asked), 0, 1, 2)
        gap = np.linalg.norm(surplus + unit - asked, axis=(1, 2))
        off = float(np.mean(gap / np.linalg.norm(asked, axis=(1, 2))))
    ratio = np.median(posteriors.variance / wanted, axis=0)
    return CovarianceRelation(
        slope,
        weight,
        None if beta is None else 1 / beta,
        float(np.median(np.abs(np.log(posteriors.variance / wanted)))),
        ratio,
        np.flatnonzero(np.abs(np.log(ratio)) >= np.log(FAILS)),
        off,
        wanted,
    )


def _surplus(information: ndarray, posteriors: Posteriors) -> tuple[ndarray, ndarray]:
    """Sigma^-1 - I and what it should be proportional to: the diagonals, or whole matrices."""
    if posteriors.diagonal:
        return 1 / posteriors.variance - 1, np.diagonal(information, 0, 1, 2)
    return np.linalg.inv(posteriors.covariance) - np.eye(information.shape[-1]), information


def noise_costs(geometry: Geometry, posteriors: Posteriors) -> Float[ndarray, "item latent"]:
    """Returns ||c_j||^2 sigma_j^2, what the noise of each latent adds to a squared error."""
    return column_norms(geometry.gram) ** 2 * posteriors.variance
