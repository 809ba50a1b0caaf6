"""Inference errors of a linear VAE: how far its posterior is from a true one, on average.

Against the model's own posterior (mixing = decoder) it is sikka2019's MIE, against that of the
data's generator its TIE. TIE compares latents with sources by index, which the objective does
not fix (erratum E17): `free_inference_error` takes the best of everything it leaves free.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import linear_sum_assignment

from untwist.theory.axes import equal_groups
from untwist.theory.gaussian import linear_posterior, log_determinant
from untwist.theory.linear_vae import LinearVAE
from untwist.types import InputError


def inference_error(
    encoder: Float[ndarray, "latent pixel"],
    variances: Float[ndarray, " latent"],
    mixing: Float[ndarray, "pixel latent"],
    covariance: Float[ndarray, "pixel pixel"],
    *,
    noise: float = 1.0,
) -> float:
    """Returns E KL(q(z|x) || p(z|x)) over data, p the posterior of `x = mixing z + noise`.

    `{tr(E^-1 diag e) - sum log e + log det E + tr[(F - W)' E^-1 (F - W) S] - k} / 2`

    Args:
        encoder: The matrix W.
        variances: Posterior variances e.
        mixing: The decoder for MIE, the generator's matrix A for TIE.
        covariance: Covariance S of the data.
        noise: Variance of the noise of that generator.

    Reference: sikka2019, Eq. 25-27, for b_mu = 0 (erratum E23).

    >>> inference_error(np.array([[0.5]]), np.array([0.5]), np.array([[1.0]]), np.array([[2.0]]))
    0.0
    """
    gain, posterior = linear_posterior(mixing, noise)
    precision = np.linalg.inv(posterior)
    shift = gain - encoder
    return 0.5 * float(
        np.diag(precision) @ variances
        - np.sum(np.log(variances))
        + log_determinant(posterior)
        + np.trace(shift.T @ precision @ shift @ covariance)
        - len(variances)
    )


def free_inference_error(
    vae: LinearVAE,
    mixing: Float[ndarray, "pixel latent"],
    covariance: Float[ndarray, "pixel pixel"],
    *,
    noise: float = 1.0,
    tolerance: float = 1e-9,
) -> tuple[float, Float[ndarray, "latent latent"]]:
    """Returns the least error over all relabelings Q of the latents that the objective allows.

    Latents may be permuted and flipped, and those of equal eigenvalue rotated among themselves:
    `q(z|x) -> N(Q W x, Q diag(e) Q')`. As codes at the optimum are uncorrelated, permutations are a
    linear assignment and rotations a polar factor, so the minimum is exact.

    Args:
        vae: An optimum at one beta.
        mixing: The generator's matrix A, with as many columns as there are latents.
        covariance: Covariance of the data.
        noise: Variance of the generator's noise.
        tolerance: Eigenvalues this close, relatively, count as equal.
    """
    if mixing.shape[1] != len(vae.eigenvalues):
        raise InputError(
            f"TIE pairs latents with sources: got {len(vae.eigenvalues)} and {mixing.shape[1]}"
        )
    gain, posterior = linear_posterior(mixing, noise)
    precision = np.linalg.inv(posterior)
    variances = vae.variances
    moments = variances + np.sum((vae.encoder @ covariance) * vae.encoder, axis=1)
    pull = precision @ gain @ covariance @ vae.encoder.T  # source x latent
    groups = [
        g for g in equal_groups(vae.eigenvalues, tolerance) if len(g) > 1 and vae.active[g[0]]
    ]
    best, turn = np.inf, np.eye(len(variances))
    for rows in _placements(groups, len(variances)):
        cost, candidate = _place(groups, rows, moments, np.diag(precision), pull)
        if cost < best:
            best, turn = cost, candidate
    constant = log_determinant(posterior) - np.sum(np.log(variances)) - len(variances)
    explained = np.trace(gain.T @ precision @ gain @ covariance)
    return 0.5 * float(best + constant + explained), turn


def _placements(groups: list[list[int]], size: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to give each group of equal latents its own set of sources."""

    def extend(chosen: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        if len(chosen) == len(groups):
            yield chosen
            return
        free = [i for i in range(size) if not any(i in rows for rows in chosen)]
        for rows in itertools.combinations(free, len(groups[len(chosen)])):
            yield from extend([*chosen, rows])

    return extend([])


def _place(
    groups: list[list[int]],
    rows: list[tuple[int, ...]],
    moments: Float[ndarray, " latent"],
    stiffness: Float[ndarray, " latent"],
    pull: Float[ndarray, "latent latent"],
) -> tuple[float, Float[ndarray, "latent latent"]]:
    """The cost and the relabeling when the groups sit at these sources and the rest is assigned."""
    turn = np.zeros_like(pull)
    for group, place in zip(groups, rows, strict=True):
        block = np.ix_(place, group)
        left, _, right = np.linalg.svd(pull[block])
        turn[block] = left @ right
    sources = np.flatnonzero(~turn.any(axis=1))
    latents = np.flatnonzero(~turn.any(axis=0))
    block = np.ix_(sources, latents)
    cost = np.outer(stiffness[sources], moments[latents]) - 2 * np.abs(pull[block])
    chosen, partner = linear_sum_assignment(cost)
    for i, j in zip(sources[chosen], latents[partner], strict=True):
        turn[i, j] = 1.0 if pull[i, j] >= 0 else -1.0
    total = stiffness @ (turn**2) @ moments - 2 * np.sum(turn * pull)
    return float(total), turn
