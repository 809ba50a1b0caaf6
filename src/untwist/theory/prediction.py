"""What a linear beta-VAE will find in data: axes, when each collapses, which are free."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from untwist.theory.axes import check_covariance, equal_groups, principal_axes
from untwist.theory.linear_vae import linear_beta_vae
from untwist.types import InputError


@dataclass(frozen=True)
class Prediction:
    """One row a latent: eigenvalue, axis, the beta at which it collapses, whether it is determined.

    `groups` are runs of near-equal eigenvalues, of all of the data's: within one, only the subspace
    is determined. `gap` is the relative difference below which eigenvalues counted as equal.
    """

    eigenvalues: Float[ndarray, " latent"]
    axes: Float[ndarray, "pixel latent"]
    critical_beta: Float[ndarray, " latent"]
    determined: Bool[ndarray, " latent"]
    groups: list[list[int]]
    gap: float

    def survivors(self, beta: float) -> int:
        """Returns how many latents are active at this beta."""
        return int(np.sum(self.critical_beta > beta))


def predict(
    covariance: Float[ndarray, "rows columns"],
    latents: int,
    *,
    variance: float = 1.0,
    gap: float = 0.05,
    items: int | None = None,
) -> Prediction:
    """Returns what the global optimum of the linear beta-VAE looks like on this covariance.

    Eigenvalues closer than sampling noise, `2 sqrt(2/items)` of their size (two standard errors of
    an eigenvalue of Gaussian data), are also taken as equal.

    Args:
        covariance: Covariance of the data.
        latents: Latent size.
        variance: Likelihood variance s^2 (0.5 for square error without a factor).
        gap: Relative difference below which two eigenvalues count as equal.
        items: How many items the covariance was estimated from, when it was.

    >>> found = predict(np.diag([4.0, 2.0, 2.0]), 2)
    >>> found.critical_beta.tolist(), found.determined.tolist(), found.survivors(3.0)
    ([4.0, 2.0], [True, False], 1)
    """
    if not 0 <= gap < 1:
        raise InputError(f"the relative gap must lie in [0, 1), but got {gap}")
    check_covariance(covariance)
    width = gap if items is None else min(max(gap, 2 * np.sqrt(2 / items)), 0.99)
    vae = linear_beta_vae(covariance, latents, variance=variance)
    values = principal_axes(covariance)[0]
    groups = equal_groups(values, width)
    alone = {group[0] for group in groups if len(group) == 1}
    return Prediction(
        eigenvalues=vae.eigenvalues,
        axes=vae.axes,
        critical_beta=vae.critical_beta,
        determined=np.array([i in alone for i in range(latents)]),
        groups=[group for group in groups if len(group) > 1],
        gap=float(width),
    )
