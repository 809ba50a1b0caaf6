"""Checks of rolinek2019: Theorem 2, Corollary 1 and the worked examples of the precision game."""

from collections.abc import Callable

import jax
import numpy as np
from numpy import ndarray

from untwist.theory.draws import generator, orthogonal
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.precision import (
    descend,
    least_log_loss,
    least_loss,
    least_loss_unrotated,
)
from untwist.types import RandomKey

M1 = np.array([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]])
M2 = M1 @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)  # latents rotated by 45 degrees


def _starts(
    jacobians: ndarray, budget: float, key: RandomKey, *, logarithm: bool
) -> list[Evidence]:
    """Descents from 20 starts: orthogonal columns, and noise that costs the same on each."""
    parts, losses = [], []
    for start in jax.random.split(key, 20):
        end = descend(jacobians, budget, key=start, logarithm=logarithm)
        turned = jacobians @ end.rotations
        grams = np.einsum("spi,spj->sij", turned, turned)
        norms = np.einsum("sii->si", grams)
        scale = np.sqrt(norms[:, :, None] * norms[:, None, :])
        costs = norms * end.variances
        losses.append(end.loss)
        parts += [
            equal(grams / scale, np.broadcast_to(np.eye(len(grams[0])), grams.shape), 1e-5),
            equal(costs / costs.mean(axis=1, keepdims=True), 1, 1e-5),
        ]
    return [*parts, equal(losses, np.mean(losses), 1e-6)]


def thm2(key: RandomKey, *, claim: Callable[[ndarray, float], float] = least_log_loss) -> Evidence:
    """Descent over rotations and variances of three samples: every start reaches the minimum."""
    draw = generator(key)
    jacobians, budget = draw.standard_normal((3, 5, 3)), float(draw.uniform(3, 12))
    end = descend(jacobians, budget, key=key)
    return every(
        *_starts(jacobians, budget, key, logarithm=True),
        equal(end.loss, claim(jacobians, budget), 1e-6),
        note="the share of the budget between samples is free (erratum E19)",
    )


def cor1(key: RandomKey, *, claim: Callable[[ndarray, float], float] = least_loss) -> Evidence:
    """The same for one sample, without the logarithm."""
    draw = generator(key)
    jacobian, budget = draw.standard_normal((5, 3)), float(draw.uniform(1, 4))
    end = descend(jacobian[None], budget, key=key, logarithm=False)
    return every(
        *_starts(jacobian[None], budget, key, logarithm=False),
        equal(end.loss, claim(jacobian, budget), 1e-6),
    )


def _share(matrix: ndarray, budget: float) -> tuple[float, float]:
    """Least cost over the share of precision between two latents, by grid; and the best ratio."""
    norms = np.sum(matrix**2, axis=0)
    halves = np.linspace(-3, 3, 600001)  # log(s_x^2 / s_y^2) / 2
    losses = np.exp(-budget / 2) * (norms[0] * np.exp(halves) + norms[1] * np.exp(-halves))
    best = int(np.argmin(losses))
    return float(losses[best]), float(np.exp(2 * halves[best]))


def _first(budget: float) -> float:
    """Eq. 25 with its exponent corrected (erratum E1)."""
    return 2 * np.sqrt(50 * 3) * np.exp(-budget / 2)


def eq25(key: RandomKey, *, claim: Callable[[float], float] = _first) -> Evidence:
    """Least cost of noise on M1 by grid search, at several budgets."""
    budgets = generator(key).uniform(0.5, 4, 3)
    note = "24.495 exp(-C/2), where the paper prints exp(-C) (erratum E1)"
    return every(
        *(equal(_share(M1, c)[0], claim(c), 1e-8) for c in budgets),
        *(equal(least_loss_unrotated(M1, c), claim(c)) for c in budgets),
        equal(np.sum(M1**2, axis=0), [50, 3]),
        equal(_share(M1, budgets[0])[1], 3 / 50, 1e-5),
        note=note,
    )


def _second(budget: float) -> float:
    """Eq. 26 with its exponent corrected (erratum E1)."""
    return 2 * np.sqrt(30.5 * 22.5) * np.exp(-budget / 2)


def eq26(key: RandomKey, *, claim: Callable[[float], float] = _second) -> Evidence:
    """The same on M2, whose latents are rotated by 45 degrees."""
    budgets = generator(key).uniform(0.5, 4, 3)
    note = "52.393 exp(-C/2), where the paper prints exp(-C) (erratum E1)"
    return every(
        *(equal(_share(M2, c)[0], claim(c), 1e-8) for c in budgets),
        equal(np.sort(np.sum(M2**2, axis=0)), [22.5, 30.5]),
        equal(least_loss_unrotated(M2, 0.0) / least_loss_unrotated(M1, 0.0), 2.139, 5e-4),
        note=note,
    )


def _best_angle(budget: float) -> float:
    """2 sqrt(det M1'M1) exp(-C/2)."""
    return 2 * np.sqrt(134) * np.exp(-budget / 2)


def eq25b(key: RandomKey, *, claim: Callable[[float], float] = _best_angle) -> Evidence:
    """Least cost over a scan of all rotations of M1."""
    budget = float(generator(key).uniform(0.5, 4))
    angles = np.linspace(0, np.pi, 20001)
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    costs = [least_loss_unrotated(M1 @ turn, budget) for turn in turns.transpose(2, 0, 1)]
    return every(
        equal(min(costs), claim(budget), 1e-6),
        equal(least_loss(M1, budget), claim(budget)),
        equal(max(costs) * np.exp(budget / 2), 53.0, 1e-6),
        note="so M1 is good but not best (erratum E4)",
    )


def _balanced(costs: ndarray) -> float:
    """Returns d (prod_j ||c_j||^2 s_j^2)^(1/d)."""
    return len(costs) * float(np.exp(np.mean(np.log(costs))))


def prop_s5(key: RandomKey, *, claim: Callable[[ndarray], float] = _balanced) -> Evidence:
    """Lower bound of the stochastic loss, met when every latent's noise costs the same."""
    draw = generator(key)
    norms = np.sum((draw.standard_normal((6, 4)) @ orthogonal(4, draw)) ** 2, axis=0)
    variances = draw.uniform(0.01, 1, (50, 4))
    level = np.full(4, 0.3)
    return every(
        at_most([claim(norms * s) for s in variances], variances @ norms),
        equal(claim(level), np.sum(level)),
    )


def _reach(larger: float, smaller: float) -> float:
    """How far t may go: a_i / a_j - 1."""
    return larger / smaller - 1


def lem_s4(key: RandomKey, *, claim: Callable[[float, float], float] = _reach) -> Evidence:
    """Sum of a_i/(1+t) and a_j (1+t): below a_i + a_j up to the reach, equal there, above after."""
    draw = generator(key)
    small = draw.uniform(0.1, 1, 20)
    large = small * draw.uniform(1.2, 5, 20)
    reach = np.array([claim(a, b) for a, b in zip(large, small, strict=True)])

    def change(t: ndarray) -> ndarray:
        return large / (1 + t) + small * (1 + t) - large - small

    return every(
        at_most(change(0.99 * reach), -1e-6, 0.0),
        equal(change(reach), 0.0),
        at_most(1e-6, change(1.01 * reach), 0.0),
    )


CHECKS = {
    "thm2": thm2,
    "cor1": cor1,
    "eq25": eq25,
    "eq26": eq26,
    "eq25b": eq25b,
    "propS5": prop_s5,
    "lemS4": lem_s4,
}
