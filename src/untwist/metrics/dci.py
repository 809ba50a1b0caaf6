"""DCI: disentanglement, completeness and informativeness of a matrix of importances."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import entr

from untwist.metrics.importance import Importance
from untwist.metrics.record import NotApplicable, Score


def _focus(matrix: Float[ndarray, "row column"]) -> Float[ndarray, " row"]:
    """1 - entropy of each row, in units of an even row's entropy; 0 for an empty row."""
    total = matrix.sum(1, keepdims=True)
    shares = matrix / np.where(total > 0, total, 1.0)
    focus = 1 - entr(shares).sum(1) / np.log(matrix.shape[1])
    return np.where(total[:, 0] > 0, focus, 0.0)


def _weighted(focus: Float[ndarray, " row"], mass: Float[ndarray, " row"]) -> float:
    return float((focus * mass).sum() / mass.sum()) if mass.sum() > 0 else 0.0


def dci_disentanglement(importances: Importance) -> Score:
    r"""Returns D: whether each latent matters to one factor only.

    D = sum over latents of rho_j (1 - H_F(R_j / sum_k R_jk)), with entropy in base F and rho_j
    the latent's share of all importance, so that dead latents do not count.

    Range 0 to 1, higher is better. Invariant to order, sign and relabeling; with trees to monotone
    rescaling too.

    Args:
        importances: what `importance(codes, factors, space, key=key)` returned.

    Reference: Eastwood and Williams 2018, A Framework for the Quantitative Evaluation of
    Disentangled Representations, section 2.

    >>> even = np.ones(2)
    >>> matrix = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> dci_disentanglement(
    ...     Importance(matrix, even, even, ("a", "b"), "by hand", "boosting")).value
    1.0
    """
    matrix = importances.matrix
    if matrix.shape[1] < 2:
        raise NotApplicable(
            f"disentanglement compares factors, but only {importances.names[0]} varies"
        )
    per_latent = _focus(matrix)
    return Score(
        _weighted(per_latent, matrix.sum(1)),
        importances.estimator,
        {"model": importances.model},
        importances.names,
        matrix,
        per_latent=per_latent,
    )


def dci_completeness(importances: Importance) -> Score:
    r"""Returns C: whether each factor needs one latent only.

    C = sum over factors of w_k (1 - H_D(R_k / sum_j R_jk)), with entropy in base D, the number of
    all latents, and w_k the factor's share of all importance.

    Range 0 to 1, higher is better; argument and invariances of `dci_disentanglement`.

    Reference: Eastwood and Williams 2018, section 2.

    >>> even = np.ones(2)
    >>> matrix = np.array([[0.5, 0.0], [0.5, 1.0]])
    >>> dci_completeness(
    ...     Importance(matrix, even, even, ("a", "b"), "by hand", "boosting")).value
    0.5
    """
    matrix = importances.matrix
    if matrix.shape[0] < 2:
        raise NotApplicable("completeness compares latents, but the code has one")
    per_factor = _focus(matrix.T)
    return Score(
        _weighted(per_factor, matrix.sum(0)),
        importances.estimator,
        {"model": importances.model},
        importances.names,
        matrix,
        per_factor=per_factor,
    )


def dci_informativeness(importances: Importance) -> Score:
    """Returns I: the mean test accuracy of the predictors (R^2 for lasso and continuous factors).

    As in the reference implementation this is accuracy, higher is better, where the paper has an
    error. Range 0 to 1 (a negative R^2 counts 0), higher is better; a constant code is at the share
    of the most common level, or 0. Invariances of `dci_disentanglement`.

    Reference: Eastwood and Williams 2018, section 2.

    >>> matrix = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> dci_informativeness(Importance(
    ...     matrix, np.ones(2), np.array([0.5, 1.0]), ("a", "b"), "by hand", "boosting")).value
    0.75
    """
    return Score(
        float(importances.test.mean()),
        importances.estimator,
        {"model": importances.model},
        importances.names,
        importances.matrix,
        per_factor=importances.test,
        parts={"train": float(importances.train.mean())},
    )
