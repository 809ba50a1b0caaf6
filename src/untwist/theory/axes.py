"""Principal axes of a covariance, what makes a covariance one, and which axes are determined."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.types import InputError


def check_covariance(covariance: Float[ndarray, "rows columns"]) -> None:
    """Raises unless the matrix is finite, square, symmetric and positive semidefinite."""
    if covariance.shape[0] != covariance.shape[1]:
        raise InputError(
            f"a covariance is square, but got shape {covariance.shape}: give data as rows instead"
        )
    if not np.all(np.isfinite(covariance)):
        raise InputError("the covariance holds values that are not finite: clean the data first")
    scale = max(float(np.abs(covariance).max(initial=0.0)), 1e-300)
    if np.abs(covariance - covariance.T).max(initial=0.0) > 1e-8 * scale:
        raise InputError(
            "a covariance is symmetric, but its two triangles differ by more than 1e-8"
        )
    lowest = float(np.linalg.eigvalsh(covariance)[0])
    if lowest < -1e-8 * scale * len(covariance):
        raise InputError(f"a covariance has no negative eigenvalue, but got {lowest:.3g}")


def principal_axes(
    covariance: Float[ndarray, "pixel pixel"],
) -> tuple[Float[ndarray, " pixel"], Float[ndarray, "pixel pixel"]]:
    """Returns eigenvalues, largest first, and the axes as columns.

    The sign of an axis is free; here its largest entry is positive. An eigenvalue that is zero up
    to rounding is zero.

    >>> values, axes = principal_axes(np.diag([1.0, 4.0]))
    >>> values.tolist(), axes.tolist()
    ([4.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    """
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    rounding = len(values) * np.finfo(float).eps * values.max(initial=0.0)
    values = np.where(values > rounding, values, 0.0)
    largest = np.argmax(np.abs(vectors).round(12), axis=0)
    signs = np.sign(vectors[largest, np.arange(len(values))])
    return values, vectors * signs + 0.0


def equal_groups(values: Float[ndarray, " latent"], tolerance: float = 1e-9) -> list[list[int]]:
    """Returns runs of indices whose values, sorted downwards, are equal up to a relative gap.

    Args:
        values: Numbers, largest first.
        tolerance: Two neighbors belong together when the second is at least `1 - tolerance`
            times the first.

    >>> equal_groups(np.array([3.0, 2.0, 2.0, 1.0]))
    [[0], [1, 2], [3]]
    """
    groups: list[list[int]] = []
    for index, value in enumerate(values):
        previous = values[index - 1] if index else np.inf
        if index and value >= (1 - tolerance) * previous:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
