"""Checks of bhowal2024: the precision game of the decoder matrix, PCA axes.

Four lemmas restate rolinek2019 and are checked by the same functions.
"""

from collections.abc import Callable

import numpy as np
import scipy.optimize
from numpy import ndarray

from untwist.theory.ascent import maximize
from untwist.theory.axes import principal_axes
from untwist.theory.draws import covariance, frame, generator, orthogonal
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.precision import descend, least_loss
from untwist.theory.rolinek_geometry import lem_s3, lem_s5, prop_s6
from untwist.theory.witness import mean_variances
from untwist.types import RandomKey


def _row_projector(right: ndarray, latents: int) -> ndarray:
    """V_E I_{n x d} I_{d x n} V_E'."""
    return right[:latents].T @ right[:latents]


def lem2(key: RandomKey, *, claim: Callable[[ndarray, int], ndarray] = _row_projector) -> Evidence:
    """M^+ M against the projector, for two encoders of the same V: the converse is false."""
    draw = generator(key)
    matrix = draw.standard_normal((2, 5))
    other = draw.standard_normal((2, 2)) @ matrix
    right = np.linalg.svd(matrix)[2]
    note = "the value does not fix the matrices (erratum E9)"
    sides = (np.linalg.pinv(m) @ m for m in (matrix, other))
    return every(*(equal(side, claim(right, 2)) for side in sides), note=note)


def _local_jacobian(slopes: ndarray, matrix: ndarray) -> ndarray:
    """What becomes orthogonal: diag(g') M_D, not M_D (erratum E8)."""
    return slopes[:, None] * matrix


def thm1(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _local_jacobian
) -> Evidence:
    """Descent over V_D and s at slopes that differ: value, columns and shares of noise."""
    draw = generator(key)
    matrix, slopes = draw.standard_normal((6, 3)), draw.uniform(0.2, 1, 6)
    true = slopes[:, None] * matrix
    end = descend(true[None], 4.0, key=key)
    turned = claim(slopes, matrix) @ end.rotations[0]
    gram = turned.T @ turned
    norms = np.diag(gram)
    shares = norms * end.variances[0]
    return every(
        equal(gram / np.sqrt(np.outer(norms, norms)), np.eye(3), 1e-5),
        equal(shares / shares.mean(), 1, 1e-5),
        equal(end.loss, np.log(least_loss(true, 4.0)), 1e-6),
        note="the Jacobian's columns, and M_D's only for equal slopes (erratum E8)",
    )


def _sorting(norms: ndarray) -> ndarray:
    """|V'| is the permutation that sorts the norms, not I (erratum E18)."""
    return np.eye(len(norms))[np.argsort(-norms)]


def lem4(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _sorting) -> Evidence:
    """SVD of a matrix with orthogonal columns of distinct norms, out of order."""
    norms = np.array([0.5, 2.0, 1.0])
    _, singular, right = np.linalg.svd(frame(6, 3, generator(key)) * norms, full_matrices=False)
    return every(
        equal(np.abs(right), claim(norms)),
        equal(singular, claim(norms) @ norms),
        note="up to order and signs (erratum E18)",
    )


def _saving(matrix: ndarray) -> float:
    """2 (sum log||c_k|| - sum log sv_k), from Hadamard (erratum E19)."""
    norms, singular = np.linalg.norm(matrix, axis=0), np.linalg.svd(matrix, compute_uv=False)
    return 2 * float(np.sum(np.log(norms)) - np.sum(np.log(singular)))


def lem5(key: RandomKey, *, claim: Callable[[ndarray], float] = _saving) -> Evidence:
    """Least precision at equal stochastic loss, by descent, before and after rotation."""
    matrix = generator(key).standard_normal((5, 3))
    aligned = matrix @ np.linalg.svd(matrix)[2].T

    def precision(candidate: ndarray) -> float:
        norms = np.sum(candidate**2, axis=0)

        def cost(logits: ndarray) -> float:  # s_j^2 = share_j / ||c_j||^2, the shares adding to one
            shares = np.exp(logits - np.logaddexp.reduce(logits))
            return -float(np.sum(np.log(shares / norms)))

        return scipy.optimize.minimize(cost, np.array([0.5, -0.5, 0.0]), tol=1e-12).fun

    saved = precision(matrix) - precision(aligned)
    return every(
        equal(saved, claim(matrix), 1e-6),
        at_most(0, saved),
        equal(claim(aligned), 0),
        note="strict iff columns are not orthogonal; the printed bound is zero (erratum E19)",
    )


