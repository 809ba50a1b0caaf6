"""The precision game: least stochastic loss over V and sigma at a fixed budget of precision.

rolinek2019 Sec. 3.3 and 4. Sample i has Jacobian J_i V_i; its noise costs
`E||J_i V_i eps||^2 = sum_j ||c_ij||^2 s_ij^2`. Precision `C = -sum log s^2` is all that the
(polarized) KL charges for. Globally, `sum_i log` of the losses is
minimized at a fixed total C (Theorem 2); for one sample, the loss itself (Corollary 1).
"""

from dataclasses import dataclass

import numpy as np
import scipy.optimize
from jaxtyping import Float
from numpy import ndarray

from untwist.theory.draws import generator, orthogonal
from untwist.types import RandomKey


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: the loss, the rotations V_i and the variances s_ij^2."""

    loss: float
    rotations: Float[ndarray, "sample latent latent"]
    variances: Float[ndarray, "sample latent"]


def least_log_loss(jacobians: Float[ndarray, "sample pixel latent"], budget: float) -> float:
    """Returns the minimum of `sum_i log E||J_i V_i eps_i||^2` at total precision `budget`.

    `N log d - C/d + (2/d) sum_i log prod_j sv_j(J_i)`: rolinek2019, Theorem 2 and Eq. S40. It does
    not say how the budget is shared between samples: any share is as good (erratum E19).

    >>> least_log_loss(np.eye(2)[None], 0.0) == float(np.log(2))
    True
    """
    samples, _, latents = jacobians.shape
    volumes = np.sum(np.log(np.linalg.svd(jacobians, compute_uv=False)))
    return float(samples * np.log(latents) - budget / latents + 2 / latents * volumes)


def least_loss(jacobian: Float[ndarray, "pixel latent"], budget: float) -> float:
    """Returns the minimum of `E||J V eps||^2` at precision `budget`: d (prod sv^2 e^-C)^(1/d).

    Reference: rolinek2019, Corollary 1. Sec. 4 prints exp(-C) for exp(-C/2) (erratum E1).

    >>> round(least_loss(np.array([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]]), 0.0), 3)
    23.152
    """
    return float(np.exp(least_log_loss(jacobian[None], budget)))


def least_loss_unrotated(jacobian: Float[ndarray, "pixel latent"], budget: float) -> float:
    """Returns the least loss over the variances alone, V being the identity.

    `d (prod ||c_j||^2 e^-C)^(1/d)`, at `s_j^2` inversely proportional to `||c_j||^2`.

    >>> round(least_loss_unrotated(np.array([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]]), 0.0), 3)
    24.495
    """
    norms = np.sum(jacobian**2, axis=0)
    return float(len(norms) * np.exp((np.sum(np.log(norms)) - budget) / len(norms)))


@dataclass(frozen=True)
class _Chart:
    """Coordinates of the game around rotations `start`: V = start (I - A)^-1 (I + A), A skew."""

    start: ndarray
    grams: ndarray
    budget: float
    logarithm: bool

    @property
    def above(self) -> tuple[ndarray, ...]:
        return np.triu_indices(self.start.shape[1], 1)

    def unpack(self, vector: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Rotations, (I - A)^-1, and variances shifted onto the budget."""
        samples, latents = self.start.shape[:2]
        turns, logs = np.split(vector, [samples * len(self.above[0])])
        skew = np.zeros_like(self.start)
        skew[:, *self.above] = turns.reshape(samples, -1)
        skew -= skew.transpose(0, 2, 1)
        resolvent = np.linalg.inv(np.eye(latents) - skew)
        logs = logs - logs.mean() - self.budget / logs.size
        turned = self.start @ resolvent @ (np.eye(latents) + skew)
        return turned, resolvent, np.exp(logs).reshape(samples, latents)

    def loss(self, vector: ndarray) -> tuple[float, ndarray]:
        """The loss and its gradient."""
        turn, resolvent, variances = self.unpack(vector)
        stretched = self.grams @ turn
        norms = np.sum(turn * stretched, axis=1)
        losses = np.sum(norms * variances, axis=1)
        weight = (1 / losses if self.logarithm else np.ones_like(losses))[:, None]
        pull = 2 * weight[:, None] * stretched * variances[:, None, :]
        back = resolvent.transpose(0, 2, 1)
        slope = 2 * back @ self.start.transpose(0, 2, 1) @ pull @ back
        turns = (slope - slope.transpose(0, 2, 1))[:, *self.above]
        logs = weight * norms * variances
        total = np.sum(np.log(losses)) if self.logarithm else np.sum(losses)
        return float(total), np.concatenate([turns.ravel(), (logs - logs.mean()).ravel()])


def descend(
    jacobians: Float[ndarray, "sample pixel latent"],
    budget: float,
    *,
    key: RandomKey,
    logarithm: bool = True,
) -> Descent:
    """Returns where descent from a random start ends; knows nothing of the closed form.

    L-BFGS walks over rotations and log-variances, in a chart that is centered anew now and then.

    Args:
        jacobians: One Jacobian a sample.
        budget: Total precision, `-sum_ij log s_ij^2`.
        key: Decides the start.
        logarithm: Sum the logarithms of the losses (Theorem 2) rather than the losses.
    """
    samples, _, latents = jacobians.shape
    draw = generator(key)
    turn = np.stack([orthogonal(latents, draw) for _ in range(samples)])
    grams = np.einsum("spi,spj->sij", jacobians, jacobians)
    logs, flat = draw.standard_normal(samples * latents), samples * latents * (latents - 1) // 2
    loss, variances, options = np.inf, np.exp(logs), {"ftol": 1e-15, "gtol": 1e-10}
    for _ in range(20):
        chart = _Chart(turn, grams, budget, logarithm)
        first = np.concatenate([np.zeros(flat), logs])
        found = scipy.optimize.minimize(
            chart.loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 100, **options}
        )
        turn, _, variances = chart.unpack(found.x)
        logs, before, loss = np.log(variances).ravel(), loss, float(found.fun)
        if before - loss < 1e-13:
            break
    return Descent(loss, turn, variances)
