"""Laws of every traced twin: its grid, its provenance, its pictures and how they are drawn."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import load
from untwist.datasets.faces_scene import draw_face
from untwist.datasets.faces_twin import face_values, identity_vectors
from untwist.datasets.mpi3d_scene import draw_mpi3d
from untwist.datasets.mpi3d_twin import mpi3d_values
from untwist.datasets.shapes3d_scene import draw_shapes3d
from untwist.datasets.shapes3d_twin import shapes3d_values
from untwist.datasets.twin import check_distinct
from untwist.types import InputError

MPI3D = {
    "object_color": (6, "categorical"),
    "object_shape": (6, "categorical"),
    "object_size": (2, "ordinal"),
    "camera_height": (3, "ordinal"),
    "background_color": (3, "categorical"),
    "horizontal_axis": (40, "ordinal"),
    "vertical_axis": (40, "ordinal"),
}
GRIDS = {
    "faces_twin": {
        "identity": (50, "categorical"),
        "azimuth": (21, "ordinal"),
        "elevation": (11, "ordinal"),
        "lighting": (11, "ordinal"),
    },
    "mpi3d_complex_twin": MPI3D
    | {"object_color": (4, "categorical"), "object_shape": (4, "categorical")},
    "mpi3d_twin": MPI3D,
    "shapes3d_twin": {
        "floor_hue": (10, "periodic"),
        "wall_hue": (10, "periodic"),
        "object_hue": (10, "periodic"),
        "scale": (8, "ordinal"),
        "shape": (4, "categorical"),
        "orientation": (15, "ordinal"),
    },
}
SMALL = {
    "faces_twin": {"size": 16, "identities": 3, "azimuths": 3, "elevations": 2, "lightings": 2},
    "mpi3d_complex_twin": {"size": 16, "axes": 2},
    "mpi3d_twin": {"size": 16, "axes": 2},
    "shapes3d_twin": {"size": 16, "hues": 3, "scales": 2, "orientations": 3},
}


def draw_identity(number, values, *, size):
    """The drawing of a face by the number of its identity."""
    return draw_face(identity_vectors(3)[number], values, size=size)


DRAW = {
    "faces_twin": (draw_identity, face_values, 0),
    "mpi3d_complex_twin": (functools.partial(draw_mpi3d, complicated=True), mpi3d_values, 1),
    "mpi3d_twin": (draw_mpi3d, mpi3d_values, 1),
    "shapes3d_twin": (draw_shapes3d, shapes3d_values, 4),
}


LONG = ("faces_twin", "mpi3d_complex_twin")
"""What takes long to compile; tests/datasets/test_catalog.py draws these in `make test` too."""


@pytest.fixture(
    params=[pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in sorted(GRIDS)]
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def small():
    """Every twin on a small grid, drawn once."""
    return {name: load(name, **options) for name, options in SMALL.items()}


def test_names_order_and_kinds_are_those_of_the_original(name, small):
    space = small[name].space
    assert space.names == tuple(GRIDS[name])
    assert space.kinds == tuple(kind for _, kind in GRIDS[name].values())


def test_sizes_are_those_of_the_original(name, small):
    """Read off the defaults without drawing a million images."""
    expected = tuple(size for size, _ in GRIDS[name].values())
    chosen = {option: value for option, value in SMALL[name].items() if option != "size"}
    ours = small[name].space.sizes
    assert len(ours) == len(expected)
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine == theirs or mine in chosen.values()
    total = {
        "faces_twin": 127_050,
        "mpi3d_complex_twin": 460_800,
        "mpi3d_twin": 1_036_800,
        "shapes3d_twin": 480_000,
    }
    assert math.prod(expected) == total[name]


def test_every_two_images_differ(name, small):
    data = small[name].data
    assert small[name].has_full_grid
    assert len(np.unique(data.reshape(len(data), -1), axis=0)) == len(data)


def test_says_that_it_is_a_twin(name, small):
    assert small[name].provenance["twin"] is True
    assert small[name].provenance["source"].startswith("procedural twin of ")


def test_stored_images_are_the_drawings_of_their_factors(name, small):
    dataset = small[name]
    draw, values, category = DRAW[name]
    index = np.random.default_rng(0).integers(0, len(dataset), 32)
    factors = dataset.factors[index]
    continuous = jnp.asarray(values(factors, dataset.space), jnp.float32)
    drawn = jax.jit(jax.vmap(lambda kind, one: draw(kind, one, size=16)))
    images = drawn(factors[:, category], continuous)
    np.testing.assert_allclose(255 * images, dataset.data[index], atol=0.51)


def test_pictures_use_the_range_of_a_byte_without_leaving_it(name, small):
    data = small[name].data
    assert data.min() < 60
    assert data.max() > 200


@pytest.mark.parametrize("factor", range(3))
def test_hues_close_to_a_circle(factor):
    draw = jax.jit(draw_shapes3d)
    values = np.array([0.3, 0.6, 0.9, 1.0, 10.0], np.float32)
    hues = np.linspace(0, 1, 11)
    pictures = []
    for hue in hues:
        values[factor] = hue
        pictures.append(np.asarray(draw(1, jnp.asarray(values))))
    np.testing.assert_allclose(pictures[0], pictures[10], atol=1e-5)
    steps = np.array([np.abs(b - a).mean() for a, b in zip(pictures, pictures[1:], strict=False)])
    assert steps.min() > 0.5 * steps.max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 48}, "size must be one of 16, 32, 64, but got 48"),
        ({"hues": 0}, "the grid is empty: .* got hues=0, scales=8, orientations=15"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        load("shapes3d_twin", **options)


def test_a_step_that_changes_no_byte_is_refused():
    images = np.zeros((3, 2, 4, 4, 1), np.uint8)
    images[1:] = 100
    images[2, :, 0, 0] = 101
    check_distinct("toy", images, {"scale": "scales", "shape": None})
    images[2, 1] = 100
    with pytest.raises(InputError, match="at 4 pixels neighboring values of scale draw the same"):
        check_distinct("toy", images, {"scale": "scales", "shape": None})
