"""Checks of rolinek2019: column norms, singular values, rotations and permutations of a Jacobian.

bhowal2024 restates four of these; `CHECKS` of its module points here.
"""

import itertools
from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.draws import covariance, frame, generator, orthogonal, signed_permutation
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.symmetry import distance_to_signed_permutation
from untwist.types import RandomKey


def _norms(matrix: ndarray) -> ndarray:
    return np.linalg.norm(matrix, axis=-2)


def _log_volume(matrix: ndarray) -> float:
    """Returns log of the product of column norms."""
    return float(np.sum(np.log(_norms(matrix))))


def _sixty_degrees() -> ndarray:
    """Rodrigues' rotation by 60 degrees about (1, 1, 0); its odd entry is sqrt(6)/4."""
    axis, angle = np.array([1.0, 1.0, 0.0]) / np.sqrt(2), np.pi / 3
    cross = np.cross(np.eye(3), axis)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def eq5(key: RandomKey, *, claim: Callable[[], ndarray] = _sixty_degrees) -> Evidence:
    """The printed matrix, rounded to two digits, against the rotation it stands for."""
    printed = np.array([[0.75, 0.25, 0.61], [0.25, 0.75, -0.61], [-0.61, 0.61, 0.50]])
    turn, decoder = claim(), generator(key).standard_normal((5, 3))
    return every(
        equal(printed, turn, 0.0025),
        equal(turn @ turn.T, np.eye(3)),
        equal(decoder @ turn.T @ turn, decoder),
        equal(np.linalg.det(printed), 0.994, 5e-4),
    )


def _projector(axes: ndarray, latents: int) -> ndarray:
    """Eq. 7 with its factors in the order that fits (erratum E9): P' I_nd I_dn P = P_d' P_d."""
    return axes[:, :latents] @ axes[:, :latents].T


def example1(key: RandomKey, *, claim: Callable[[ndarray, int], ndarray] = _projector) -> Evidence:
    """Y Y^+ for Y = P' Sigma Q with random Sigma and Q, and its loss against that of PCA."""
    draw = generator(key)
    data = covariance(6, draw)
    values, axes = np.linalg.eigh(data)
    axes = axes[:, ::-1]
    decoder = (axes[:, :2] * draw.uniform(0.5, 2, 2)) @ orthogonal(2, draw)
    product = decoder @ np.linalg.pinv(decoder)
    miss = np.eye(6) - claim(axes, 2)
    return every(
        equal(product, claim(axes, 2)),
        equal(np.trace(miss @ data @ miss.T), np.sum(values[:4])),
        note="with the factors of Eq. 7 in the order that fits (erratum E9)",
    )


def _columns_dot(matrix: ndarray) -> float:
    """Largest relative inner product of two columns."""
    unit = matrix / _norms(matrix)
    return float(np.abs(unit.T @ unit - np.eye(matrix.shape[1])).max())


def prop1(key: RandomKey, *, claim: Callable[[ndarray], float] = _columns_dot) -> Evidence:
    """Columns are orthogonal exactly when |V| is a permutation, both ways."""
    draw = generator(key)
    neat = frame(6, 3, draw) * np.array([3.0, 1.0, 2.0])
    level = frame(6, 3, draw)
    cases = [neat, neat @ signed_permutation(3, draw), draw.standard_normal((6, 3))]
    left = [distance_to_signed_permutation(np.linalg.svd(m)[2]) < 1e-8 for m in cases]
    turn = orthogonal(3, draw)  # with equal norms any V will do
    return every(
        equal(left, [claim(m) < 1e-8 for m in cases]),
        equal((level @ turn.T) @ np.eye(3) @ turn, level),
        note="with equal norms V is arbitrary; permuting never flips a sign (erratum E18)",
    )


def _geometric_mean(a: ndarray) -> float:
    return float(np.exp(np.mean(np.log(a))))


def lem_s1(key: RandomKey, *, claim: Callable[[ndarray], float] = _geometric_mean) -> Evidence:
    """Geometric mean against arithmetic mean, with equality on equal numbers."""
    numbers = generator(key).uniform(0.1, 4, (50, 6))
    level = np.full(6, 2.5)
    return every(
        at_most([claim(a) for a in numbers], np.mean(numbers, axis=1)), equal(claim(level), 2.5)
    )


def _absolute_determinant(matrix: ndarray) -> float:
    return float(np.abs(np.linalg.det(matrix)))


