"""The polarized regime: which latents are active, and how near the KL is to its polarized form."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from numpy import ndarray

from untwist.types import AnyArray, InputError

ACTIVE_VARIANCE = 0.8
"""A latent is active on an item whose posterior variance is below this (zietlow2021, Sec. 5.3)."""

MIXED_SHARE = 0.05
"""A latent that is active on more items than this share, and passive on more, is mixed."""

HOLDS = 0.03
"""The polarized KL holds while it is within this relative error (rolinek2019, Sec. 5.2)."""


@dataclass(frozen=True)
class Polarization:
    """Activity of the latents and the KL in the polarized regime.

    Attributes:
        kinds: `active`, `mixed` or `passive` for each latent.
        active: Whether the mean posterior variance is below 0.8: the latents that count.
        active_share: Share of the items on which each latent's variance is below 0.8.
        mean_variance: Mean posterior variance of each latent.
        mean_square: Mean of each latent's squared mean.
        kl: Mean KL an item, in nats.
        polarized_kl: Half the sum over active latents of mu^2 - log sigma^2 - 1.
        relative_error: |KL - polarized KL| / KL; 0 where both are 0.
    """

    kinds: Shaped[ndarray, "*member latent"]
    active: Shaped[ndarray, "*member latent"]
    active_share: Float[ndarray, "*member latent"]
    mean_variance: Float[ndarray, "*member latent"]
    mean_square: Float[ndarray, "*member latent"]
    kl: Float[ndarray, "*member"]
    polarized_kl: Float[ndarray, "*member"]
    relative_error: Float[ndarray, "*member"]

    def over_pruned(self, factors: int) -> Shaped[ndarray, "*member"]:
        """Returns whether fewer latents are active than there are factors (zietlow2021, 5.3)."""
        return np.asarray(self.active.sum(-1) < factors)


def polarization(mean: AnyArray, sigma: AnyArray) -> Polarization:
    """Returns which latents a diagonal posterior uses, and the error of the polarized KL.

    Passive: sigma^2 near 1, so that no code is told from another. Active: sigma^2 well below 1.
    Mixed: active on some items and passive on others. The paper gives no thresholds; a latent is
    active on an item where sigma^2 < 0.8, and mixed where that is so on 5 to 95 percent of items.

    `KL - KL_polarized = sum_active sigma^2 / 2 + KL_passive` exactly.

    Args:
        mean: Posterior means, [*member, item, latent].
        sigma: Posterior standard deviations, of the same shape.

    Reference: rolinek2019, Definition 1, Eq. 10 and 30; zietlow2021, Eq. 8 drops the factor 1/2
        and the constant (erratum E2).

    >>> found = polarization(np.zeros((4, 2)), np.tile([0.1, 1.0], (4, 1)))
    >>> found.kinds.tolist(), round(float(found.polarized_kl), 4)
    (['active', 'passive'], 1.8026)
    """
    mean, variance = np.asarray(mean, np.float64), np.asarray(sigma, np.float64) ** 2
    if mean.shape != variance.shape or mean.ndim < 2:
        raise InputError(
            "means and standard deviations must have one shape (item, latent), but got "
            f"{mean.shape} and {variance.shape}: a full covariance has no polarized form"
        )
    if not (variance > 0).all():
        raise InputError(
            "the polarized regime needs standard deviations above 0, but some are 0: a plain "
            "autoencoder has no posterior"
        )
    spread, share = variance.mean(-2), (variance < ACTIVE_VARIANCE).mean(-2)
    active = spread < ACTIVE_VARIANCE
    mixed = (share > MIXED_SHARE) & (share < 1 - MIXED_SHARE)
    kinds = np.where(mixed, "mixed", np.where(active, "active", "passive"))
    square, logs = (mean**2).mean(-2), np.log(variance).mean(-2)
    kl = np.asarray(0.5 * (square + spread - logs - 1).sum(-1))
    polarized = np.asarray(0.5 * np.where(active, square - logs - 1, 0).sum(-1))  # Eq. 10
    return Polarization(
        kinds, active, share, spread, square, kl, polarized, relative_kl_error(kl, polarized)
    )


def relative_kl_error(
    kl: Float[AnyArray, "..."], polarized_kl: Float[AnyArray, "..."]
) -> Float[ndarray, "..."]:
    """Returns |KL - polarized KL| / KL, and 0 where the KL vanishes: there is nothing to err on.

    Reference: rolinek2019, Eq. 30.

    >>> relative_kl_error(np.array([4.0, 0.0]), np.array([3.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    kl, polarized = np.asarray(kl, np.float64), np.asarray(polarized_kl, np.float64)
    nonzero = np.abs(kl) > 1e-9
    return np.where(nonzero, np.abs(kl - polarized) / np.where(nonzero, np.abs(kl), 1), 0.0)


def polarized_share(
    steps: Shaped[AnyArray, " step"],
    kl: Float[AnyArray, "*member step"],
    polarized_kl: Float[AnyArray, "*member step"],
    *,
    threshold: float = HOLDS,
) -> Float[ndarray, "*member"]:
    """Returns the share of training from which the error stays below the threshold to the end.

    Args:
        steps: The steps at which the KL was logged, ascending; training took the last of them.
        kl: The KL of each log.
        polarized_kl: Its polarized form.
        threshold: The relative error that counts as holding.

    Reference: rolinek2019, Sec. 5.2 and Table 1.

    >>> logged = np.array([2.0, 2.0, 2.0, 2.0])
    >>> float(polarized_share(np.array([10, 20, 30, 40]), logged, logged - np.array([1, 0, 0, 0])))
    0.75
    """
    steps = np.asarray(steps, np.float64)
    holds = relative_kl_error(kl, polarized_kl) < threshold
    # The logs of the longest suffix in which it holds; a log speaks for the steps before it.
    suffix = np.flip(np.logical_and.accumulate(np.flip(holds, -1), -1), -1).sum(-1)
    started = np.concatenate([[0.0], steps])[len(steps) - suffix]
    return np.asarray(1 - started / steps[-1])
