"""Checks of zietlow2021: the linear VAE finds PCA directions, and the lemmas on the way."""

from collections.abc import Callable

import numpy as np
import scipy.optimize
from numpy import ndarray

from untwist.theory.ascent import maximize
from untwist.theory.axes import principal_axes
from untwist.theory.draws import covariance, generator
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.gaussian import kl_to_prior
from untwist.theory.linear_vae import linear_beta_vae
from untwist.theory.quadrature import gauss_average
from untwist.theory.symmetry import distance_to_signed_permutation
from untwist.theory.witness import mean_variances
from untwist.types import RandomKey


def _split(deterministic: float, stochastic: float) -> float:
    """Eq. 5, with the expectation over noise that it leaves out (erratum E16)."""
    return deterministic + stochastic


def eq5(key: RandomKey, *, claim: Callable[[float, float], float] = _split) -> Evidence:
    """Square loss of a linear decoder by quadrature against the sum of its two parts."""
    draw = generator(key)
    decoder, x, mean = draw.standard_normal((5, 2)), draw.standard_normal(5), draw.normal(size=2)
    root = np.diag(draw.uniform(0.1, 1, 2))
    total, stochastic = (
        gauss_average(lambda z, a=a: np.sum((z @ decoder.T - a) ** 2, axis=1), mean, root, nodes=3)
        for a in (x, decoder @ mean)
    )
    return equal(total, claim(float(np.sum((decoder @ mean - x) ** 2)), float(stochastic)))


def _polarized(mean: ndarray, variances: ndarray) -> float:
    """Eq. 8: sum_j mu_j^2 - log s_j^2."""
    return float(np.sum(mean**2 - np.log(variances)))


def eq8(key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _polarized) -> Evidence:
    """Twice the exact KL, plus d, less sum s^2."""
    draw = generator(key)
    mean, variances = draw.standard_normal(4), draw.uniform(0.01, 0.3, 4)
    left = 2 * kl_to_prior(mean, np.diag(variances)) + 4 - np.sum(variances)
    note = "the factor 1/2 and the constant are dropped; active latents only (erratum E2)"
    return equal(left, claim(mean, variances), note=note)


def _pca_decoder(data: ndarray, beta: float) -> ndarray:
    """Columns V_X sqrt(lambda - beta/2), not V_X' Sigma_X^2 (errata E4, E5)."""
    return linear_beta_vae(data, 3, beta, variance=0.5).decoder


def thm1(key: RandomKey, *, claim: Callable[[ndarray, float], ndarray] = _pca_decoder) -> Evidence:
    """Numerical optimum of the linear beta-VAE with square loss against the PCA decoder.

    Also the theorem in its own terms, with its missing constraints (erratum E6): among
    decoders `V_X Sigma B` of unit codes, the product of column norms is least when B is a signed
    permutation.
    """
    draw = generator(key)
    data, beta = covariance(6, draw), float(draw.uniform(0.2, 2))
    end = maximize(data, 3, beta, variance=0.5, key=key)
    found = end.decoder[:, np.argsort(-np.linalg.norm(end.decoder, axis=0))]
    claimed = claim(data, beta)
    found = found * np.sign(np.sum(found * claimed, axis=0))
    values, _ = principal_axes(data)
    products = []
    for _ in range(50):
        mixer = draw.standard_normal((3, 3))
        codes = np.linalg.inv(mixer)
        mixer = mixer * np.linalg.norm(codes, axis=1)  # unit second moment of every code
        products.append(np.prod(np.linalg.norm(np.sqrt(values[:3, None]) * mixer, axis=0)))
    turn = np.linalg.svd(end.decoder)[2]
    return every(
        equal(found, claimed, 1e-6),
        equal(distance_to_signed_permutation(turn), 0, 1e-6),
        at_most(np.prod(np.sqrt(values[:3])), products),
        note="formulas of the main text corrected (errata E3 to E6)",
    )