def lem_s2(
    key: RandomKey, *, claim: Callable[[ndarray], float] = _absolute_determinant
) -> Evidence:
    """|det M| against the product of column norms, with equality on orthogonal columns."""
    draw = generator(key)
    matrices = draw.standard_normal((50, 4, 4))
    neat = orthogonal(4, draw) * np.array([1.0, 2.0, 0.5, 3.0])
    return every(
        at_most([claim(m) for m in matrices], np.prod(_norms(matrices), axis=1)),
        equal(claim(neat), np.prod(_norms(neat))),
    )


def _gram(singular: ndarray, right: ndarray) -> ndarray:
    """V S'S V', `right` being V'."""
    return right.T @ np.diag(singular**2) @ right


def lem_s3(key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _gram) -> Evidence:
    """M'M against the two factors that hold no U; also for S V' in the place of M."""
    matrix = generator(key).standard_normal((7, 4))
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    reduced = singular[:, None] * right
    claimed = claim(singular, right)
    return every(
        equal(matrix.T @ matrix, claimed, 1e-12), equal(reduced.T @ reduced, claimed, 1e-12)
    )


def _singular_volume(matrix: ndarray) -> float:
    return float(np.prod(np.linalg.svd(matrix, compute_uv=False)))


def prop_s6(key: RandomKey, *, claim: Callable[[ndarray], float] = _singular_volume) -> Evidence:
    """Product of singular values against that of column norms; equality on orthogonal columns."""
    draw = generator(key)
    matrices = draw.standard_normal((50, 6, 3))
    neat = frame(6, 3, draw) * np.array([2.0, 0.5, 3.0])
    return every(
        at_most([claim(m) for m in matrices], np.prod(_norms(matrices), axis=1)),
        equal(claim(neat), np.prod(_norms(neat))),
    )


def _plane_slope(a: ndarray, b: ndarray) -> float:
    """d/dt log(||a cos t + b sin t|| ||b cos t - a sin t||) at t = 0."""
    return float(a @ b * (1 / (a @ a) - 1 / (b @ b)))


def lem_s5(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _plane_slope
) -> Evidence:
    """Small plane rotations lower the product of column norms unless columns are orthogonal."""
    draw = generator(key)
    generic = draw.standard_normal((5, 2))
    level = generic / _norms(generic)  # equal norms: the slope vanishes, the curvature does not

    def volume(matrix: ndarray, angle: float) -> float:
        c, s = np.cos(angle), np.sin(angle)
        return _log_volume(matrix @ np.array([[c, -s], [s, c]]))

    parts = []
    for matrix in (generic, level):
        slope = (volume(matrix, 1e-5) - volume(matrix, -1e-5)) / 2e-5
        best = min(volume(matrix, t) for t in (-1e-2, -1e-3, 1e-3, 1e-2))
        parts += [
            equal(slope, claim(*matrix.T), 1e-8),
            at_most(best, volume(matrix, 0.0) - 1e-12, 0.0),
        ]
    return every(*parts)


def _root_gram(matrix: ndarray) -> float:
    return float(np.sqrt(np.linalg.det(matrix.T @ matrix)))


def eq28(key: RandomKey, *, claim: Callable[[ndarray], float] = _root_gram) -> Evidence:
    """The volume bounds the product of column norms at every V, and is met at the SVD's."""
    draw = generator(key)
    matrix = draw.standard_normal((5, 3))
    turned = [np.prod(_norms(matrix @ orthogonal(3, draw).T)) for _ in range(50)]
    aligned = matrix @ np.linalg.svd(matrix)[2].T
    return every(
        at_most(claim(matrix), turned),
        equal(np.prod(_norms(aligned)), claim(matrix)),
        note="the caption of Fig. 2 prints cos for sin (erratum E5)",
    )


def eq_s72(key: RandomKey, *, claim: Callable = distance_to_signed_permutation) -> Evidence:
    """Linear assignment against every signed permutation in turn."""
    draw = generator(key)
    turns = [orthogonal(3, draw) for _ in range(20)]
    candidates = [
        np.eye(3)[list(order)] * signs
        for order in itertools.permutations(range(3))
        for signs in itertools.product((-1.0, 1.0), repeat=3)
    ]
    left = [min(np.abs(turn - p).sum() for p in candidates) for turn in turns]
    note = "no integer program is needed (erratum E15)"
    return equal(left, [claim(turn) for turn in turns], note=note)


CHECKS = {
    "eq5": eq5,
    "example1": example1,
    "prop1": prop1,
    "lemS1": lem_s1,
    "lemS2": lem_s2,
    "lemS3": lem_s3,
    "propS6": prop_s6,
    "lemS5": lem_s5,
    "eq28": eq28,
    "eqS72": eq_s72,
}
