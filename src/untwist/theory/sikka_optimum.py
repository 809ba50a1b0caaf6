"""Checks of sikka2019: the linear beta-VAE's objective, its optimum, its curves over beta."""

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.ascent import maximize
from untwist.theory.draws import covariance, generator
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.inference_error import inference_error
from untwist.theory.linear_terms import Terms, optimal_terms, terms_of
from untwist.theory.linear_vae import linear_beta_vae, optimal_encoder
from untwist.theory.quadrature import gauss_average, gauss_points
from untwist.theory.witness import (
    Parameters,
    averaged_objective,
    mean_variances,
    random_parameters,
    stationarity,
)
from untwist.types import RandomKey

BETAS = np.geomspace(0.05, 20, 241)


def _negative_kl(kl: float, beta: float) -> float:
    """Eq. 10: dL*/dbeta = -KL*."""
    return -kl


def prop1(key: RandomKey, *, claim: Callable[[float, float], float] = _negative_kl) -> Evidence:
    """Slope of the numerical optimum by central differences, and that it never rises."""
    draw = generator(key)
    data, beta, step = covariance(4, draw), float(draw.uniform(0.3, 3)), 1e-3
    ends = [
        averaged_objective(maximize(data, 2, b, key=key), data, b)
        for b in (beta - step, beta + step)
    ]
    slope = (ends[1] - ends[0]) / (2 * step)
    kl = float(optimal_terms(linear_beta_vae(data, 2, beta)).kl)
    return every(at_most(slope, 0), equal(slope, claim(kl, beta), 1e-4))


def _falling(terms: Terms) -> tuple[ndarray, ndarray]:
    """Eq. 12-13: what never rises with beta."""
    return terms.kl, terms.reconstruction


def prop2(key: RandomKey, *, claim: Callable[[Terms], tuple] = _falling) -> Evidence:
    """Steps of both curves along a fine grid of beta: none is upwards."""
    terms = optimal_terms(linear_beta_vae(covariance(6, generator(key)), 3, BETAS))
    note = "needs the global maximizer: there are other stationary points (erratum E16)"
    return every(*(at_most(np.diff(curve), 0) for curve in claim(terms)), note=note)


def _elbo_slope(beta: ndarray, kl_slope: ndarray) -> ndarray:
    """Eq. 15: dELBO*/dbeta = (beta - 1) dKL*/dbeta."""
    return (beta - 1) * kl_slope


def prop3(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _elbo_slope
) -> Evidence:
    """ELBO at beta = 1 against every other, and its slope inside the range where none collapses."""
    data = covariance(6, generator(key))
    vae = linear_beta_vae(data, 3, BETAS)
    best = optimal_terms(linear_beta_vae(data, 3, 1.0)).elbo
    inside, step = np.geomspace(0.05, 0.9 * vae.critical_beta[-1], 40), 1e-5
    low, high = (optimal_terms(linear_beta_vae(data, 3, inside + s)) for s in (-step, step))
    slopes = [(b - a) / (2 * step) for a, b in ((low.elbo, high.elbo), (low.kl, high.kl))]
    return every(
        at_most(optimal_terms(vae).elbo, best), equal(slopes[0], claim(inside, slopes[1]), 1e-6)
    )


def _exchange(a: ndarray, b: ndarray, beta: float) -> ndarray:
    """App. A: O = A - beta B."""
    return a - beta * b


def prop4(key: RandomKey, *, claim: Callable = _exchange) -> Evidence:
    """B at the maximizer of O over random finite tables of (A, B) never rises with beta."""
    tables = generator(key).standard_normal((20, 2, 50))
    paths = [[b[np.argmax(claim(a, b, beta))] for beta in BETAS] for a, b in tables]
    return at_most(np.diff(paths), 0.0)


def _weighted(elbo: float, kl: float, beta: float) -> float:
    """Eq. 14: L = ELBO + (1 - beta) KL."""
    return elbo + (1 - beta) * kl


def eq14(key: RandomKey, *, claim: Callable = _weighted) -> Evidence:
    """Objective of Eq. 21 at random parameters against ELBO and KL by other formulas."""
    draw = generator(key)
    data, beta = covariance(5, draw), float(draw.uniform(0.2, 5))
    p = random_parameters(5, 2, key=key, scale=0.5)
    still = {"variance_weights": 0 * p.variance_weights, "encoder_bias": 0 * p.encoder_bias}
    p = dataclasses.replace(p, decoder_bias=0 * p.decoder_bias, **still)
    terms = terms_of(p.decoder, p.encoder, np.exp(p.variance_bias), data)
    return equal(averaged_objective(p, data, beta), claim(float(terms.elbo), float(terms.kl), beta))


def _difference(log_evidence: ndarray, elbo: ndarray) -> ndarray:
    """Eq. 16: MIE = E log p(x) - ELBO."""
    return log_evidence - elbo


def eq16(key: RandomKey, *, claim: Callable = _difference) -> Evidence:
    """MIE of Eq. 25 at the optimum against the difference of log-likelihood and ELBO."""
    data = covariance(6, generator(key))
    vae = linear_beta_vae(data, 3, np.array([0.1, 0.5, 1.0, 3.0]))
    terms = optimal_terms(vae)
    left = [
        inference_error(w, e, d, data)
        for w, e, d in zip(vae.encoder, vae.variances, vae.decoder, strict=True)
    ]
    return equal(left, claim(terms.log_likelihood, terms.elbo), 1e-8)


