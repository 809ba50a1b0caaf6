"""The smooth generator behind a dataset: from real-valued factors to the example they draw.

The factors are those of the dataset's rows, in its own units: steps of the grid where a factor has
one, but any number between as well. A categorical factor is rounded to its nearest value.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from untwist.datasets.circles import generate_circles
from untwist.datasets.dataset import Dataset
from untwist.datasets.faces_scene import draw_face
from untwist.datasets.faces_twin import face_values, identity_vectors
from untwist.datasets.linear import generate_linear
from untwist.datasets.mpi3d_scene import draw_mpi3d
from untwist.datasets.mpi3d_twin import mpi3d_values
from untwist.datasets.nonlinear import generate_nonlinear, nonlinear_weights
from untwist.datasets.shapes3d_scene import draw_shapes3d
from untwist.datasets.shapes3d_twin import shapes3d_values
from untwist.datasets.sprite_drawing import draw_sprite
from untwist.datasets.sprites import sprite_values
from untwist.datasets.square import generate_square
from untwist.factors import FactorSpace
from untwist.types import InputError

Generate = Callable[[Float[Array, " factor"]], Float[Array, "*shape"]]
Values = Callable[[Int[np.ndarray, "batch factor"], FactorSpace], Float[np.ndarray, "batch value"]]


def generator(dataset: Dataset) -> Generate:
    """Returns the smooth generator of a drawn or synthetic dataset, one row of factors at a time.

    Images come out in [0, 1], before they are rounded to bytes; those of `sprites` anti-aliased,
    before they are cut at one half.
    """
    if dataset.name not in GENERATORS:
        raise InputError(
            f"{dataset.name} has no generator here: expected one of {', '.join(GENERATORS)}; for "
            "any other full grid take the differences between its neighbors (grid_jacobian)"
        )
    return GENERATORS[dataset.name](dataset)


def _linear(dataset: Dataset) -> Generate:
    ratio = float(dataset.provenance["ratio"])
    return lambda factors: generate_linear(factors, ratio=ratio)


def _nonlinear(dataset: Dataset) -> Generate:
    weights = nonlinear_weights(int(dataset.provenance["weights_seed"]))
    ratio = float(dataset.provenance["ratio"])
    return lambda factors: generate_nonlinear(factors, weights, ratio=ratio)


def _square(dataset: Dataset) -> Generate:
    columns, angle = dataset.space.sizes[0], float(dataset.provenance["angle"])
    return lambda factors: generate_square(factors, columns=int(columns or 0), angle=angle)


def _circles(dataset: Dataset) -> Generate:
    clusters, members = (int(dataset.provenance[key]) for key in ("clusters", "members"))
    radius = float(dataset.provenance["radius"])
    return lambda factors: generate_circles(
        factors, clusters=clusters, members=members, radius=radius
    )


def _sprites(dataset: Dataset) -> Generate:
    size, place = dataset.shape[0], _affine(sprite_values, dataset.space, (1, 2, 3, 4))
    return lambda factors: draw_sprite(_nearest(factors[0]), place(factors), size=size)


def _shapes3d(dataset: Dataset) -> Generate:
    size, place = dataset.shape[0], _affine(shapes3d_values, dataset.space, (0, 1, 2, 3, 5))
    return lambda factors: draw_shapes3d(_nearest(factors[4]), place(factors), size=size)


def _mpi3d(dataset: Dataset) -> Generate:
    size, space = dataset.shape[0], dataset.space
    place = _affine(mpi3d_values, space, (2, 3, 5, 6))
    complicated = dataset.name == "mpi3d_complex_twin"
    rows = np.zeros((space.grid_sizes[0], 7), int)
    rows[:, 0] = np.arange(len(rows))
    front = jnp.asarray(mpi3d_values(rows, space)[:, :3], jnp.float32)
    rows = np.zeros((space.grid_sizes[4], 7), int)
    rows[:, 4] = np.arange(len(rows))
    back = jnp.asarray(mpi3d_values(rows, space)[:, 3:6], jnp.float32)

    def draw(factors: Float[Array, "7"]) -> Float[Array, "height width 3"]:
        colors = front[_nearest(factors[0])], back[_nearest(factors[4])]
        values = jnp.concatenate([*colors, place(factors)[6:]])
        return draw_mpi3d(_nearest(factors[1]), values, size=size, complicated=complicated)

    return draw


def _faces(dataset: Dataset) -> Generate:
    size, place = dataset.shape[0], _affine(face_values, dataset.space, (1, 2, 3))
    count, seed = dataset.space.sizes[0], int(dataset.provenance["seed"])
    vectors = identity_vectors(int(count or 0), seed=seed)
    return lambda factors: draw_face(vectors[_nearest(factors[0])], place(factors), size=size)


GENERATORS: dict[str, Callable[[Dataset], Generate]] = {
    "circles": _circles,
    "faces_twin": _faces,
    "linear": _linear,
    "mpi3d_complex_twin": _mpi3d,
    "mpi3d_twin": _mpi3d,
    "nonlinear": _nonlinear,
    "shapes3d_twin": _shapes3d,
    "sprites": _sprites,
    "square": _square,
}


def _nearest(factor: Float[Array, ""]) -> Int[Array, ""]:
    """The category that a real number stands for."""
    return jnp.round(factor).astype(jnp.int32)


def _affine(
    values: Values, space: FactorSpace, columns: tuple[int, ...]
) -> Callable[[Float[Array, " factor"]], Float[Array, " value"]]:
    """The values of a drawing, linear between grid points in each of these factors.

    Every value depends on one factor alone, so a table for each says all; all of them are evenly
    spaced but those of few entries, between which the table is interpolated.
    """
    origin = values(np.zeros((1, len(space)), int), space)[0]
    tables = []
    for column in columns:
        rows = np.zeros((space.grid_sizes[column], len(space)), int)
        rows[:, column] = np.arange(len(rows))
        tables.append(jnp.asarray(values(rows, space) - origin, jnp.float32))

    def place(factors: Float[Array, " factor"]) -> Float[Array, " value"]:
        total = jnp.asarray(origin, jnp.float32)
        for column, table in zip(columns, tables, strict=True):
            if len(table) > 1:
                low = jnp.clip(jnp.floor(factors[column]), 0, len(table) - 2).astype(jnp.int32)
                total = total + table[low] + (factors[column] - low) * (table[low + 1] - table[low])
        return total

    return place
