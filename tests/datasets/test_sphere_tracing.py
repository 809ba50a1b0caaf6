"""The renderer against closed forms: silhouettes, shades, shadows, layers and their derivatives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import signed_distance as solid
from untwist.datasets.ray_march import march
from untwist.datasets.sphere_tracing import (
    SHARPNESS,
    SKIN,
    Ray,
    lambert,
    light_reaching,
    look_at,
    on_floor,
    trace,
)

SIZE, RADIUS = 64, 0.5
LIGHT = jnp.array([-0.48, 0.8, 0.36])
ORIGIN = jnp.zeros(3)


def ball(point):
    """The distance to the ball in the middle."""
    return solid.sphere(point, RADIUS)


def seen(camera, center=ORIGIN, distance=ball):
    """What all rays of a camera find of a solid moved to a center."""
    rays = camera.rays(SIZE)
    look = jax.vmap(
        jax.vmap(lambda ray: trace(lambda p: distance(p - center), center, 1.0, ray=ray))
    )
    return jax.jit(look)(rays)


def level(x=0.0, width=0.05):
    """A ray in the direction of z, seen by parallel rays, beside the z axis by x."""
    return Ray(
        jnp.array([x, 0.0, -4.0]), jnp.array([0.0, 0.0, 1.0]), jnp.array(width), jnp.ones(())
    )


@pytest.mark.parametrize("parallel", [True, False])
def test_the_silhouette_of_a_ball_has_its_area_and_place(parallel):
    """Under perspective a ball at distance 4 in the middle is a disk of radius tan(asin(r / 4))."""
    half = 1.0 if parallel else 0.25
    camera = look_at(jnp.array([0.0, 0.0, 4.0]), ORIGIN, half, parallel=parallel)
    cover = np.asarray(seen(camera).cover)
    radius = RADIUS if parallel else math.tan(math.asin(RADIUS / 4))
    expected = math.pi * (radius / half * SIZE / 2) ** 2
    assert cover.sum() == pytest.approx(expected, rel=0.01)
    places = np.arange(SIZE) - (SIZE - 1) / 2
    assert abs((cover * places).sum() / cover.sum()) < 0.01
    assert abs((cover * places[:, None]).sum() / cover.sum()) < 0.01


@pytest.mark.parametrize("parallel", [True, False])
def test_a_ball_right_of_and_above_the_middle_is_seen_there(parallel):
    half, center = 1.0 if parallel else 0.25, jnp.array([0.25, 0.375, 0.0])
    camera = look_at(jnp.array([0.0, 0.0, 4.0]), ORIGIN, half, parallel=parallel)
    cover = np.asarray(seen(camera, center).cover)
    places = np.arange(SIZE) - (SIZE - 1) / 2
    column = (cover * places).sum() / cover.sum()
    row = (cover * places[:, None]).sum() / cover.sum()
    step = half * (1 if parallel else 4) / (SIZE / 2)
    if not parallel:  # the outline of a ball off the axis is an ellipse, a little farther out
        sine = RADIUS / math.hypot(4, *center.tolist())
        step *= 1 - sine**2
    assert (column, -row) == pytest.approx((0.25 / step, 0.375 / step), rel=0.01)


def test_a_ball_is_shaded_by_the_cosine_of_its_normal():
    """At the skin, a ball that is larger by it; a light behind the edge of day gives nothing."""
    camera = look_at(jnp.array([0.0, 0.0, 4.0]), ORIGIN, 1.0, parallel=True)
    surface = seen(camera)
    shade = np.asarray(jax.vmap(jax.vmap(lambda normal: lambert(normal, LIGHT)))(surface.normal))
    x = (np.arange(SIZE) + 0.5) / (SIZE / 2) - 1
    x, y = np.meshgrid(x, -x)
    larger = RADIUS + SKIN * 2 / SIZE
    z = np.sqrt(np.maximum(larger**2 - x**2 - y**2, 0))
    inside = np.hypot(x, y) < RADIUS
    expected = np.maximum(np.stack([x, y, z], -1) @ np.asarray(LIGHT) / larger, 0)
    assert (expected[inside] == 0).any()
    np.testing.assert_allclose(shade[inside], expected[inside], atol=2e-3)
    depth = 4 - np.asarray(surface.depth)
    np.testing.assert_allclose(depth[inside], z[inside], atol=2e-3)


def test_the_faces_of_a_box_have_one_shade_each():
    camera = look_at(jnp.array([2.0, 2.0, 2.0]), ORIGIN, 1.0, parallel=True)
    surface = seen(camera, distance=lambda p: solid.box(p, jnp.full(3, 0.4), 0.02))
    normals = np.asarray(surface.normal)[np.asarray(surface.cover) > 0.999]
    for axis in np.eye(3):
        assert (np.abs(normals - axis).max(-1) < 1e-3).mean() > 0.25


def test_a_ball_throws_its_shadow_where_the_light_passes_through_it():
    center = jnp.array([0.2, 1.5, -0.3])

    @jax.jit
    def lit(point):
        return light_reaching(lambda p: ball(p - center), center, RADIUS, point, LIGHT)

    middle = center - LIGHT * center[1] / LIGHT[1]
    across = jnp.array([0.36, 0.0, 0.48]) / 0.6  # level, and square to the light
    assert float(lit(middle)) == pytest.approx(1 / (1 + math.exp(4 * 0.5 / 0.12)), abs=1e-6)
    assert float(lit(middle + RADIUS * across)) == pytest.approx(0.5, abs=1e-3)
    soft = 1 / (1 + math.exp(-4 * 0.06 / 0.12))
    assert float(lit(middle + (RADIUS + 0.06) * across)) == pytest.approx(soft, abs=1e-3)
    assert float(lit(center + 2 * LIGHT)) > 0.999
    along = jnp.array([LIGHT[0], 0.0, LIGHT[2]]) / 0.6  # the shadow is longer by 1 / sin(height)
    assert float(lit(middle + RADIUS / 0.8 * along)) == pytest.approx(0.5, abs=1e-3)


def test_rays_meet_the_floor_or_nothing_near():
    ray = level()._replace(origin=jnp.array([1.0, 2.0, 3.0]), direction=jnp.array([0.6, -0.8, 0.0]))
    np.testing.assert_allclose(on_floor(ray), [2.5, 0.0, 3.0], atol=1e-6)
    rising = ray._replace(direction=jnp.array([0.6, 0.8, 0.0]))
    assert float(jnp.linalg.norm(on_floor(rising))) > 100


def test_the_edge_of_a_ball_moves_as_the_ball_does():
    """The cover is a sigmoid of the depth in pixels, so its derivative is known."""

    def cover(x):
        return trace(
            lambda p: ball(p - jnp.array([x, 0.0, 0.0])), ORIGIN, 1.0, ray=level(0.51)
        ).cover

    value, slope = jax.jit(jax.value_and_grad(cover))(0.0)
    expected = 1 / (1 + math.exp(SHARPNESS * 0.01 / 0.05))
    assert float(value) == pytest.approx(expected, abs=1e-4)
    assert float(slope) == pytest.approx(SHARPNESS / 0.05 * expected * (1 - expected), rel=1e-3)


def test_the_depth_and_the_shade_of_a_ball_move_as_the_ball_does():
    """By implicit differentiation: d = 4 - sqrt(R^2 - (x - c)^2), at the radius of the skin."""

    def look(c):
        moved = lambda p: ball(p - jnp.array([c, 0.0, 0.0]))  # noqa: E731
        surface = trace(moved, ORIGIN, 1.0, ray=level(0.2))
        return surface.depth, surface.normal[0]

    radius = RADIUS + SKIN * 0.05
    height = math.sqrt(radius**2 - 0.2**2)
    depth, normal = jax.jit(jax.jacfwd(look))(0.0)
    assert float(depth) == pytest.approx(-0.2 / height, rel=0.02)
    assert float(normal) == pytest.approx(-1 / radius, rel=0.02)


def test_the_depth_below_an_edge_has_the_derivative_of_its_minimum():
    """Inside a box the distance along a ray has a kink, where either side's slope is wrong."""
    turned = Ray(
        jnp.array([-2.0, 0.0, -1.8]),
        jnp.array([1.0, 0.0, 1.0]) / math.sqrt(2),
        jnp.array(1.0),
        jnp.ones(()),
    )

    def cover(x):
        box = lambda p: solid.box(p - jnp.array([x, 0.0, 0.0]), jnp.ones(3), 0.02)  # noqa: E731
        return trace(box, ORIGIN, 2.0, ray=turned).cover

    places = jnp.array([-0.9, -0.7, 0.6, 0.8])
    draw, derive = (jax.jit(jax.vmap(one)) for one in (cover, jax.grad(cover)))
    slopes = (draw(places + 0.01) - draw(places - 0.01)) / 0.02
    assert float(jnp.abs(slopes).min()) > 0.01
    np.testing.assert_allclose(derive(places), slopes, rtol=0.01)


def test_a_march_shares_a_pixel_among_what_hides_one_another():
    """A small ball whose edge is on the ray takes half of it, a large one behind it the rest."""

    def pair(point):
        front = solid.sphere(point - jnp.array([0.2, 0.0, -0.9]), 0.2)
        return solid.smooth_minimum(front, ball(point), 0.01)

    layers = march(pair, ORIGIN, 1.2, ray=level(), steps=60)
    front = layers.depth < 3.3
    assert float(layers.share.sum()) == pytest.approx(1, abs=1e-3)
    assert float(layers.share[front].sum()) == pytest.approx(0.5, abs=0.01)
    behind = layers.share * ~front
    assert float(behind @ layers.depth / behind.sum()) == pytest.approx(3.5, abs=0.02)


@pytest.mark.parametrize("x", [0.0, 0.3, 0.47, 0.5, 0.53])
def test_a_march_covers_a_convex_solid_as_a_trace_does(x):
    surface = trace(ball, ORIGIN, 1.0, ray=level(x))
    layers = march(ball, ORIGIN, 1.0, ray=level(x), steps=60)
    assert float(layers.share.sum()) == pytest.approx(float(surface.cover), abs=0.01)
