"""Checks of bhowal2024: the loss split and its expansion in the noise, each to its stated order."""

from collections.abc import Callable

import numpy as np
import scipy.stats
from numpy import ndarray

from untwist.theory.draws import generator, orthogonal
from untwist.theory.evidence import Evidence, at_most, equal, every, order_of
from untwist.theory.gaussian import kl_to_prior
from untwist.theory.quadrature import gauss_average
from untwist.theory.sikka_gaussian import log_normal
from untwist.types import RandomKey


def _split(deterministic: float, stochastic: float) -> float:
    return deterministic + stochastic


def prop1(key: RandomKey, *, claim: Callable[[float, float], float] = _split) -> Evidence:
    """Square loss of an odd decoder at mean zero, which is unbiased, against its two parts."""
    draw = generator(key)
    weights, x = draw.standard_normal((4, 2)), draw.standard_normal(4)
    total, stochastic = (
        float(
            gauss_average(
                lambda z, a=a: np.sum((np.tanh(z @ weights.T) - a) ** 2, axis=1),
                np.zeros(2),
                0.4 * np.eye(2),
            )
        )
        for a in (x, np.zeros(4))
    )
    note = "the cross term is an inner product, not a product of norms (erratum E5)"
    return equal(total, claim(float(x @ x), stochastic), note=note)


def _diagonal_kl(mean: ndarray, variances: ndarray) -> float:
    """0.5 sum(mu^2 + s^2 - log s^2 - 1); Eq. 4 and 5 print other signs (errata E2, E3)."""
    return 0.5 * float(np.sum(mean**2 + variances - np.log(variances) - 1))


def prop2(key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _diagonal_kl) -> Evidence:
    """Average of log q - log p by quadrature."""
    draw = generator(key)
    mean, variances = draw.standard_normal(3), draw.uniform(0.05, 2, 3)

    def log_ratio(z: ndarray) -> ndarray:
        return log_normal(z, mean, np.diag(variances)) - log_normal(z, np.zeros(3), np.eye(3))

    left = gauss_average(log_ratio, mean, np.diag(np.sqrt(variances)), nodes=3)
    return equal(left, claim(mean, variances), note="two signs of Eq. 4 are wrong (erratum E2)")


def _log_likelihood(miss: ndarray, variances: ndarray) -> float:
    """-(k/2) log 2 pi - 0.5 log|S| - 0.5 Mahalanobis (erratum E4)."""
    volume = len(miss) * np.log(2 * np.pi) + np.sum(np.log(variances))
    return -0.5 * float(volume + np.sum(miss**2 / variances))


def prop3(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _log_likelihood
) -> Evidence:
    """SciPy's normal density, a product over pixels."""
    draw = generator(key)
    miss, variances = draw.standard_normal(5), draw.uniform(0.2, 2, 5)
    left = np.sum(scipy.stats.norm.logpdf(miss, scale=np.sqrt(variances)))
    return equal(float(left), claim(miss, variances), note="-(k/2) log 2 pi (erratum E4)")


def _taylor_remainder(at: ndarray, move: ndarray) -> ndarray:
    """f(v) = g(M mu + v) - g(M mu) for g = tanh."""
    return np.tanh(at + move) - np.tanh(at)


def prop4(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _taylor_remainder
) -> Evidence:
    """Decoding at a noisy code less that at its mean; f(0) = 0."""
    draw = generator(key)
    weights, mean, noise = draw.normal(size=(4, 2)), draw.normal(size=2), draw.normal(size=2)
    at = weights @ mean
    left = np.tanh(weights @ (mean + noise)) - np.tanh(at)
    return every(equal(left, claim(at, weights @ noise)), equal(0, claim(at, 0 * at)))


def _leading_loss(slopes: ndarray, weights: ndarray, variances: ndarray) -> float:
    """sum_j g'(M_j mu)^2 sum_k M_jk^2 s_k^2, as the terms in f(0) vanish (erratum E7)."""
    return float(slopes**2 @ weights**2 @ variances)


def lem1(key: RandomKey, *, claim: Callable[..., float] = _leading_loss) -> Evidence:
    """Stochastic loss of a tanh layer by quadrature: the error is of fourth order in s."""
    draw = generator(key)
    weights, means = draw.normal(size=(4, 2)), draw.normal(size=(8, 2))
    variances = 0.05 * draw.uniform(0.5, 1, 2)

    def error(mean: ndarray, scale: float) -> float:
        center, cut = np.tanh(weights @ mean), scale**2 * variances
        loss = gauss_average(
            lambda z: np.sum((np.tanh(z @ weights.T) - center) ** 2, axis=1),
            mean,
            np.diag(np.sqrt(cut)),
        )
        return float(loss) - claim(1 - center**2, weights, cut)

    errors = [[error(mean, scale) for mean in means] for scale in (0.2, 0.1)]
    note = "error of order s^4; the paper's terms in f(0) vanish (erratum E7)"
    return equal(order_of(errors), 4, 0.1, note)


