"""Checks of sikka2019: the identities of the linear Gaussian model."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.draws import covariance, generator, orthogonal
from untwist.theory.evidence import Evidence, equal, every
from untwist.theory.gaussian import (
    joint_posterior,
    kl_between,
    kl_to_prior,
    linear_posterior,
    log_determinant,
)
from untwist.theory.quadrature import gauss_average
from untwist.types import RandomKey


def log_normal(x: ndarray, mean: ndarray, model: ndarray) -> ndarray:
    """Returns log N(x; mean, model) for each row of x."""
    shift = np.atleast_2d(x - mean)
    quadratic = np.sum(shift * np.linalg.solve(model, shift.T).T, axis=1)
    return -0.5 * (quadratic + len(model) * np.log(2 * np.pi) + log_determinant(model))


def evidence_minus_gap(log_evidence: float, gap: float) -> float:
    """Eq. 4: log p(x) - KL(q || p(z|x)). rolinek2019 E6, zietlow2021 E1 print a plus."""
    return log_evidence - gap


def eq4(key: RandomKey, *, claim: Callable[[float, float], float] = evidence_minus_gap) -> Evidence:
    """ELBO of a random q at a random x, by averaging, against the evidence identity."""
    draw = generator(key)
    decoder, x = draw.standard_normal((4, 2)), draw.standard_normal(4)
    mean, spread = draw.standard_normal(2), covariance(2, draw)
    gain, posterior = linear_posterior(decoder)
    log_evidence = log_normal(x, np.zeros(4), decoder @ decoder.T + np.eye(4)).item()
    likelihood = gauss_average(
        lambda z: log_normal(x, z @ decoder.T, np.eye(4)), mean, np.linalg.cholesky(spread), nodes=3
    )
    elbo = float(likelihood) - kl_to_prior(mean, spread)
    note = "rolinek2019 and zietlow2021 print the other sign (their errata E6 and E1)"
    gap = kl_between(mean, spread, gain @ x, posterior)
    return equal(elbo, claim(log_evidence, gap), note=note)


def eq19(key: RandomKey, *, claim: Callable = linear_posterior) -> Evidence:
    """Conditioning of the joint Gaussian against the formula, for random A and for the paper's."""
    draw = generator(key)
    parts = []
    for mixing in (draw.standard_normal((7, 3)), 0.5 * (1 + np.eye(128, 2))):
        gain, spread = joint_posterior(mixing)
        claimed = claim(mixing)
        parts += [equal(gain, claimed[0], 1e-12), equal(spread, claimed[1], 1e-12)]
    return every(*parts, note="for the paper's A the covariance is not diagonal")


def eq24(key: RandomKey, *, claim: Callable = linear_posterior) -> Evidence:
    """Bayes: log p(x, z) - log p(z|x) is log p(x), the same for every z."""
    draw = generator(key)
    decoder, x = draw.standard_normal((5, 2)), draw.standard_normal(5)
    gain, posterior = claim(decoder)
    codes = draw.standard_normal((20, 2))
    joint = np.array([log_normal(x, decoder @ z, np.eye(5)).item() for z in codes])
    joint += log_normal(codes, np.zeros(2), np.eye(2))
    log_evidence = log_normal(x, np.zeros(5), decoder @ decoder.T + np.eye(5))
    note = "Eq. 59 prints other shapes (erratum E12)"
    return equal(joint - log_normal(codes, gain @ x, posterior), log_evidence, note=note)


def averaged_error(
    mixing: ndarray, encoder: ndarray, weights: ndarray, bias: ndarray, covariance: ndarray
) -> float:
    """Eq. 25 with a variance that depends on x, diag exp(W_s x + b)."""
    gain, posterior = linear_posterior(mixing)
    precision = np.linalg.inv(posterior)
    spread = np.exp(0.5 * np.diag(weights @ covariance @ weights.T) + bias)
    shift = gain - encoder
    return 0.5 * float(
        np.diag(precision) @ spread
        - np.sum(bias)
        + log_determinant(posterior)
        + np.trace(shift.T @ precision @ shift @ covariance)
        - len(bias)
    )


