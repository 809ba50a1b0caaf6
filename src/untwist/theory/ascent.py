"""Ascent to the optimum of the witness: L-BFGS, a trust region and Newton steps, along beta.

From a random start at a large beta, where the latents line up soonest, the optimum is followed down
to the wanted one. The closed form is not used.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse.linalg import aslinearoperator, minres

from untwist.theory.witness import (
    Parameters,
    averaged_objective,
    mean_variances,
    random_parameters,
    stationarity,
)
from untwist.types import RandomKey


@dataclass(frozen=True)
class Metric:
    """A linear change of coordinates that evens out the curvature at one point.

    It only decides in which metric descent walks: the objective keeps all its parameters.
    """

    left: Float[ndarray, "latent latent"]
    white: Float[ndarray, "pixel pixel"]
    right: Float[ndarray, "latent latent"]
    rows: Float[ndarray, " latent"]

    def apply(self, p: Parameters) -> Parameters:
        """Returns the model parameters at these even coordinates."""
        return Parameters(
            encoder=self.left @ p.encoder @ self.white,
            decoder=p.decoder @ self.right,
            variance_weights=self.rows[:, None] * p.variance_weights @ self.white,
            variance_bias=self.rows * p.variance_bias,
            encoder_bias=self.left @ p.encoder_bias,
            decoder_bias=p.decoder_bias,
        )

    @property
    def adjoint(self) -> "Metric":
        """The map that takes gradients the other way."""
        return Metric(self.left.T, self.white.T, self.right.T, self.rows)

    @property
    def inverse(self) -> "Metric":
        """The map from model parameters to even coordinates."""
        left, white, right = (np.linalg.inv(m) for m in (self.left, self.white, self.right))
        return Metric(left, white, right, 1 / self.rows)


def even_metric(
    p: Parameters, covariance: Float[ndarray, "pixel pixel"], beta: float, variance: float
) -> Metric:
    """Returns the metric in which each block of the Hessian at `p` is about the identity."""
    spread = mean_variances(p, covariance)
    code = p.encoder @ covariance @ p.encoder.T + np.diag(spread)
    stiffness = p.decoder.T @ p.decoder / variance + beta * np.eye(len(spread))
    return Metric(
        left=np.linalg.inv(np.linalg.cholesky(stiffness)).T,
        white=np.linalg.inv(np.linalg.cholesky(covariance)),
        right=np.linalg.inv(np.linalg.cholesky(code / variance)),
        rows=1 / np.sqrt(0.5 * np.diag(stiffness) * spread),
    )


def maximize(
    covariance: Float[ndarray, "pixel pixel"],
    latents: int,
    beta: float,
    *,
    variance: float = 1.0,
    key: RandomKey,
) -> Parameters:
    """Returns the parameters where ascent from a random start ends.

    Args:
        covariance: Covariance of the data, positive definite.
        latents: Latent size k.
        beta: Weight of the KL term.
        variance: Likelihood variance s^2.
        key: Decides the start.
    """
    here = random_parameters(len(covariance), latents, key=key)
    first = max(beta, 0.1 * float(np.trace(covariance)) / latents)
    steps = 1 + int(np.ceil(np.log(first / beta) / np.log(4)))
    for weight in np.geomspace(first, beta, steps):
        here = _ascend(here, covariance, float(weight), variance)
    climb = _Climb(here, covariance, beta, variance)
    return climb.parameters(_polish(climb, climb.start))


def _ascend(here: Parameters, covariance: ndarray, beta: float, variance: float) -> Parameters:
    """L-BFGS, in a metric that is renewed until the slope is small."""
    for _ in range(20):
        climb = _Climb(here, covariance, beta, variance)
        found = scipy.optimize.minimize(
            climb.loss,
            climb.start,
            jac=climb.slope,
            method="L-BFGS-B",
            options={"maxiter": 200, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-4},
        )
        here = climb.parameters(found.x)
        if found.success:
            break
    climb = _Climb(here, covariance, beta, variance)
    found = scipy.optimize.minimize(
        climb.loss,
        climb.start,
        jac=climb.slope,
        hessp=climb.curvature,
        method="trust-ncg",
        options={"maxiter": 300, "gtol": 1e-8},
    )
    return climb.parameters(found.x)


@dataclass(frozen=True)
class _Climb:
    """The negated objective, its slope and its curvature in the even metric of one point."""

    here: Parameters
    covariance: ndarray
    beta: float
    variance: float

    @cached_property
    def metric(self) -> Metric:
        return even_metric(self.here, self.covariance, self.beta, self.variance)

    @property
    def start(self) -> ndarray:
        return self.metric.inverse.apply(self.here).flat

    def parameters(self, vector: ndarray) -> Parameters:
        return self.metric.apply(self.here.unflatten(vector))

    def loss(self, vector: ndarray) -> float:
        return -averaged_objective(
            self.parameters(vector), self.covariance, self.beta, self.variance
        )

    def slope(self, vector: ndarray) -> ndarray:
        gradient = stationarity(self.parameters(vector), self.covariance, self.beta, self.variance)
        return -self.metric.adjoint.apply(gradient).flat

    def curvature(self, vector: ndarray, direction: ndarray) -> ndarray:
        step = 1e-5 / max(float(np.linalg.norm(direction)), 1e-300)
        ahead, behind = vector + step * direction, vector - step * direction
        return (self.slope(ahead) - self.slope(behind)) / (2 * step)


@dataclass(frozen=True)
class _Curvature:
    """The Hessian at one point, as SciPy's iterative solvers take it."""

    climb: _Climb
    vector: ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.vector), len(self.vector)

    @property
    def dtype(self) -> np.dtype:
        return self.vector.dtype

    def matvec(self, direction: ndarray) -> ndarray:
        return self.climb.curvature(self.vector, direction)


def _polish(climb: _Climb, vector: ndarray) -> ndarray:
    """Newton steps to a root of the slope: below the rounding of the objective."""
    for _ in range(4):
        here = climb.slope(vector)
        hessian = aslinearoperator(_Curvature(climb, vector))
        move = minres(hessian, -here, rtol=1e-8, maxiter=1000)[0]
        if np.linalg.norm(climb.slope(vector + move)) >= np.linalg.norm(here):
            break
        vector = vector + move
    return vector
