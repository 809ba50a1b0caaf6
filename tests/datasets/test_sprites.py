"""The twin of dSprites: its outlines, its grid, its fast path, its distinct images."""

import hashlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import sprites
from untwist.datasets.sprite_drawing import SHAPES, SIDE, SPAN, START, draw_sprite
from untwist.datasets.sprites import sprite_values
from untwist.types import InputError

draw = jax.jit(draw_sprite, static_argnames="size")
derive = jax.jit(jax.jacfwd(draw_sprite, argnums=1), static_argnames="size")
derive_backward = jax.jit(jax.jacrev(draw_sprite, argnums=1), static_argnames="size")

SMALL = {"size": 32, "scales": 3, "orientations": 8, "positions": 8}


@pytest.fixture(scope="module")
def full():
    """All 737,280 images, as bits."""
    return sprites()


def inside_by_hand(shape, x, y):
    """Whether points (right, up) are inside the outline of area 1, from school geometry."""
    if shape == 0:
        return (abs(x) < 0.5) & (abs(y) < 0.5)
    if shape == 1:
        return (x / 0.7) ** 2 + (y * math.pi * 0.7) ** 2 < 1
    side = 1 / math.sqrt(1 + math.pi / 4)  # of a square on its tip, with two half discs on top
    lobe = side / math.sqrt(8)
    center = side * math.sqrt(0.5) / (1.5 - math.sqrt(0.5))
    assert math.isclose(center, math.hypot(lobe, 3 * lobe - center) + side / 2)
    y = y + center
    in_square = np.abs(x) + np.abs(y - 2 * lobe) < 2 * lobe
    return in_square | (np.hypot(np.abs(x) - lobe, y - 3 * lobe) < side / 2)


def coverage_by_hand(shape, pose, size, times):
    """The share of times×times points of each pixel that are inside: brute force."""
    scale, orientation, position_x, position_y = (float(value) for value in pose)
    points = (np.arange(size * times) + 0.5) / (size * times)
    right = points - START - SPAN * position_x
    up = -(points - START - SPAN * position_y)
    turned = (right + 1j * up[:, None]) * np.exp(-1j * orientation) / (SIDE * scale)
    inside = inside_by_hand(shape, turned.real, turned.imag)
    return inside.reshape(size, times, size, times).mean((1, 3))


def random_poses(count, seed):
    low, high = np.array([0.5, 0.0, 0.0, 0.0]), np.array([1.0, 2 * np.pi, 1.0, 1.0])
    return jnp.asarray(np.random.default_rng(seed).uniform(low, high, (count, 4)), jnp.float32)


@pytest.mark.parametrize("shape", range(3))
def test_cut_image_is_the_shape_at_every_pixel_center(shape):
    for pose in random_poses(20, seed=shape):
        image = draw(shape, pose)[..., 0]
        np.testing.assert_array_equal(image > 0.5, coverage_by_hand(shape, pose, 64, 1) > 0.5)


@pytest.mark.parametrize("shape", range(3))
def test_smooth_image_is_the_covered_area(shape):
    for pose in random_poses(4, seed=10 + shape):
        image, covered = draw(shape, pose)[..., 0], coverage_by_hand(shape, pose, 64, 9)
        assert np.abs(image - covered).max() < 0.25  # a sigmoid has tails, a pixel has none
        assert np.sum(image) == pytest.approx((64 * SIDE * float(pose[0])) ** 2, rel=0.03)


def test_grid_is_that_of_dsprites(full):
    assert len(full) == 737_280
    assert full.space.names == ("shape", "scale", "orientation", "posX", "posY")
    assert full.space.sizes == (3, 6, 40, 32, 32)
    assert full.space.kinds == ("categorical", "ordinal", "periodic", "ordinal", "ordinal")
    assert full.data.shape == (737_280, 512)
    assert full.has_full_grid
    values = sprite_values(np.array([[0, 0, 0, 0, 0], [0, 3, 39, 31, 1]]), full.space)
    np.testing.assert_allclose(values, [[0.5, 0, 0, 0], [0.8, 2 * math.pi, 1, 1 / 31]])


def test_single_values_are_upright_full_size_and_in_the_middle():
    one = sprites(scales=1, orientations=1, positions=1)
    assert len(one) == 3
    np.testing.assert_array_equal(sprite_values(one.factors[0], one.space), [1, 0, 0.5, 0.5])


def assert_equals_drawing(dataset, index):
    """The stored images are the cut drawings of their factor values."""
    factors = dataset.factors[index]
    poses = jnp.asarray(sprite_values(factors, dataset.space), jnp.float32)
    size = dataset.shape[0]
    cut = jax.jit(jax.vmap(lambda shape, pose: draw_sprite(shape, pose, size=size) > 0.5))
    np.testing.assert_array_equal(cut(factors[:, 0], poses), dataset.examples(index) == 1)


@pytest.mark.parametrize("options", [SMALL, {"size": 16}, {"size": 24, "positions": 5}])
def test_fast_path_equals_the_drawing_on_every_image(options):
    dataset = sprites(**options)
    assert_equals_drawing(dataset, np.arange(len(dataset)))


def test_fast_path_equals_the_drawing_on_the_full_grid_in_samples(full):
    assert_equals_drawing(full, np.random.default_rng(0).integers(0, len(full), 4000))


