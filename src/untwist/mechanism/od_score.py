"""The orthogonality deviation score of bhowal2024: right, and as its released code computes it."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.orthogonality import distance_to_orthogonality, nearest_axes
from untwist.types import AnyArray, InputError


def od_score(matrices: AnyArray) -> Float[ndarray, " model"]:
    """Returns the orthogonality deviation of each model's local matrices M, beside the others'.

    `(d_U + d_S + d_V) / 3` with `d_X = ||X - X^||_F^2` over the largest among the models at the
    same item, averaged over items. M = U S V'; U^ is the polar factor M (M'M)^(-1/2) = U V', S^ the
    column norms and V^ the identity, all brought to the order and signs in which V is nearest to
    the identity, since singular vectors have none of their own (erratum E36). Prop. 7 prints the
    exponent 1/2 (erratum E1). As ||U - U V'|| = ||I - V||, the score counts V twice (erratum E35).

    It compares models: the worst of them at one item scores 1, and a model alone scores 1 unless
    it is orthogonal. Range 0 to 1, lower is more orthogonal.

    Args:
        matrices: One matrix a model, or one a model and item.

    Reference: bhowal2024, Sec. 4.4 and A.8.3.

    >>> od_score(np.array([[[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [1.0, 1.0]]])).tolist()
    [0.0, 1.0]
    """
    stack = _checked(matrices)
    _, values, rows = np.linalg.svd(stack, full_matrices=False)
    vectors = rows.swapaxes(-1, -2)
    turn = distance_to_orthogonality(vectors) ** 2
    norms = np.take_along_axis(np.linalg.norm(stack, axis=-2), nearest_axes(vectors), axis=-1)
    shift = np.sum((values - norms) ** 2, axis=-1)
    return (2 * _relative(turn) + _relative(shift)).mean(-1) / 3


def od_score_released(
    matrices: Float[AnyArray, "model pixel latent"], *, relative: bool = False
) -> Float[ndarray, " model"]:
    """Returns the score as the released code of bhowal2024 computes it; it is not the paper's.

    The "nearest orthogonal matrix" there is M times the elementwise square root of (M'M)^-1 with
    negative entries set to zero; U, S and V' of M are compared with U and S of that matrix and with
    the identity by norms that are not squared, in the order and signs that the decomposition
    happens to give. An orthogonal matrix need not score 0.

    Args:
        matrices: One matrix a model.
        relative: Divide each part by its largest value among the models, as its `--norm` does.

    Reference: the repository named under [released_code] in published/bhowal2024.toml,
        Experiment2.py.

    >>> od_score_released(np.array([[[2.0, 0.0], [0.0, 1.0]]])).round(4).tolist()
    [0.3333]
    """
    parts = np.array([_released_parts(matrix) for matrix in np.asarray(matrices, np.float64)])
    if relative:
        parts = parts / np.maximum(parts.max(0), np.finfo(float).tiny)
    return parts.mean(1)


def _released_parts(matrix: ndarray) -> list[float]:
    """Unsquared distances of U, S and V'."""
    inverse = np.linalg.inv(matrix.T @ matrix)
    near = matrix @ np.sqrt(np.where(inverse < 0, 0, inverse))
    left, values, rows = np.linalg.svd(matrix)
    near_left, near_values, _ = np.linalg.svd(near)
    pairs = ((near_left, left), (near_values, values), (np.eye(len(rows)), rows))
    return [float(np.linalg.norm(a - b)) for a, b in pairs]


def _checked(matrices: AnyArray) -> Float[ndarray, "model item pixel latent"]:
    """Matrices as [model, item, pixel, latent], of full rank."""
    stack = np.asarray(matrices, np.float64)
    if stack.ndim not in (3, 4) or not np.isfinite(stack).all():
        raise InputError(
            "the OD score compares finite matrices of shape (model, pixel, latent) or (model, "
            f"item, pixel, latent), but got {stack.shape}"
        )
    return stack[:, None] if stack.ndim == 3 else stack


def _relative(part: Float[ndarray, "model item"]) -> Float[ndarray, "model item"]:
    """A part over its largest value among the models; 0 where rounding is all there is."""
    worst = part.max(0)
    return np.where(worst > 1e-12, part / np.where(worst > 1e-12, worst, 1), 0.0)
