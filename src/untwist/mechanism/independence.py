"""Statistical independence: of the push-forward's factors, and of the aggregate posterior."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp

from untwist.mechanism.orthogonality import column_norms, hadamard_gap
from untwist.mechanism.posterior import Posteriors
from untwist.types import AnyArray, InputError, RandomKey

COMPONENTS = 1000
"""At most how many posteriors the mixture of the aggregate posterior and overlaps take."""


@dataclass(frozen=True)
class Factorization:
    """The push-forward's log density on the decoder's image, beside its factors along the axes.

    Attributes:
        log_density: log p(z) - log det(J'J)/2 of each item; infinite where J has not full rank.
        axis_log_densities: log p(z_j) - log||c_j|| along each latent's curve through the item.
        gap: log density minus their sum: the Hadamard gap, 0 exactly where columns are orthogonal.
    """

    log_density: Float[ndarray, "*member item"]
    axis_log_densities: Float[ndarray, "*member item latent"]
    gap: Float[ndarray, "*member item"]


def factorization(
    gram: Float[AnyArray, "*member item latent latent"],
    codes: Float[AnyArray, "*member item latent"],
) -> Factorization:
    """Returns how far the push-forward of N(0, I) is from a product along the latents' curves.

    `p(d(z)) = prod_j p(z_j) / ||dd/dz_j||` where columns are orthogonal everywhere; elsewhere the
    density exceeds that product. The factors are those through the point: along one curve the
    others' lengths may change (erratum E12).

    Args:
        gram: J'J at the codes; of active latents, since a passive one has no curve.
        codes: The codes.

    Reference: allen2024, Theorem 2, Eq. 9 and 12 with |W|^-1 as det(J'J)^(-1/2) (erratum E10).

    >>> found = factorization(np.diag([1.0, 4.0])[None], np.zeros((1, 2)))
    >>> round(float(found.log_density[0]), 6), float(found.gap[0])
    (-2.531024, 0.0)
    """
    codes = np.asarray(codes, np.float64)
    norms = column_norms(gram)
    with np.errstate(divide="ignore"):
        axes = -0.5 * (codes**2 + np.log(2 * np.pi)) - np.log(norms)
    gap = hadamard_gap(gram)
    return Factorization(axes.sum(-1) + gap, axes, gap)


def gaussian_total_correlation(covariance: Float[AnyArray, "latent latent"]) -> float:
    """Returns the total correlation of a Gaussian: (sum log diag - log det) / 2, in nats.

    >>> round(gaussian_total_correlation(np.array([[1.0, 0.5], [0.5, 1.0]])), 6)
    0.143841
    """
    return float(hadamard_gap(np.asarray(covariance, np.float64)))


@dataclass(frozen=True)
class TotalCorrelation:
    """Dependence of the latents under the aggregate posterior, in nats.

    Attributes:
        gaussian: Of the Gaussian with the aggregate posterior's covariance.
        mixture: Of the mixture of the items' posteriors, by draws; nothing without widths.
        error: Its standard error over draws.
        components: How many items' posteriors the mixture has; it speaks of these items.
    """

    gaussian: float
    mixture: float | None
    error: float | None
    components: int


def total_correlation(posteriors: Posteriors, *, key: RandomKey) -> TotalCorrelation:
    """Returns the total correlation of the aggregate posterior q(z), in nats.

    `E_q(z) log q(z) - sum_j log q(z_j)` with q the mixture of at most 1,000 of the posteriors; the
    mixture is that of these items, so in many dimensions with narrow posteriors it tends to its
    ceiling, (d - 1) log N. The Gaussian value sees correlations only, but has no such ceiling.

    Args:
        posteriors: Means and widths.
        key: Chooses items and draws.

    >>> same = Posteriors(np.zeros((50, 2)), np.ones((50, 2)))
    >>> found = total_correlation(same, key=jax.random.key(0))
    >>> found.gaussian, abs(round(found.mixture, 6))
    (0.0, 0.0)
    """
    gaussian = gaussian_total_correlation(posteriors.aggregate())
    # The key's bits, not the key: data drawn from a seed of 0 would share the stream of key 0.
    generator = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    chosen = _some(posteriors, generator)
    if chosen.sigma is None or len(chosen.mean) < 2:
        return TotalCorrelation(gaussian, None, None, len(chosen.mean))
    mean, covariance = chosen.mean.astype(np.float64), chosen.covariance
    factors = np.linalg.cholesky(covariance)
    noise = generator.standard_normal(mean.shape)
    draws = mean + np.einsum("ijk,ik->ij", factors, noise)
    joint = _mixture(_log_normal(draws, mean, np.linalg.inv(factors)))
    widths = np.sqrt(chosen.variance)
    ratios = np.empty(len(draws))
    marginals = np.zeros(len(draws))
    for latent in range(mean.shape[1]):
        column = [latent]
        inverse = (1 / widths[:, column])[:, :, None]
        marginals += _mixture(_log_normal(draws[:, column], mean[:, column], inverse))
    ratios = joint - marginals
    error = float(ratios.std() / np.sqrt(len(ratios)))
    return TotalCorrelation(gaussian, float(ratios.mean()), error, len(draws))


def _some(posteriors: Posteriors, generator: np.random.Generator) -> Posteriors:
    """At most so many items, chosen at random."""
    count = len(posteriors.mean)
    if count <= COMPONENTS:
        return posteriors
    rows = np.sort(generator.choice(count, COMPONENTS, replace=False))
    sigma = None if posteriors.sigma is None else posteriors.sigma[rows]
    return Posteriors(posteriors.mean[rows], sigma)


def _log_normal(points: ndarray, means: ndarray, inverse: ndarray) -> Float[ndarray, "point item"]:
    """Log densities of points under each Gaussian, by the inverses of their Cholesky factors."""
    found = np.empty((len(points), len(means)))
    logs = np.log(np.diagonal(inverse, 0, 1, 2)).sum(1) - 0.5 * means.shape[1] * np.log(2 * np.pi)
    for index, (mean, factor) in enumerate(zip(means, inverse, strict=True)):
        found[:, index] = logs[index] - 0.5 * np.sum(((points - mean) @ factor.T) ** 2, axis=1)
    return found


def _mixture(logs: Float[ndarray, "point item"]) -> Float[ndarray, " point"]:
    """Log density of the equal mixture."""
    return np.asarray(logsumexp(logs, axis=1)) - np.log(logs.shape[1])


@dataclass(frozen=True)
class Overlap:
    """Whose posteriors overlap.

    Attributes:
        nearest: Mean Bhattacharyya coefficient of each posterior with its nearest code's, 0 to 1.
        agreement: Share of the k posteriors that overlap an item's most which belong to its k
            nearest neighbors in the data; nothing without data.
        chance: That share if overlaps knew nothing of the data.
        neighbors: k.
    """

    nearest: float
    agreement: float | None
    chance: float
    neighbors: int


def posterior_overlap(
    posteriors: Posteriors,
    x: Float[AnyArray, "item *shape"] | None,
    *,
    key: RandomKey,
    neighbors: int = 5,
) -> Overlap:
    """Returns how much posteriors overlap, and whether those that do belong to similar examples.

    The overlap is the Bhattacharyya coefficient, the integral of sqrt(q_i q_k). Only part (a) of
    the theorem can be looked at: part (b) is false (erratum E20).

    Args:
        posteriors: Means and widths.
        x: The examples, for their neighbors.
        key: Chooses at most 1,000 items.
        neighbors: How many count.

    Reference: bhowal2024, Theorem 2 (a).
    """
    if posteriors.sigma is None:
        raise InputError("points do not overlap: a plain autoencoder has no posterior")
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
    rows = np.arange(len(posteriors.mean))
    if len(rows) > COMPONENTS:
        rows = np.sort(generator.choice(rows, COMPONENTS, replace=False))
    count = len(rows)
    if count < 2:
        raise InputError("overlap needs at least two items, but got one")
    k = min(neighbors, count - 1)
    some = Posteriors(posteriors.mean[rows], posteriors.sigma[rows])
    logs = _log_overlaps(some)
    np.fill_diagonal(logs, -np.inf)
    nearest = float(np.exp(logs.max(1)).mean())
    if x is None:
        return Overlap(nearest, None, k / (count - 1), k)
    flat = np.asarray(x)[rows].reshape(count, -1).astype(np.float64)
    distances = squared_distances(flat)
    np.fill_diagonal(distances, np.inf)
    top = np.argsort(-logs, axis=1, kind="stable")[:, :k]
    # Ties in the data: whoever is as near as the k-th neighbor is one of them.
    reach = np.sort(distances, axis=1)[:, [k - 1]]
    near = np.take_along_axis(distances, top, axis=1) <= reach * (1 + 1e-9)
    return Overlap(nearest, float(near.mean()), k / (count - 1), k)


def squared_distances(rows: Float[ndarray, "item column"]) -> Float[ndarray, "item item"]:
    """Returns the squared distances between rows."""
    squares = np.sum(rows**2, axis=1)
    return np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)


def _log_overlaps(posteriors: Posteriors) -> Float[ndarray, "item item"]:
    """Log Bhattacharyya coefficients of all pairs of Gaussians."""
    mean = posteriors.mean.astype(np.float64)
    if posteriors.diagonal:
        return _log_diagonal_overlaps(mean, posteriors.variance)
    covariance = posteriors.covariance
    logs = np.linalg.slogdet(covariance)[1]
    found = np.empty((len(mean), len(mean)))
    for index in range(len(mean)):
        middle = (covariance + covariance[index]) / 2
        step = mean - mean[index]
        reach = np.einsum("ij,ij->i", step, np.linalg.solve(middle, step[..., None])[..., 0])
        spread = np.linalg.slogdet(middle)[1] - 0.5 * (logs + logs[index])
        found[index] = -reach / 8 - spread / 2
    return found


def _log_diagonal_overlaps(mean: ndarray, variance: ndarray) -> Float[ndarray, "item item"]:
    """The same of diagonal covariances, latent by latent."""
    found = np.zeros((len(mean), len(mean)))
    for center, width in zip(mean.T, variance.T, strict=True):
        middle = (width[:, None] + width) / 2
        spread = np.log(middle) - 0.5 * (np.log(width)[:, None] + np.log(width))
        found -= (center[:, None] - center) ** 2 / middle / 8 + spread / 2
    return found