def _determinant_bound(matrix: ndarray) -> float:
    """Returns d det^(1/d), d the size of the matrix (erratum E10)."""
    return len(matrix) * float(np.linalg.det(matrix)) ** (1 / len(matrix))


def trace_ineq(
    key: RandomKey, *, claim: Callable[[ndarray], float] = _determinant_bound
) -> Evidence:
    """Trace of random PSD matrices against the bound, met by multiples of the identity."""
    draw = generator(key)
    matrices = [covariance(3, draw) for _ in range(50)]
    return every(
        at_most([claim(m) for m in matrices], [np.trace(m) for m in matrices]),
        equal(claim(0.2 * np.eye(3)), 0.6),
        note="d is the number of latents, not of rows (erratum E10)",
    )


def _rescaling(x: ndarray) -> float:
    """sqrt(n / sum x^2), where Lemma 1 prints sqrt(sum x^2) (erratum E7)."""
    return float(np.sqrt(len(x) / np.sum(x**2)))


def lem1(key: RandomKey, *, claim: Callable[[ndarray], float] = _rescaling) -> Evidence:
    """Scalar minimization of the KL over the scale of the code."""
    draw = generator(key)
    x, y = draw.standard_normal(7), draw.uniform(0.1, 1, 7)

    def kl(scale: float) -> float:
        return float(np.sum(scale**2 * x**2 - np.log(scale**2 * y**2)))

    found = scipy.optimize.minimize(lambda logs: kl(float(np.exp(logs[0]))), [0.0], tol=1e-10)
    scale = float(np.exp(found.x[0]))
    note = "the printed sqrt(sum x^2) is wrong (erratum E7)"
    return every(equal(scale, claim(x), 1e-6), equal(np.mean((claim(x) * x) ** 2), 1), note=note)


def lem2(key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = np.matmul) -> Evidence:
    """Diagonal of a zero-diagonal matrix times a diagonal one, both ways, and the trace."""
    draw = generator(key)
    matrix = draw.standard_normal((5, 5)) * (1 - np.eye(5))
    diagonal = np.diag(draw.standard_normal(5))
    products = (claim(matrix, diagonal), claim(diagonal, matrix))
    return every(*(equal([*np.diag(p), np.trace(p)], 0, 1e-15) for p in products))


def _fold(image: ndarray) -> ndarray:
    """Reflects values that leave [0, 1] back into it."""
    return 1 - np.abs(1 - np.abs(image))


def eq12(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _fold) -> Evidence:
    """Manipulated images stay within eps of the original and within [0, 1]."""
    draw = generator(key)
    images, change = draw.uniform(0, 1, (20, 64)), draw.uniform(-1, 1, (20, 64))
    images[:, :8], change[:, :8] = (
        draw.integers(0, 2, (20, 8)),
        2 * draw.integers(0, 2, (20, 8)) - 1,
    )
    size = float(draw.uniform(0.05, 0.2))
    moved = claim(images + size * change)
    note = "with the eps that B.1 drops (erratum E13)"
    return every(
        at_most(np.abs(moved - images), size), at_most(moved, 1), at_most(0, moved), note=note
    )


def eq14(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = np.argsort) -> Evidence:
    """Data variance along latents, sorted by posterior variance, against sorted eigenvalues."""
    data = covariance(6, generator(key))
    end = maximize(data, 3, 0.3, key=key)
    order = claim(mean_variances(end, data))
    axes = (end.decoder / np.linalg.norm(end.decoder, axis=0))[:, order]
    left = np.sum(axes * (data @ axes), axis=0)
    return equal(left, principal_axes(data)[0][:3], 1e-6)


CHECKS = {
    "eq5": eq5,
    "eq8": eq8,
    "thm1": thm1,
    "trace_ineq": trace_ineq,
    "lem1": lem1,
    "lem2": lem2,
    "eq12": eq12,
    "eq14": eq14,
}
