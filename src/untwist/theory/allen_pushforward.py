"""Checks of allen2024: push-forward densities, linear and with orthogonal Jacobian columns."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray

from untwist.theory.draws import frame, generator, orthogonal, signed_permutation, spectrum
from untwist.theory.evidence import Evidence, at_most, equal, every
from untwist.theory.pushforward import axis_log_densities, independence_gap, log_density
from untwist.theory.quadrature import gauss_average
from untwist.types import RandomKey

SHEAR = np.array([[1.0, 0.8], [0.0, 1.0]])


def spiral(code: ndarray) -> ndarray:
    """exp(z_1) (cos z_2, sin z_2): orthogonal columns, whose norms depend on z_1."""
    return np.exp(code[0]) * np.array([np.cos(code[1]), np.sin(code[1])])


def jacobian_of(decode: Callable[[ndarray], ndarray], code: ndarray) -> ndarray:
    """Returns the Jacobian by central differences, to about 1e-10."""
    step = 1e-5
    moves = step * np.eye(len(code))
    return np.stack([(decode(code + m) - decode(code - m)) / (2 * step) for m in moves], axis=1)


def _factor_variances(loadings: ndarray) -> ndarray:
    """Variances along the left singular vectors: squared singular values."""
    return np.linalg.svd(loadings, compute_uv=False) ** 2


def thm1(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _factor_variances) -> Evidence:
    """Push-forward density at random codes against independent Gaussians along U."""
    draw = generator(key)
    loadings, codes = draw.standard_normal((5, 3)), draw.standard_normal((10, 3))
    axes, variances = np.linalg.svd(loadings, full_matrices=False)[0], claim(loadings)
    along = codes @ loadings.T @ axes
    right = -0.5 * np.sum(along**2 / variances + np.log(2 * np.pi * variances), axis=1)
    left = [log_density(loadings, z) for z in codes]
    return equal(left, right, note="with sqrt det W'W for the printed |W| (erratum E10)")


def rem1(key: RandomKey, *, claim: Callable[[ndarray], ndarray] = _factor_variances) -> Evidence:
    """Second moments of u_i'x by quadrature: diagonal, with the claimed variances."""
    loadings = generator(key).standard_normal((5, 3))
    axes = np.linalg.svd(loadings, full_matrices=False)[0]

    def products(codes: ndarray) -> ndarray:
        along = codes @ loadings.T @ axes
        return along[:, :, None] * along[:, None, :]

    moments = gauss_average(products, np.zeros(3), np.eye(3), nodes=3)
    return equal(moments, np.diag(claim(loadings)))


def _chain(left: ndarray, singular: ndarray, right: ndarray) -> ndarray:
    """J V = U S: v_i goes to s_i u_i."""
    return left * singular


def rem2(key: RandomKey, *, claim: Callable[..., ndarray] = _chain) -> Evidence:
    """Directional derivatives of a nonlinear map along its right singular vectors."""
    draw = generator(key)
    weights, code = draw.standard_normal((4, 2)), draw.standard_normal(2)
    jacobian = (1 - np.tanh(weights @ code) ** 2)[:, None] * weights
    left, singular, right = np.linalg.svd(jacobian, full_matrices=False)
    moved = jacobian_of(lambda y: np.tanh(weights @ (code + right.T @ y)), np.zeros(2))
    return equal(moved, claim(left, singular, right), 1e-8)


def thm2(
    key: RandomKey, *, claim: Callable[[ndarray, ndarray], ndarray] = axis_log_densities
) -> Evidence:
    """Density of an orthogonal map against the product along its axes; a shear is a counterexample.

    For the shear the product falls short by the independence gap, which is not zero.
    """
    draw = generator(key)
    parts = []
    for code in draw.normal(size=(5, 2)):
        jacobian = jacobian_of(spiral, code)
        parts.append(equal(log_density(jacobian, code), np.sum(claim(jacobian, code)), 1e-8))
        sheared = jacobian @ SHEAR
        short = log_density(sheared, code) - np.sum(claim(sheared, code))
        parts += [equal(short, independence_gap(sheared)), at_most(0.1, short)]
    note = "column norms may change along a curve: only p(z_j) stays (erratum E12)"
    return every(*parts, note=note)


def _sinh_kurtosis() -> float:
    """E sinh^4 / (E sinh^2)^2 - 3 over N(0, 1), from exponential moments."""
    second, fourth = (np.exp(2) - 1) / 2, (np.exp(8) - 4 * np.exp(2) + 3) / 8
    return float(fourth / second**2 - 3)


def rem5(key: RandomKey, *, claim: Callable[[], float] = _sinh_kurtosis) -> Evidence:
    """Excess kurtosis along an axis of the separable map sinh, in a random frame."""
    axes = frame(4, 2, generator(key))

    def moment(power: int) -> float:
        def along(codes: ndarray) -> ndarray:
            return (np.sinh(codes) @ axes.T @ axes)[:, 0] ** power

        return float(gauss_average(along, np.zeros(2), np.eye(2), nodes=60))

    kurtosis = moment(4) / moment(2) ** 2 - 3
    return every(equal(kurtosis, claim(), 1e-8), at_most(1, kurtosis))


def cor21(key: RandomKey, *, claim: Callable[[ndarray], float] = independence_gap) -> Evidence:
    """Among rotations of the code of a separable map, only signed permutations will do."""
    draw = generator(key)
    axes, scale, code = frame(5, 3, draw), spectrum(3, draw), draw.standard_normal(3)

    def gap(turn: ndarray) -> float:
        decode = lambda z: axes @ (scale * np.sinh(turn @ z))  # noqa: E731
        return claim(jacobian_of(decode, turn.T @ code))

    return every(
        equal(gap(signed_permutation(3, draw)), 0, 1e-8),
        at_most(1e-4, [gap(orthogonal(3, draw)) for _ in range(10)]),
        note="checked among rotations only; trained nonlinear VAEs are a matter for studies",
    )


def _half_log_volume(jacobian: ndarray) -> float:
    return 0.5 * float(np.linalg.slogdet(jacobian.T @ jacobian)[1])


def sec323(key: RandomKey, *, claim: Callable[[ndarray], float] = _half_log_volume) -> Evidence:
    """Sum of log singular values at random points of an injective map."""
    draw = generator(key)
    weights = draw.standard_normal((5, 2))
    jacobians = [
        jacobian_of(lambda z: weights @ np.sinh(z) + np.tanh(weights @ z), z)
        for z in draw.standard_normal((10, 2))
    ]
    left = [np.sum(np.log(np.linalg.svd(j, compute_uv=False))) for j in jacobians]
    note = "where singular values repeat, their vectors are not continuous (erratum E22)"
    return equal(left, [claim(j) for j in jacobians], note=note)


CHECKS = {
    "thm1": thm1,
    "rem1": rem1,
    "rem2": rem2,
    "thm2": thm2,
    "rem5": rem5,
    "cor2.1": cor21,
    "sec3.2.3": sec323,
}
