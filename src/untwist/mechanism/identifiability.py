"""How far the objective leaves axes free: rolinek2019's degeneracy of equal variances, measured."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.types import AnyArray, InputError

TOLERANCE = 0.01
"""Nats an item of KL that a turn may cost without anything in training noticing."""

WARN_ANGLE = np.pi / 12
"""From this free angle (15 degrees) on, a pair of axes is called undetermined."""

STEPS = 90


@dataclass(frozen=True)
class FreeAngles:
    """For each pair of latents, how far they can turn into each other almost for free.

    Attributes:
        angles: Half-width in radians of the interval around the axes in which a turn costs less
            than the tolerance; pi/4 is complete freedom, since a turn by pi/2 only swaps the two.
        costs: What the costliest turn of each pair costs, in nats of KL an item.
        tolerance: The cost that counted as nothing.
    """

    angles: Float[ndarray, "latent latent"]
    costs: Float[ndarray, "latent latent"]
    tolerance: float

    def undetermined(self, angle: float = WARN_ANGLE) -> list[tuple[int, int]]:
        """Returns the pairs whose axes are free by at least this angle."""
        rows, columns = np.nonzero(np.triu(self.angles >= angle, 1))
        return list(zip(rows.tolist(), columns.tolist(), strict=True))


def turn_cost(
    gram: Float[AnyArray, "item 2 2"], angles: Float[AnyArray, " angle"], *, floor: float = 0.0
) -> Float[ndarray, " angle"]:
    """Returns what turning two latents costs, in nats of KL an item, beside not turning them.

    With the posterior's noise at its optimum the objective is, up to constants, half the log of
    each column's squared norm: `mean_i sum_j log(floor + ||c_ij(angle)||^2) / 2` (rolinek2019, Eq.
    27). For fixed orthogonal columns of squared norms a and b that is `log(1 + (a - b)^2
    sin^2(2 angle) / (4 a b)) / 2`.

    Args:
        gram: Gram matrices of the two columns, for latents of unit variance.
        angles: Turns.
        floor: beta over the curvature: the squared norm at which a latent collapses.

    >>> gram = np.diag([4.0, 1.0])[None]
    >>> turn_cost(gram, np.array([0.0, np.pi / 4])).round(6).tolist()
    [0.0, 0.223144]
    """
    gram = np.asarray(gram, np.float64)
    first, second, cross = gram[:, 0, 0], gram[:, 1, 1], gram[:, 0, 1]
    cosine, sine = np.cos(2 * angles), np.sin(2 * angles)
    half, difference = (first + second) / 2, (first - second) / 2
    swing = np.outer(cosine, difference) + np.outer(sine, cross)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(half + floor + swing, tiny)) + np.log(
        np.maximum(half + floor - swing, tiny)
    )
    start = np.log(np.maximum(first + floor, tiny)) + np.log(np.maximum(second + floor, tiny))
    return 0.5 * (logs - start).mean(1)


def free_angles(
    gram: AnyArray,
    *,
    floor: float = 0.0,
    tolerance: float = TOLERANCE,
) -> FreeAngles:
    """Returns by what angle each pair of latents is left free by the objective.

    The Gram matrices must be those of latents of unit variance, which is what the KL makes of a
    VAE's active latents; scale others by their standard deviations first. Two latents of equal
    singular values can turn freely (rolinek2019, Sec. 9.2); how near to equal is near enough
    depends on what training can tell, which is what `tolerance` states.

    Args:
        gram: J'J, or D'A^2D, [item, latent, latent].
        floor: beta for D'A^2D: the squared norm at which a latent collapses.
        tolerance: Nats of KL an item that count as nothing.

    >>> bool(free_angles(np.eye(2)[None]).angles[0, 1] == np.pi / 4)
    True
    """
    gram = np.asarray(gram, np.float64)
    if gram.ndim != 3 or gram.shape[1] != gram.shape[2]:
        raise InputError(f"expected Gram matrices (item, latent, latent), but got {gram.shape}")
    latents = gram.shape[-1]
    angles, costs = np.zeros((latents, latents)), np.zeros((latents, latents))
    turns = np.linspace(0, np.pi / 4, STEPS + 1)
    for i in range(latents):
        for j in range(i + 1, latents):
            pair = gram[:, [i, j]][:, :, [i, j]]
            both = np.stack([turn_cost(pair, sign * turns, floor=floor) for sign in (1, -1)])
            # The pair is at its axes where the cost is least; it is free as far as both ways allow.
            angles[i, j] = angles[j, i] = min(_reach(cost, turns, tolerance) for cost in both)
            costs[i, j] = costs[j, i] = max(both.max(), 0.0)
    return FreeAngles(angles, costs, tolerance)


def _reach(cost: Float[ndarray, " angle"], turns: Float[ndarray, " angle"], limit: float) -> float:
    """The first angle at which the cost passes the limit, between grid points; else the last."""
    above = np.flatnonzero(cost > limit)
    if not len(above):
        return float(turns[-1])
    last = above[0]
    share = (limit - cost[last - 1]) / (cost[last] - cost[last - 1])
    return float(turns[last - 1] + share * (turns[last] - turns[last - 1]))
