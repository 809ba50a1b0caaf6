"""Checks of allen2024: the deterministic ELBO, Hessians, posterior covariance, plateaus."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.optimize
from numpy import ndarray

from untwist.theory.draws import covariance, generator, orthogonal
from untwist.theory.evidence import Evidence, at_most, equal, every, order_of
from untwist.theory.gaussian import kl_to_prior
from untwist.theory.hessian import (
    best_covariance,
    best_variances,
    deterministic_elbo,
    likelihood_hessian,
    ramp_cost,
    slope_penalty,
)
from untwist.theory.quadrature import gauss_average
from untwist.theory.sikka_gaussian import log_normal
from untwist.types import RandomKey


def eq5(key: RandomKey, *, claim: Callable[..., float] = deterministic_elbo) -> Evidence:
    """ELBO by quadrature: equal for a linear decoder, off by fourth order in s for tanh."""
    draw = generator(key)
    weights, items, mean = 0.7 * draw.standard_normal((3, 2)), draw.normal(size=(8, 3)), np.ones(2)
    spread, beta = 0.01 * covariance(2, draw), 0.7

    def error(bent: bool, scale: float, x: ndarray) -> float:
        decode = np.tanh if bent else np.asarray
        cut = scale**2 * spread
        true = gauss_average(
            lambda z: log_normal(x, decode(z @ weights.T), np.eye(3)),
            mean,
            np.linalg.cholesky(cut),
        )
        out = decode(weights @ mean)
        slope = 1 - out**2 if bent else np.ones(3)
        bend = -2 * out * slope if bent else np.zeros(3)
        bends = bend[:, None, None] * weights[:, :, None] * weights[:, None, :]
        hessian = likelihood_hessian(slope[:, None] * weights, bends, np.ones(3), x - out)
        at_mean = log_normal(x, out, np.eye(3)).item()
        return (
            float(true)
            - beta * kl_to_prior(mean, cut)
            - claim(at_mean, hessian, mean, cut, beta=beta)
        )

    errors = [[error(True, scale, x) for x in items] for scale in (0.5, 0.25)]
    return every(
        equal([error(False, 1.0, x) for x in items], 0),
        equal(order_of(errors), 4, 0.05),
        note="exact when linear; else error of order s^4 (Eq. 5 misplaces a bracket, erratum E6)",
    )


def _network(draw: np.random.Generator) -> tuple[ndarray, ndarray, ndarray]:
    return draw.standard_normal((4, 2)), draw.standard_normal(2), draw.integers(0, 2, 4) * 1.0


def _hessian_of(log_likelihood: Callable, code: ndarray) -> ndarray:
    """Hessian by automatic differentiation in float64."""
    with jax.enable_x64(True):
        return np.asarray(jax.hessian(log_likelihood)(jnp.asarray(code)))


def eq6(key: RandomKey, *, claim: Callable[..., ndarray] = likelihood_hessian) -> Evidence:
    """Automatic differentiation of Gaussian and Bernoulli likelihoods under a tanh decoder."""
    weights, code, x = _network(generator(key))
    out = np.tanh(weights @ code)
    jacobian = (1 - out**2)[:, None] * weights
    bends = (-2 * out * (1 - out**2))[:, None, None] * weights[:, :, None] * weights[:, None, :]
    chance = 1 / (1 + np.exp(-out))
    gaussian = _hessian_of(lambda z: -jnp.sum((x - jnp.tanh(weights @ z)) ** 2) / 0.6, code)
    bernoulli = _hessian_of(
        lambda z: (
            (x - 1) @ jnp.tanh(weights @ z) - jnp.sum(jnp.log1p(jnp.exp(-jnp.tanh(weights @ z))))
        ),
        code,
    )
    return every(
        equal(gaussian, claim(jacobian, bends, np.full(4, 1 / 0.3), (x - out) / 0.3)),
        equal(bernoulli, claim(jacobian, bends, chance * (1 - chance), x - chance)),
        note="with the decoder's Hessian in the second term (errata E7, E8)",
    )


def eq7(key: RandomKey, *, claim: Callable[[ndarray, float], ndarray] = best_variances) -> Evidence:
    """Numerical maximum of the deterministic ELBO over diagonal and over full covariances."""
    draw = generator(key)
    hessian, beta = -2 * covariance(2, draw), float(draw.uniform(0.5, 2))

    def loss(logs: ndarray) -> float:
        return -deterministic_elbo(0.0, hessian, np.zeros(2), np.diag(np.exp(logs)), beta=beta)

    diagonal = np.exp(scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12).x)
    full, move = best_covariance(hessian, beta), draw.standard_normal((50, 2, 2))
    nearby = full + 0.02 * (move + move.transpose(0, 2, 1)) * np.linalg.eigvalsh(full)[0]
    values = [deterministic_elbo(0.0, hessian, np.zeros(2), s, beta=beta) for s in nearby]
    return every(
        equal(diagonal, claim(hessian, beta), 1e-6),
        at_most(values, deterministic_elbo(0.0, hessian, np.zeros(2), full, beta=beta)),
        note="the diagonal optimum is not the diagonal of the full one (erratum E9)",
    )


def _sorted_pairing(hessian: ndarray, spread: ndarray) -> float:
    """Returns von Neumann's bound, eigenvalues and variances paired in order (erratum E15)."""
    return float(np.sort(hessian) @ np.sort(spread))