def eq25(key: RandomKey, *, claim: Callable = averaged_error) -> Evidence:
    """Average of the KL between Gaussians over data, point by point, against Eq. 25."""
    draw = generator(key)
    mixing, encoder = draw.standard_normal((2, 2, 2))
    weights, bias = 0.3 * draw.standard_normal((2, 2)), draw.standard_normal(2)
    data = covariance(2, draw)
    gain, posterior = linear_posterior(mixing)

    def divergence(points: ndarray) -> ndarray:
        spreads = np.exp(points @ weights.T + bias)
        return np.array(
            [
                kl_between(encoder @ x, np.diag(s), gain @ x, posterior)
                for x, s in zip(points, spreads, strict=True)
            ]
        )

    left = gauss_average(divergence, np.zeros(2), np.linalg.cholesky(data), nodes=24)
    return equal(left, claim(mixing, encoder, weights, bias, data), 1e-9)


def quadratic_mean(matrix: ndarray, spread: ndarray) -> float:
    """Eq. 37: E z'A'A z = tr(A S A')."""
    return float(np.trace(matrix @ spread @ matrix.T))


def eq37(key: RandomKey, *, claim: Callable = quadratic_mean) -> Evidence:
    """Second moment of a Gaussian quadratic form, by quadrature exact to degree five."""
    draw = generator(key)
    matrix, spread = draw.standard_normal((3, 3)), covariance(3, draw)
    left = gauss_average(
        lambda z: np.sum((z @ matrix.T) ** 2, axis=1),
        np.zeros(3),
        np.linalg.cholesky(spread),
        nodes=3,
    )
    return equal(left, claim(matrix, spread))


def eq39(key: RandomKey, *, claim: Callable = kl_to_prior) -> Evidence:
    """KL to the prior against the average of log q - log p."""
    draw = generator(key)
    mean, spread = draw.standard_normal(2), covariance(2, draw)

    def log_ratio(z: ndarray) -> ndarray:
        return log_normal(z, mean, spread) - log_normal(z, np.zeros(2), np.eye(2))

    left = gauss_average(log_ratio, mean, np.linalg.cholesky(spread), nodes=3)
    return equal(left, claim(mean, spread))


def push_through(u: ndarray, v: ndarray) -> ndarray:
    """Eq. 52: (I + U V)^-1 U = U (I + V U)^-1."""
    return u @ np.linalg.inv(np.eye(v.shape[0]) + v @ u)


def eq52(key: RandomKey, *, claim: Callable = push_through) -> Evidence:
    """Push-through identity, and Woodbury's as (I + U V)^-1 = I - U (I + V U)^-1 V."""
    draw = generator(key)
    u, v = 0.3 * draw.standard_normal((5, 2)), 0.3 * draw.standard_normal((2, 5))
    inverse = np.linalg.inv(np.eye(5) + u @ v)
    return every(equal(inverse @ u, claim(u, v)), equal(inverse, np.eye(5) - claim(u, v) @ v))


def marginal(decoder: ndarray) -> ndarray:
    """Eq. 57: the covariance of x, D D' + I."""
    return decoder @ decoder.T + np.eye(len(decoder))


def eq57(key: RandomKey, *, claim: Callable = marginal) -> Evidence:
    """Compares log of the average of p(x|z) over the prior against log N(x; 0, D D' + I)."""
    draw = generator(key)
    decoder = 0.7 * orthogonal(4, draw)[:, :2] * draw.uniform(0.7, 1.3, 2)
    points = draw.standard_normal((5, 4))
    left = [
        np.log(
            gauss_average(
                lambda z, x=x: np.exp(log_normal(x, z @ decoder.T, np.eye(4))),
                np.zeros(2),
                np.eye(2),
                nodes=50,
            )
        )
        for x in points
    ]
    return equal(left, log_normal(points, np.zeros(4), claim(decoder)), 1e-8)


CHECKS = {
    "eq4": eq4,
    "eq19": eq19,
    "eq24": eq24,
    "eq25": eq25,
    "eq37": eq37,
    "eq39": eq39,
    "eq52": eq52,
    "eq57": eq57,
}
