"""Summaries of what a model was trained on: divergence from the prior, and reconstruction."""

import numpy as np

from untwist.metrics.record import Score
from untwist.metrics.sample import RawCodes, checked_codes
from untwist.metrics.unsupervised import checked_variances
from untwist.types import InputError


def kl_to_prior(codes: RawCodes, *, variances: RawCodes) -> Score:
    """Returns the mean divergence of the posteriors from the standard normal prior, in nats.

    KL = mean over items of sum_j (mu_j^2 + s_j^2 - log s_j^2 - 1) / 2.

    Range 0 to infinity, lower is closer to the prior; also the support metric of Roth et al. 2023.
    Invariant to order and sign of latents.

    Args:
        codes: posterior means, one row an item.
        variances: posterior variances.

    Returns:
        The divergence an item; `per_latent` splits it, `parts` has its deviation over items.

    Reference: Kingma and Welling 2014, appendix B.

    >>> kl_to_prior(np.array([[1.0], [1.0]]), variances=np.ones((2, 1))).value
    0.5
    """
    means = checked_codes(codes).astype(np.float64)
    spread = checked_variances(variances, means)
    terms = 0.5 * (means**2 + spread - np.log(spread) - 1)
    return Score(
        float(terms.sum(1).mean()),
        "closed form",
        per_latent=terms.mean(0),
        parts={"deviation": float(terms.sum(1).std())},
    )


def reconstruction(losses: RawCodes) -> Score:
    """Returns the mean reconstruction loss an item, in the unit in which it came.

    Args:
        losses: one loss an item, summed over pixels.

    Returns:
        The mean; `parts` has the deviation, the median and the 5 and 95 percent quantiles.

    Reference: Kingma and Welling 2014, equation 7.

    >>> reconstruction(np.array([1.0, 3.0])).value
    2.0
    """
    array = np.asarray(losses).astype(np.float64)
    if array.ndim != 1 or len(array) < 1 or not np.isfinite(array).all():
        raise InputError(
            f"losses must be one finite number an item, but got an array of shape {array.shape}"
        )
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