@pytest.mark.slow
def test_fast_path_equals_the_drawing_on_the_full_grid(full):
    for part in np.split(np.arange(len(full)), 180):
        assert_equals_drawing(full, part)


def test_all_images_of_the_full_grid_differ_but_the_closed_turn(full):
    digests = [hashlib.blake2b(row, digest_size=8).digest() for row in full.data]
    prints = np.array([int.from_bytes(one) for one in digests], np.uint64)
    prints = prints.reshape(full.space.grid_sizes)
    np.testing.assert_array_equal(prints[:, :, 0], prints[:, :, 39])
    assert len(np.unique(prints)) == prints.size * 39 // 40


@pytest.mark.parametrize("options", [{"size": 16}, {"size": 32}, SMALL, {"size": 48}])
def test_neighboring_values_change_pixels(options):
    dataset = sprites(**options)
    sizes = dataset.space.grid_sizes
    images = dataset.data.reshape(*sizes, -1)
    turn = math.gcd(4, sizes[2] - 1)
    for axis in range(1, 5):
        first, second = (np.take(images, np.arange(sizes[axis] - 1) + i, axis) for i in (0, 1))
        differ = (first != second).any(-1)
        if axis == 2 and turn == sizes[2] - 1:
            differ = differ[1:]
        assert differ.all()


def test_no_sprite_is_cut_off(full):
    """At one pixel a step, each sprite keeps its number of pixels wherever it stands."""
    pixels = np.bitwise_count(full.data.view(np.uint64)).sum(-1).reshape(-1, 1024)
    assert (pixels == pixels[:, :1]).all()
    area = 23**2 * np.linspace(0.5, 1, 6) ** 2
    mean = pixels[:, 0].reshape(3, 6, 40).mean(-1)
    np.testing.assert_allclose(mean, np.broadcast_to(area, (3, 6)), rtol=0.01)


def test_heart_is_upright_at_orientation_zero(full):
    index = full.space.index(np.array([[2, 5, 0, 15, 15]]))
    heart = full.examples(index)[0, ..., 0]
    rows = heart[heart.any(1)]
    runs = (np.diff(np.pad(rows, ((0, 0), (1, 1)))) == 1).sum(1)
    assert runs[0] == 2, "two lobes above"
    assert (runs[4:] == 1).all()
    widths = rows.sum(1)
    assert widths[-1] <= 2, "the point below"
    assert widths.argmax() < len(rows) / 2
    assert (np.diff(widths[len(rows) // 2 :]) < 0).all()


def test_positions_run_to_the_right_and_down():
    dataset = sprites(**SMALL)
    grid = dataset.examples(slice(None)).reshape(*dataset.space.grid_sizes, 32, 32)
    assert np.argmax(grid[0, 0, 0, 0, 0].any(0)) < np.argmax(grid[0, 0, 0, 7, 0].any(0))
    assert np.argmax(grid[0, 0, 0, 0, 0].any(1)) < np.argmax(grid[0, 0, 0, 0, 7].any(1))
    np.testing.assert_array_equal(grid[0, 0, 0, 0, 0].any(1), grid[0, 0, 0, 7, 0].any(1))


def test_bytes_and_bits_are_the_same_images():
    packed, plain = sprites(**SMALL), sprites(**SMALL, bits=False)
    assert plain.data.shape == (3 * 3 * 8 * 64, 32, 32, 1)
    assert plain.data.max() == plain.peak == 1
    np.testing.assert_array_equal(plain.examples(slice(None)), packed.examples(slice(None)))
    plain.check()


@pytest.mark.parametrize("shape", range(3))
def test_derivative_is_that_of_the_image(shape):
    for pose in random_poses(3, seed=20 + shape):
        jacobian = derive(shape, pose, size=32)
        for factor in range(4):
            step = jnp.zeros(4).at[factor].set(1e-3)
            higher, lower = (draw(shape, pose + sign * step, size=32) for sign in (1, -1))
            slope = (higher - lower) / 2e-3
            close = np.isclose(jacobian[..., factor], slope, rtol=0.02, atol=0.02)
            assert close.mean() > 0.995  # the difference may straddle a corner of the outline


@pytest.mark.parametrize("shape", range(3))
def test_derivative_is_finite_where_points_meet_centers_and_corners(shape):
    middle = (0.5 - START) / SPAN
    exact = jnp.array([0.5, 0.0, middle + 0.5 / 16 / SPAN, middle + 0.5 / 16 / SPAN])
    jacobian = derive_backward(shape, exact, size=16)
    assert np.isfinite(jacobian).all()
    assert np.abs(jacobian).sum((0, 1, 2)).min() > 0 or SHAPES[shape] == "square"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8}, "multiple of 8 from 16 .* but got 8"),
        ({"size": 20}, "but got 20"),
        ({"scales": 0}, "the grid is empty: .* got scales=0, orientations=40, positions=32"),
        ({"orientations": 2}, "expected 1 or at least 3"),
        ({"positions": 33}, "33 positions of 64 pixels lie less than a pixel .* at most 32"),
        ({"size": 32, "positions": 17}, "at most 16"),
        ({"size": 32, "scales": 6}, "values of scale draw the same square: expected fewer `sca"),
        ({"size": 32, "orientations": 40}, "values of orientation draw the same square"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        sprites(**options)