def fixed_decoder(key: RandomKey, *, claim: Callable = optimal_encoder) -> Evidence:
    """MIE under a frozen random decoder, its encoder optimal at each beta, is least at one."""
    draw = generator(key)
    data, decoder = covariance(5, draw), draw.standard_normal((5, 3))
    errors = [
        inference_error(w, e, decoder, data)
        for w, e in (claim(decoder, float(b)) for b in (1.0, *BETAS))
    ]
    return at_most(errors[0], errors[1:], 1e-12)


def _pointwise_objective(p: Parameters, points: ndarray, beta: float) -> ndarray:
    """L at each x by averaging log p(x|z) over q, exact as the integrand is quadratic."""
    means, spreads = (
        points @ p.encoder.T + p.encoder_bias,
        np.exp(points @ p.variance_weights.T + p.variance_bias),
    )
    noise, mass = gauss_points(means.shape[1], 3)
    codes = means[:, None] + np.sqrt(spreads)[:, None] * noise
    misses = np.sum((codes @ p.decoder.T + p.decoder_bias - points[:, None]) ** 2, axis=2)
    likelihood = -0.5 * (misses @ mass + points.shape[1] * np.log(2 * np.pi))
    kl = 0.5 * np.sum(means**2 + spreads - np.log(spreads) - 1, axis=1)
    return likelihood - beta * kl


def eq21(key: RandomKey, *, claim: Callable = averaged_objective) -> Evidence:
    """Average over x of the objective computed from its definition, all parameters random."""
    draw = generator(key)
    data, beta = covariance(2, draw), float(draw.uniform(0.2, 5))
    p = random_parameters(2, 2, key=key, scale=0.3)
    left = gauss_average(
        lambda x: _pointwise_objective(p, x, beta), np.zeros(2), np.linalg.cholesky(data)
    )
    note = "the printed form drops two constants, one of which depends on beta (erratum E2)"
    return equal(left, claim(p, data, beta), 1e-9, note)


def numerical_slope(p: Parameters, data: ndarray, beta: float) -> Parameters:
    """Returns the gradient of Eq. 21 by central differences."""
    vector, step = p.flat, 1e-5
    moves = step * np.eye(len(vector))
    ahead, behind = (
        np.array([averaged_objective(p.unflatten(vector + s * m), data, beta) for m in moves])
        for s in (1, -1)
    )
    return p.unflatten((ahead - behind) / (2 * step))


def eq22(key: RandomKey, *, claim: Callable = stationarity) -> Evidence:
    """Bias gradients by finite differences, and biases where the optimizer ends, which vanish."""
    draw = generator(key)
    data, beta = covariance(4, draw), float(draw.uniform(0.2, 3))
    p = random_parameters(4, 2, key=key, scale=0.5)
    slope, claimed = numerical_slope(p, data, beta), claim(p, data, beta)
    end = maximize(data, 2, beta, key=key)
    return every(
        equal(slope.encoder_bias, claimed.encoder_bias, 1e-7),
        equal(slope.decoder_bias, claimed.decoder_bias, 1e-7),
        equal(end.encoder_bias, 0, 1e-5),
        equal(end.decoder_bias, 0, 1e-5),
        note="Eq. 43 prints its product in the wrong order (erratum E5)",
    )


def eq23(key: RandomKey, *, claim: Callable = stationarity) -> Evidence:
    """Gradient of Eq. 21 by finite differences, and its residual at the numerical optimum."""
    draw = generator(key)
    data, beta = covariance(4, draw), float(draw.uniform(0.2, 3))
    p = random_parameters(4, 2, key=key, scale=0.5)
    end = maximize(data, 2, beta, key=key)
    return every(
        equal(numerical_slope(p, data, beta).flat, claim(p, data, beta).flat, 1e-7),
        equal(claim(end, data, beta).flat, 0, 1e-6),
        note="the printed exponent loses a sum (erratum E3)",
    )


def _constant_variances(p: Parameters, beta: float) -> ndarray:
    """Eq. 23, last row: e_a = beta / ([D'D]_aa + beta), whatever x is."""
    return beta / (np.sum(p.decoder**2, axis=0) + beta)


def wsigma(key: RandomKey, *, claim: Callable = _constant_variances) -> Evidence:
    """Posterior variances at random x where the optimizer of all parameters ends."""
    draw = generator(key)
    data, beta = covariance(4, draw), float(draw.uniform(0.2, 0.4))
    end = maximize(data, 2, beta, key=key)
    points = draw.standard_normal((10, 4))
    variances = np.exp(points @ end.variance_weights.T + end.variance_bias)
    return every(
        equal(end.variance_weights, 0, 1e-4),
        equal(variances, claim(end, beta), 1e-6),
        equal(mean_variances(end, data), claim(end, beta), 1e-6),
        note="the input-dependent variance is idle (erratum E14)",
    )


CHECKS = {
    "prop1": prop1,
    "prop2": prop2,
    "prop3": prop3,
    "prop4": prop4,
    "eq14": eq14,
    "eq16": eq16,
    "fixed_decoder": fixed_decoder,
    "eq21": eq21,
    "eq22": eq22,
    "eq23": eq23,
    "wsigma": wsigma,
}
