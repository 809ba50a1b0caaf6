"""Checks of allen2024: PPCA, the linear VAE, beta as a likelihood variance, posterior collapse."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.ascent import maximize
from untwist.theory.axes import principal_axes
from untwist.theory.draws import (
    covariance,
    frame,
    generator,
    orthogonal,
    signed_permutation,
    spectrum,
)
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.gaussian import joint_posterior, kl_to_prior
from untwist.theory.linear_terms import terms_of
from untwist.theory.linear_vae import linear_beta_vae
from untwist.theory.ppca import PPCA, ppca
from untwist.theory.sikka_gaussian import log_normal
from untwist.theory.symmetry import distance_to_signed_permutation, rotation_cost
from untwist.types import RandomKey


def _bounding_betas() -> tuple[float, ...]:
    """The objective bounds log p(x) for these, and below one it need not (erratum E2)."""
    return (1.0, 2.0, 5.0)


def eq1(key: RandomKey, *, claim: Callable[[], tuple[float, ...]] = _bounding_betas) -> Evidence:
    """Objective of a scalar linear Gaussian at x = 0 under its best q, against log p(x)."""
    scale, s2 = float(generator(key).uniform(0.7, 1.5)), 1.0
    left = []
    for beta in claim():
        spread = beta * s2 / (scale**2 + beta * s2)
        likelihood = -0.5 * (np.log(2 * np.pi * s2) + scale**2 * spread / s2)
        left.append(likelihood - beta * kl_to_prior(np.zeros(1), np.array([[spread]])))
    log_evidence = log_normal(np.zeros(1), np.zeros(1), np.array([[scale**2 + s2]]))
    note = "only for beta at least one (erratum E2)"
    return at_most(left, log_evidence, note=note)


def _posterior(loadings: ndarray, variance: float) -> tuple[ndarray, ndarray]:
    """Eq. 3: M^-1 W'x and s^2 M^-1, M = W'W + s^2 I."""
    inverse = np.linalg.inv(loadings.T @ loadings + variance * np.eye(loadings.shape[1]))
    return inverse @ loadings.T, variance * inverse


def eq3(key: RandomKey, *, claim: Callable = _posterior) -> Evidence:
    """Conditioning of the joint Gaussian of z and x, at a variance that is not one."""
    draw = generator(key)
    loadings, variance = draw.standard_normal((6, 3)), float(draw.uniform(0.2, 0.8))
    pairs = zip(joint_posterior(loadings, variance), claim(loadings, variance), strict=True)
    return every(*(equal(a, b) for a, b in pairs))


def _loadings(data: ndarray, latents: int, variance: float) -> ndarray:
    """Maximum likelihood at R = I: U (S - s^2 I)^(1/2)."""
    return ppca(data, latents, variance=variance).loadings


def ppca_ml(
    key: RandomKey, *, claim: Callable[[ndarray, int, float], ndarray] = _loadings
) -> Evidence:
    """Gradient of the likelihood at random rotations of the claimed loadings."""
    draw = generator(key)
    data = covariance(6, draw)
    model = PPCA(claim(data, 3, 0.3), 0.3)
    slopes = [model.rotated(orthogonal(3, draw)).slope(data) for _ in range(5)]
    return equal(slopes, 0, 1e-10, "the covariance is X X'/n (erratum E3)")


def _rotated_inverse(rotation: ndarray, values: ndarray, variance: float) -> ndarray:
    """s^2 R' S^-1 R; Eq. 4 prints R S R' (erratum E5)."""
    return variance * rotation.T @ np.diag(1 / values) @ rotation


def eq4(key: RandomKey, *, claim: Callable = _rotated_inverse) -> Evidence:
    """Posterior covariance of PPCA rotated by R; diagonal for signed permutations only."""
    draw = generator(key)
    data, turn = covariance(6, draw), orthogonal(3, draw)
    values, model = principal_axes(data)[0][:3], ppca(data, 3, variance=0.3)
    neat = model.rotated(signed_permutation(3, draw)).posterior[1]
    generic = model.rotated(turn).posterior[1]
    return every(
        equal(generic, claim(turn, values, 0.3)),
        equal(neat - np.diag(np.diag(neat)), 0),
        at_most(1e-4, np.abs(generic - np.diag(np.diag(generic))).max()),
        note="the printed R S R' is wrong (erratum E5)",
    )


def _gains(values: ndarray) -> ndarray:
    """Column norms (S - s^2 I)^(1/2) at s^2 = 0.3."""
    return np.sqrt(values - 0.3)


def lvae(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _gains) -> Evidence:
    """Decoder of the numerically optimal linear VAE, seen from the eigenvectors of the data."""
    data = covariance(6, generator(key))
    values, axes = principal_axes(data)
    end = maximize(data, 3, 1.0, variance=0.3, key=key)
    seen = np.abs(axes.T @ end.decoder)
    seen = seen[:, np.argsort(-np.linalg.norm(seen, axis=0))]
    claimed = np.zeros((6, 3))
    np.fill_diagonal(claimed, claim(values[:3]))
    return equal(seen, claimed, 1e-6)


def _local_covariance(jacobian: ndarray, variance: float) -> ndarray:
    """Eq. 8: (I + D'D/s^2)^-1."""
    return np.linalg.inv(np.eye(jacobian.shape[1]) + jacobian.T @ jacobian / variance)


def eq8(
    key: RandomKey, *, claim: Callable[[ndarray, float], ndarray] = _local_covariance
) -> Evidence:
    """Posterior covariance of PPCA by conditioning, the decoder being linear."""
    draw = generator(key)
    model = PPCA(draw.standard_normal((6, 3)), float(draw.uniform(0.2, 2)))
    conditioned = joint_posterior(model.loadings, model.variance)[1]
    return equal(conditioned, claim(model.loadings, model.variance))


def _left_vectors(loadings: ndarray) -> ndarray:
    return np.linalg.svd(loadings, full_matrices=False)[0]


def cor11(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _left_vectors) -> Evidence:
    """Linear VAE of PPCA data: its columns against the left singular vectors of the true W."""
    draw = generator(key)
    true = frame(6, 3, draw) * spectrum(3, draw) @ orthogonal(3, draw).T
    vae = linear_beta_vae(true @ true.T + 0.2 * np.eye(6), 3, variance=0.2)
    cosines = np.abs((vae.decoder / vae.gains).T @ claim(true))
    level = 2 * frame(6, 3, draw)
    free = linear_beta_vae(level @ level.T + 0.2 * np.eye(6), 3, variance=0.2)
    return every(
        equal(distance_to_signed_permutation(cosines), 0, 1e-6),
        equal(rotation_cost(free.decoder, orthogonal(3, draw), variance=0.2), 0),
        note="equal singular values leave the rotation free",
    )


def rem3(key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = np.matmul) -> Evidence:
    """Log-likelihood of data, and its covariance, under W and W Q."""
    draw = generator(key)
    data, model = covariance(6, draw), PPCA(draw.standard_normal((6, 3)), 0.4)
    turned = PPCA(claim(model.loadings, orthogonal(3, draw)), 0.4)
    note = "V, order and signs are free"
    return equal(turned.log_likelihood(data), model.log_likelihood(data), 1e-12, note)


def _tempered(scale: float, s2: float, beta: float, x: float) -> tuple[float, float]:
    """Mean W x/(W^2 + beta s^2) and variance beta s^2/(W^2 + beta s^2)."""
    total = scale**2 + beta * s2
    return scale * x / total, beta * s2 / total


def q_opt(key: RandomKey, *, claim: Callable = _tempered) -> Evidence:
    """Moments of p(x|z)^(1/beta) p(z), normalized on a fine grid."""
    draw = generator(key)
    scale, s2, beta, x = (float(v) for v in draw.uniform(0.5, 2, 4))
    z = np.linspace(-12, 12, 20001)
    mass = np.exp(-0.5 * (x - scale * z) ** 2 / (beta * s2) - 0.5 * z**2)
    mass = mass / np.sum(mass)
    mean = mass @ z
    return equal([mean, mass @ (z - mean) ** 2], claim(scale, s2, beta, x), 1e-9)


def _scaled_variance(beta: float, s2: float) -> float:
    """The variance at which a plain VAE has the same optimum."""
    return beta * s2


def _tempered_bernoulli(logit: float, beta: float) -> tuple[float, float]:
    """Variance of p(x)^(1/beta), normalized over x = 0, 1, and beta times that of p(x)."""
    variances = []
    for power in (1 / beta, 1.0):
        weights = np.exp(power * logit * np.array([0.0, 1.0]))
        chance = weights[1] / np.sum(weights)
        variances.append(float(chance * (1 - chance)))
    return variances[0], beta * variances[1]


def thm3(key: RandomKey, *, claim: Callable[[float, float], float] = _scaled_variance) -> Evidence:
    """Objectives differ by a scale and a constant at any parameters, for a Gaussian.

    For a Bernoulli the tempered likelihood is a Bernoulli of logit theta/beta, whose variance is at
    most 1/4: not beta times the variance (erratum E14).
    """
    draw = generator(key)
    data, beta, s2 = covariance(5, draw), float(draw.uniform(1.5, 5)), float(draw.uniform(0.3, 1))
    offsets = []
    for _ in range(10):
        shapes = draw.standard_normal((5, 2)), draw.standard_normal((2, 5)), draw.uniform(0.1, 1, 2)
        tempered = terms_of(*shapes, data, beta=beta, variance=s2).objective / beta
        offsets.append(tempered - terms_of(*shapes, data, variance=claim(beta, s2)).objective)
    constant = 2.5 * (np.log(2 * np.pi * beta * s2) - np.log(2 * np.pi * s2) / beta)
    optima = (
        linear_beta_vae(data, 3, beta, variance=s2),
        linear_beta_vae(data, 3, variance=beta * s2),
    )
    logits = draw.standard_normal(10)
    chance = np.exp(logits / beta) / (1 + np.exp(logits / beta))  # p(x=1)^(1/beta), normalized
    return every(
        equal(offsets, constant, 1e-9),
        equal(optima[0].decoder, optima[1].decoder),
        at_most(chance * (1 - chance), 0.25),
        equal(_tempered_bernoulli(0.5, 4.0), [0.249, 0.940], 5e-4),
        note="exact for a fixed Gaussian variance; not for a Bernoulli (erratum E14)",
    )


def _survivors(values: ndarray, threshold: float) -> int:
    """Directions with more variance than beta s^2."""
    return int(np.sum(values > threshold))


def cor31(key: RandomKey, *, claim: Callable[[ndarray, float], int] = _survivors) -> Evidence:
    """Active latents of the numerical optimum on both sides of every threshold; never more."""
    data = covariance(4, generator(key))
    values, s2 = principal_axes(data)[0], 0.5
    betas = np.array([values[1] * 0.9, values[1] * 1.1, values[0] * 1.1]) / s2
    ends = [maximize(data, 2, float(beta), variance=s2, key=key) for beta in betas]
    counts = [int(np.sum(np.linalg.norm(end.decoder, axis=0) > 1e-3)) for end in ends]
    return every(
        equal(counts, [claim(values[:2], float(b) * s2) for b in betas]),
        at_most(np.diff(counts), 0.0),
    )


CHECKS = {
    "eq1": eq1,
    "eq3": eq3,
    "ppca_ml": ppca_ml,
    "eq4": eq4,
    "lvae": lvae,
    "eq8": eq8,
    "cor1.1": cor11,
    "rem3": rem3,
    "thm3": thm3,
    "q_opt": q_opt,
    "cor3.1": cor31,
}