def _reduced_kl(mean: ndarray, variances: ndarray) -> float:
    """(||mu||^2 - d)/2 + 0.5 sum -log s^2, with the constants that Eq. 33 drops (erratum E10)."""
    return 0.5 * float(mean @ mean - len(mean) - np.sum(np.log(variances)))


def lem3(key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _reduced_kl) -> Evidence:
    """KL after the mean is rotated: the error is of second order in s."""
    draw = generator(key)
    mean, variances, turn = draw.normal(size=3), draw.uniform(0.01, 0.1, 3), orthogonal(3, draw)
    errors = [
        kl_to_prior(turn @ mean, np.diag(c * variances)) - claim(mean, c * variances)
        for c in (1.0, 0.25)
    ]
    return every(
        equal(order_of(errors), 2, 1e-6),
        equal(errors[0], 0.5 * np.sum(variances)),
        note="exact up to half the sum of s^2 (erratum E10)",
    )


def _mean_to_second(value: float, slope: float, bend: float, variance: float) -> float:
    return value + 0.5 * bend * variance


def lem6(key: RandomKey, *, claim: Callable[..., float] = _mean_to_second) -> Evidence:
    """Mean of exp of a Gaussian, known exactly: the error is of second order in its variance."""
    mean = float(generator(key).normal())
    value = np.exp(mean)
    errors = [np.exp(mean + v / 2) - claim(value, value, value, v) for v in (0.02, 0.01)]
    return equal(order_of(errors), 2, 0.05, "error of second order in the variance")


def _variance_to_second(slope: float, bend: float, twist: float, variance: float) -> float:
    """f'^2 v + (f''^2/2 + f' f''') v^2; Lemma 7 prints f''/4 v^2 (erratum E13)."""
    return slope**2 * variance + (bend**2 / 2 + slope * twist) * variance**2


def lem7(key: RandomKey, *, claim: Callable[..., float] = _variance_to_second) -> Evidence:
    """Variance of exp of a Gaussian, known exactly: the corrected error is of third order."""
    value = np.exp(float(generator(key).normal()))
    steps = (0.004, 0.002)
    exact = [value**2 * np.exp(v) * np.expm1(v) for v in steps]
    errors = [e - claim(value, value, value, v) for e, v in zip(exact, steps, strict=True)]
    first = [e - value**2 * v for e, v in zip(exact, steps, strict=True)]
    return every(
        equal(order_of(errors), 3, 0.05),
        equal(order_of(first), 2, 0.05),
        note="first order as claimed; the printed second-order term is wrong (erratum E13)",
    )


def _row_variances(weights: ndarray, variances: ndarray) -> ndarray:
    """var(M_j eps) = sum_k a_jk^2 s_k^2."""
    return weights**2 @ variances


def lem8(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _row_variances
) -> Evidence:
    """Second moment of each row by quadrature."""
    draw = generator(key)
    weights, variances = draw.normal(size=(4, 3)), draw.uniform(0.1, 1, 3)
    root = np.diag(np.sqrt(variances))
    left = gauss_average(lambda e: (e @ weights.T) ** 2, np.zeros(3), root, nodes=3)
    return equal(left, claim(weights, variances))


def _row_means(weights: ndarray, mean: ndarray) -> ndarray:
    """E M_j z - M_j mu = 0."""
    return weights @ (mean - mean)


def lem9(key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _row_means) -> Evidence:
    """Mean of each row of noise by quadrature, about a random code."""
    draw = generator(key)
    weights, mean = draw.normal(size=(4, 3)), draw.normal(size=3)
    left = gauss_average(lambda z: (z - mean) @ weights.T, mean, np.diag([0.5, 1.0, 2.0]), nodes=3)
    return every(equal(left, claim(weights, mean)), at_most(1e-3, np.abs(weights @ mean).max()))


CHECKS = {
    "prop1": prop1,
    "prop2": prop2,
    "prop3": prop3,
    "prop4": prop4,
    "lem1": lem1,
    "lem3": lem3,
    "lem6": lem6,
    "lem7": lem7,
    "lem8": lem8,
    "lem9": lem9,
}
