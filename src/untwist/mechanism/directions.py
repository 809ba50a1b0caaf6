"""Local principal directions of the data, and how far the decoder's agree with them."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree

from untwist.mechanism.decoder import (
    AbstractDecoder,
    Decode,
    as_decoder,
    checked_codes,
    chunk_size,
    stream,
)
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.types import AnyArray, InputError

Directions = Float[ndarray, "item pixel axis"]


@dataclass(frozen=True)
class DirectionAgreement:
    """The decoder's local directions beside those of the data, averaged over items.

    Attributes:
        subspace: Share of the smaller of the two tangent spaces that lies in the other, 0 to 1.
        axes: Mean |cosine| of the decoder's left singular vectors with the data's directions, each
            matched to one by linear assignment.
        columns: The same of the latents' own columns c_j: 1 when each latent moves along one local
            principal direction of the data.
        chance: `columns` for orthogonal latents that lie in the decoder's tangent space at random.
        source: Where the data's directions came from.
    """

    subspace: float
    axes: float
    columns: float
    chance: float
    source: str


def neighbor_directions(
    x: Float[AnyArray, "item *shape"],
    points: Float[AnyArray, "point *shape"],
    *,
    axes: int,
    neighbors: int | None = None,
) -> Float[ndarray, "point pixel axis"]:
    """Returns the local principal directions of data: PCA of each point's nearest neighbors.

    Args:
        x: The data, among which neighbors are sought.
        points: Where; a point in the data is not its own neighbor.
        axes: How many directions.
        neighbors: How many neighbors; ten a direction by default.

    Returns:
        Unit vectors as columns, by descending variance; fewer if the data have fewer columns.

    >>> line = np.linspace(0, 1, 50)[:, None] * np.array([3.0, 4.0])
    >>> abs(neighbor_directions(line, line[:1], axes=1)[0, :, 0]).round(6).tolist()
    [0.6, 0.8]
    """
    flat, at = (np.asarray(side, np.float64).reshape(len(side), -1) for side in (x, points))
    count = min(neighbors or 10 * axes, len(flat) - 1)
    if count < 1:
        raise InputError("neighbors need at least two examples, but got one")
    axes = min(axes, flat.shape[1], count)
    found = np.empty((len(at), flat.shape[1], axes))
    near = _nearest(flat, at, count + 1)
    for index, (point, rows) in enumerate(zip(at, near, strict=True)):
        steps = flat[rows] - point
        steps = steps[np.argsort(np.sum(steps**2, axis=1), kind="stable")]
        steps = steps[1:] if np.sum(steps[0] ** 2) == 0 else steps[:count]
        found[index] = np.linalg.svd(steps, full_matrices=False)[2][:axes].T
    return found


def _nearest(flat: ndarray, at: ndarray, count: int) -> ndarray:
    """Rows of the nearest examples: by a tree in few dimensions, by products in many."""
    if flat.shape[1] <= 10:
        return np.asarray(KDTree(flat).query(at, count)[1]).reshape(len(at), -1)
    squares = np.sum(flat**2, axis=1)
    return np.stack(
        [np.argpartition(squares - 2 * flat @ point, count - 1)[:count] for point in at]
    )


def principal_directions(matrices: Float[AnyArray, "item pixel factor"]) -> Directions:
    """Returns left singular vectors of generator Jacobians: the data's local directions.

    Scale the columns by the factors' standard deviations first, or the directions are those of
    equal steps in the factors.

    Args:
        matrices: One Jacobian an item. Directions along which the generator does not move are
            dropped where they are so at all items.

    >>> found = principal_directions(np.array([[[0.0, 2.0], [1.0, 0.0]]]))
    >>> abs(found[0]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    left, values, _ = np.linalg.svd(np.asarray(matrices, np.float64), full_matrices=False)
    kept = (values > 1e-6 * values.max(initial=0)).any(0)
    return left[:, :, kept]


def direction_agreement(
    jacobians: AnyArray, directions: AnyArray, *, source: str = ""
) -> DirectionAgreement:
    """Returns how far the decoder's local directions agree with the data's.

    Args:
        jacobians: Of the decoder's mean output, [item, pixel, latent]; of active latents. See
            `mean_jacobians`.
        directions: Unit vectors [item, pixel, axis], from `neighbor_directions` or
            `principal_directions`.
        source: Where they came from, in words.

    Reference: rolinek2019, Sec. 3 (local PCA directions); zietlow2021, Theorem 1 (global ones).

    >>> matrix = np.array([[[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    >>> found = direction_agreement(matrix, principal_directions(matrix))
    >>> found.subspace, found.axes, found.columns
    (1.0, 1.0, 1.0)
    """
    matrices, directions = np.asarray(jacobians, np.float64), np.asarray(directions, np.float64)
    if matrices.shape[:2] != directions.shape[:2]:
        raise InputError(
            "Jacobians and directions must be of the same items and pixels, but got "
            f"{matrices.shape} and {directions.shape}"
        )
    if not directions.shape[2]:
        raise InputError("the data do not move at any of these items: no factor varies among them")
    left, values, rows = np.linalg.svd(matrices, full_matrices=False)
    live = values > 1e-6 * np.maximum(values[:, :1], np.finfo(float).tiny)
    if not live.any():
        raise InputError("the decoder does not move at any of these items")
    left = left * live[:, None]
    norms = np.linalg.norm(matrices, axis=1, keepdims=True)
    columns = matrices / np.where(norms > 0, norms, 1)
    size = np.minimum(live.sum(1), directions.shape[2])
    crossed = directions.transpose(0, 2, 1) @ left
    shares = np.sum(crossed**2, axis=(1, 2)) / np.maximum(size, 1)
    generator = np.random.default_rng(0)
    turns = np.linalg.qr(generator.standard_normal((len(left), *rows.shape[1:])))[0]
    return DirectionAgreement(
        float(shares.mean()),
        _matched(crossed),
        _matched(directions.transpose(0, 2, 1) @ columns),
        _matched(crossed @ turns),
        source,
    )


def _matched(cosines: Float[ndarray, "item axis latent"]) -> float:
    """Mean |cosine| of the best one-to-one matching."""
    size = np.abs(cosines)
    return float(np.mean([c[linear_sum_assignment(-c)].mean() for c in size]))


def mean_jacobians(
    decode: Decode | AbstractDecoder,
    codes: Float[AnyArray, "*member item latent"],
    *,
    likelihood: str | Likelihood = "squared_error",
    chunk: int | None = None,
) -> Float[ndarray, "*member item pixel latent"]:
    """Returns Jacobians of E[x|z], in the space of the data: for logits those of probabilities.

    Args:
        decode: From one code to one example's outputs; or a population of such.
        codes: Where, [member, item, latent] for a population. All Jacobians are kept.
        likelihood: Its name, or itself.
        chunk: Items at a time.

    >>> found = mean_jacobians(lambda z: z, np.zeros((1, 1)), likelihood="bernoulli")
    >>> found.tolist()
    [[[0.25]]]
    """
    decoder, model = as_decoder(decode), as_likelihood(likelihood)
    codes = checked_codes(codes)
    function = _logit_jacobian if model.name == "bernoulli" else _jacobian
    size = chunk_size(decoder, codes, chunk)
    return stream(lambda z: decoder.local(function, z), codes, chunk=size, axis=codes.ndim - 2)


def _jacobian(output: Array, jacobian: Array) -> Array:
    return jacobian


def _logit_jacobian(output: Array, jacobian: Array) -> Array:
    return Likelihood("bernoulli", jnp.ones(())).curvature(output)[:, None] * jacobian