def _gain(larger: float, smaller: float, t: float) -> float:
    """Returns t (a_i/(1+t) - a_j); Lemma 11 prints (a_i + a_j) t/(1+t) (erratum E12)."""
    return t * (larger / (1 + t) - smaller)


def lem11(key: RandomKey, *, claim: Callable[[float, float, float], float] = _gain) -> Evidence:
    """How much the sum falls when a_i/(1+t) and a_j (1+t) replace a_i and a_j."""
    numbers = generator(key).uniform(0.1, 3, (20, 3))
    left = [a + b - a / (1 + t) - b * (1 + t) for a, b, t in numbers]
    note = "positive iff a_i > a_j (1+t); the printed gain is wrong (erratum E12)"
    return equal(left, [claim(*row) for row in numbers], note=note)


def _orthonormalized(matrix: ndarray) -> ndarray:
    """M (M'M)^(-1/2); Prop. 7 prints the exponent 1/2 (erratum E1)."""
    values, axes = np.linalg.eigh(matrix.T @ matrix)
    return matrix @ (axes / np.sqrt(values)) @ axes.T


def prop7(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _orthonormalized) -> Evidence:
    """Polar factor by SVD, and random orthonormal frames, none of which is closer."""
    draw = generator(key)
    matrix = draw.standard_normal((6, 3))
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    near = np.linalg.norm(matrix - claim(matrix))
    others = [frame(6, 3, draw) for _ in range(100)] + [left @ orthogonal(3, draw)]
    return every(
        equal(claim(matrix).T @ claim(matrix), np.eye(3), 1e-9),
        equal(claim(matrix), left @ right, 1e-9),
        at_most(near, [np.linalg.norm(matrix - other) for other in others]),
        note="the printed exponent has the wrong sign (erratum E1)",
    )


def _share_of_noise(norms: ndarray) -> ndarray:
    """beta/(||c_j||^2 + beta) at beta = 0.3: inverse to ||c_j||^2 to first order only."""
    return 0.3 / (norms**2 + 0.3)


def sec35(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _share_of_noise) -> Evidence:
    """Posterior variances against column norms at the numerical optimum of a linear VAE."""
    data = covariance(6, generator(key))
    end = maximize(data, 3, 0.3, key=key)
    norms, spread = np.linalg.norm(end.decoder, axis=0), mean_variances(end, data)
    first_order = np.abs(0.3 / norms**2 - spread) / spread
    return every(
        equal(np.argsort(spread), np.argsort(-norms)),
        equal(spread, claim(norms), 1e-6),
        equal(first_order, 0.3 / norms**2, 1e-6),
        note="s^2 ~ 1/||c||^2 is off by a relative beta/||c||^2; errata E15, E17",
    )


def _left_out(values: ndarray, kept: slice) -> float:
    """Sum of the eigenvalues of the axes that are not kept."""
    return float(np.sum(values) - np.sum(values[kept]))


def table7(key: RandomKey, *, claim: Callable[[ndarray, slice], float] = _left_out) -> Evidence:
    """PCA reconstruction error on random data with the first k axes, or axes a to b."""
    draw = generator(key)
    data = draw.standard_normal((200, 8)) @ np.linalg.cholesky(covariance(8, draw)).T
    values, axes = principal_axes(data.T @ data / len(data))
    windows = [slice(0, 2), slice(0, 4), slice(0, 6), slice(2, 6), slice(4, 6)]
    errors = [
        np.mean(np.sum((data - data @ axes[:, w] @ axes[:, w].T) ** 2, axis=1)) for w in windows
    ]
    return every(
        equal(errors, [claim(values, w) for w in windows]),
        at_most(np.diff(errors[:3]), -1e-6, 0.0),
        at_most(errors[2], errors[3:]),
        note="the law, on random data: the paper's images are not at hand",
    )


CHECKS = {
    "lem2": lem2,
    "thm1": thm1,
    "lem4": lem4,
    "lem5": lem5,
    "prop5": lem_s3,
    "lem10": prop_s6,
    "lem11": lem11,
    "lem12": lem_s5,
    "prop7": prop7,
    "sec3.5": sec35,
    "table7": table7,
}
