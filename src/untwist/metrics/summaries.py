"""Summaries of what a model was trained on: divergence from the prior, and reconstruction."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.metrics.record import Score
from untwist.metrics.sample import RawCodes, checked_codes
from untwist.metrics.unsupervised import checked_covariances, marginal_variances
from untwist.types import InputError


def kl_to_prior(codes: RawCodes, *, variances: RawCodes) -> Score:
    """Returns the mean divergence of the posteriors from the standard normal prior, in nats.

    KL = mean over items of (|mu|^2 + tr S - log det S - k) / 2; for a diagonal posterior the sum
    over latents of (mu_j^2 + s_j^2 - log s_j^2 - 1) / 2.

    Range 0 to infinity, lower is closer to the prior; also the support metric of Roth et al. 2023.
    Invariant to order and sign of latents.

    Args:
        codes: posterior means, one row an item.
        variances: posterior variances, of the shape of the means; or covariances [item, latent,
            latent] of a full posterior.

    Returns:
        The divergence an item; `per_latent` has that of each latent's marginal, `parts` the total
        correlation of the posteriors (what the marginals lack, 0 if diagonal) and the deviation
        over items.

    Reference: Kingma and Welling 2014, appendix B.

    >>> kl_to_prior(np.array([[1.0], [1.0]]), variances=np.ones((2, 1))).value
    0.5
    >>> tilted = np.array([[[1.0, 0.6], [0.6, 1.0]]] * 2)
    >>> round(kl_to_prior(np.zeros((2, 2)), variances=tilted).value, 6)
    0.223144
    """
    means = checked_codes(codes).astype(np.float64)
    given = checked_covariances(variances, means)
    spread = marginal_variances(given)
    terms = 0.5 * (means**2 + spread - np.log(spread) - 1)
    dependence = np.zeros(len(means))
    if given.ndim == 3:
        dependence = 0.5 * (np.log(spread).sum(1) - np.linalg.slogdet(given)[1])
    total = terms.sum(1) + dependence
    return Score(
        float(total.mean()),
        "closed form",
        per_latent=terms.mean(0),
        parts={
            "total_correlation": float(dependence.mean()),
            "deviation": float(total.std()),
        },
    )


def checked_losses(losses: RawCodes) -> Float[ndarray, " item"]:
    """Returns reconstruction losses in double precision, or raises with a sentence."""
    array = np.asarray(losses).astype(np.float64)
    if array.ndim != 1 or len(array) < 1:
        raise InputError(f"losses must be one number an item, but got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError("losses must be finite, but some are NaN or infinite")
    return array


def reconstruction(losses: RawCodes) -> Score:
    """Returns the mean reconstruction loss an item, in the unit in which it came.

    Range that of the losses, lower is better. Invariant to everything that the decoder undoes.

    Args:
        losses: one loss an item, summed over pixels.

    Returns:
        The mean; `parts` has the deviation, the median and the 5 and 95 percent quantiles.

    Reference: Kingma and Welling 2014, equation 7.

    >>> reconstruction(np.array([1.0, 3.0])).value
    2.0
    """
    array = checked_losses(losses)
    low, middle, high = np.quantile(array, [0.05, 0.5, 0.95])
    return Score(
        float(array.mean()),
        "mean over items",
        parts={
            "deviation": float(array.std()),
            "median": float(middle),
            "low": float(low),
            "high": float(high),
        },
    )