def thm4(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], float] = _sorted_pairing
) -> Evidence:
    """tr(V T V' S) over random rotations and all permutations, in random order."""
    draw = generator(key)
    values, spread = -draw.uniform(0.5, 3, 3), np.sort(draw.uniform(0.1, 1, 3))
    values = np.sort(values)[::-1]  # so that the identity is the worst pairing, not the best
    turned = [
        np.sum((turn * values * turn) @ np.ones(3) * spread)
        for turn in (orthogonal(3, draw) for _ in range(200))
    ]
    permuted = [values[list(p)] @ spread for p in itertools.permutations(range(3))]
    return every(
        at_most(turned, claim(values, spread)),
        equal(max(permuted), claim(values, spread)),
        note="a permutation, not V = I; |T||S| is not attained (erratum E15)",
    )


def _tied(values: ndarray, beta: float) -> float:
    """-(beta/2) sum log(1 - t_i/beta), the value at diagonal H."""
    return -0.5 * beta * float(np.sum(np.log(1 - values / beta)))


def thm5(key: RandomKey, *, claim: Callable[[ndarray, float], float] = _tied) -> Evidence:
    """Deterministic ELBO at its best diagonal S over random rotations of H, and at V = I."""
    draw = generator(key)
    values, beta = -draw.uniform(0.5, 9, 3), float(draw.uniform(0.5, 2))

    def best(turn: ndarray) -> float:
        hessian = turn @ np.diag(values) @ turn.T
        spread = np.diag(best_variances(hessian, beta))
        return deterministic_elbo(0.0, hessian, np.zeros(3), spread, beta=beta)

    turned = [best(orthogonal(3, draw)) for _ in range(200)]
    return every(at_most(turned, claim(values, beta)), equal(best(np.eye(3)), claim(values, beta)))


def eq14(key: RandomKey, *, claim: Callable[[ndarray, float], ndarray] = slope_penalty) -> Evidence:
    """Penalty of a singular value at its best variance, and of ramps ever steeper.

    Between two plateaus a rise of one within width w is charged over w only: once steep, a ramp is
    the cheaper the steeper, and a jump beats the gentle slope from end to end.
    """
    beta = float(generator(key).uniform(0.3, 2))
    slopes = np.array([0.3, 1.0, 3.0, 30.0])
    found = []
    for slope in slopes:

        def loss(log: float, slope: float = float(slope)) -> float:
            spread = np.array([[np.exp(log)]])
            return -deterministic_elbo(
                0.0, np.array([[-(slope**2)]]), np.zeros(1), spread, beta=beta
            )

        found.append(scipy.optimize.minimize_scalar(loss, bounds=(-15, 2), method="bounded").fun)
    widths = np.array([1.0, 0.3, 0.1, 1e-4]) / np.sqrt(4 * beta)  # slope^2 at least 4 beta
    costs = [
        scipy.integrate.quad(lambda _, w=w: float(claim(np.array(1 / w), beta)), 0, w)[0]
        for w in widths
    ]
    return every(
        equal(found, claim(slopes, beta), 1e-6),
        equal(costs, [ramp_cost(w, beta) for w in widths]),
        at_most(np.diff(costs), -1e-6, 0.0),
        at_most(costs[-1], ramp_cost(1.0, beta) - 1e-2, 0.0),
        note="logarithmic and unbounded, where Eq. 14 prints a bounded term (erratum E19)",
    )


def _softplus_error(steepness: float) -> float:
    """Largest distance of softplus to relu: log(2)/tau, at zero."""
    return float(np.log(2)) / steepness


def a3(key: RandomKey, *, claim: Callable[[float], float] = _softplus_error) -> Evidence:
    """Largest difference on a fine grid, at a random steepness and at 100."""
    steepness = [float(generator(key).uniform(2, 50)), 100.0]
    x = np.linspace(-3, 3, 60001)
    left = [np.max(np.logaddexp(0, t * x) / t - np.maximum(x, 0)) for t in steepness]
    return equal(left, [claim(t) for t in steepness])


def _flat_hessian(jacobian: ndarray, curvature: ndarray) -> ndarray:
    """A.4: -D' B D, as a piecewise linear decoder has no second derivative."""
    return -jacobian.T @ np.diag(curvature) @ jacobian


def a4(key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = _flat_hessian) -> Evidence:
    """Automatic differentiation of both likelihoods under a relu decoder."""
    draw = generator(key)
    weights, code, x = _network(draw)
    head = draw.standard_normal((5, 4))
    x = np.append(x, 0.0)
    hidden = weights @ code
    jacobian = head @ ((hidden > 0)[:, None] * weights)
    chance = 1 / (1 + np.exp(-head @ np.maximum(hidden, 0)))

    def decode(z: Any) -> Any:
        return head @ jnp.maximum(weights @ z, 0)

    def bernoulli(z: Any) -> Any:
        log_one, log_zero = -jnp.logaddexp(0, -decode(z)), -jnp.logaddexp(0, decode(z))
        return x @ log_one + (1 - x) @ log_zero

    gaussian = _hessian_of(lambda z: -jnp.sum((x - decode(z)) ** 2) / 0.8, code)
    return every(
        equal(gaussian, claim(jacobian, np.full(5, 1 / 0.4))),
        equal(_hessian_of(bernoulli, code), claim(jacobian, chance * (1 - chance))),
        note="the Bernoulli likelihood with both of its terms (erratum E21)",
    )


CHECKS = {
    "eq5": eq5,
    "eq6": eq6,
    "eq7": eq7,
    "thm4": thm4,
    "thm5": thm5,
    "eq14": eq14,
    "a3": a3,
    "a4": a4,
}
