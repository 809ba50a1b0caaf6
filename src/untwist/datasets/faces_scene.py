"""The scene of the twin of the Basel face renders: a gray head, its proportions drawn by a key.

A head is a smooth union of a score of simple solids, mirrored left to right. Its proportions are
their sizes and places, each stretched by one entry of an identity vector. The light comes last: the
traced head keeps its normals, and a picture is their Lambert shading.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from untwist.datasets import signed_distance as solid
from untwist.datasets.ray_march import march
from untwist.datasets.sphere_tracing import Camera, Ray, look_at, shrink
from untwist.types import RandomKey, Scalar

DRAWN = 64
PROPORTIONS = (
    "skull width",
    "skull height",
    "skull depth",
    "jaw width",
    "face length",
    "chin",
    "nose length",
    "nose width",
    "brow",
    "eye distance",
    "cheeks",
    "lips",
    "ears",
)
SPREAD = 0.12
"""The standard deviation of a proportion, around 1; none goes beyond two of them."""

AMBIENT, BACKGROUND, VIEW = 0.22, 0.06, 1.20
STEPS = 40
"""Steps of a ray."""


def identity_vector(*, key: RandomKey) -> Float[Array, "13"]:
    """Returns the proportions of one head: 1 on average, in the order of `PROPORTIONS`."""
    normal = jax.random.truncated_normal(key, -2.0, 2.0, (len(PROPORTIONS),))
    return 1 + SPREAD * normal


def head_distance(proportions: Float[Array, "13"], point: Float[Array, "3"]) -> Scalar:
    """Returns a bound of the distance to the head: x to its left, y up, z out of its face."""
    return _head(proportions, point)[0]


def face_surface(
    proportions: Float[Array, "13"], azimuth: Scalar, elevation: Scalar
) -> Float[Array, "64 64 4"]:
    """Returns the normals of the head and how much of each pixel it covers, both times its gray.

    Args:
        proportions: An identity vector.
        azimuth: Degrees by which the head turns to the right of the picture.
        elevation: Degrees by which the viewer looks down on it.
    """
    camera = _camera(azimuth, elevation)
    center = jnp.array([0.0, -0.15, 0.0])

    def distance(point: Float[Array, "3"]) -> Scalar:
        return head_distance(proportions, point)

    def skin(point: Float[Array, "3"]) -> tuple[Float[Array, "3"], Scalar]:
        (_, gray), slope = jax.value_and_grad(_head, argnums=1, has_aux=True)(proportions, point)
        return slope / solid.length(slope), gray

    axes = jnp.stack([camera.right, camera.up, -camera.forward])

    def pixel(ray: Ray) -> Float[Array, "4"]:
        layers = march(distance, center, 1.7, ray=ray, steps=STEPS)
        normals, grays = jax.vmap(skin)(jax.vmap(ray.at)(layers.depth))
        bright = layers.share * grays
        return jnp.append(axes @ (bright @ normals), bright.sum())

    return jax.vmap(jax.vmap(pixel))(camera.rays(DRAWN))


def light_face(
    surface: Float[Array, "height width 4"], lighting: Scalar
) -> Float[Array, "height width 1"]:
    """Returns the picture of a traced head under a light.

    Args:
        surface: What `face_surface` traced.
        lighting: Degrees by which the light comes from the right of the viewer.
    """
    angle = jnp.deg2rad(lighting)
    light = jnp.stack([jnp.sin(angle) * 0.94, jnp.array(0.34), jnp.cos(angle) * 0.94])
    lit = jax.nn.relu(surface[..., :3] @ light)
    return (BACKGROUND + surface[..., 3] * (AMBIENT - BACKGROUND) + (1 - AMBIENT) * lit)[..., None]


def draw_face(
    proportions: Float[Array, "13"], values: Float[Array, "3"], *, size: int = DRAWN
) -> Float[Array, "height width 1"]:
    """Returns the smooth picture of one head, in [0, 1].

    Args:
        proportions: An identity vector.
        values: Azimuth, elevation and lighting in degrees.
        size: Height and width in pixels, a divisor of 64.
    """
    azimuth, elevation, lighting = values
    return shrink(light_face(face_surface(proportions, azimuth, elevation), lighting), size)


def _camera(azimuth: Scalar, elevation: Scalar) -> Camera:
    """The camera that sees the head so."""
    turn, rise = -jnp.deg2rad(azimuth), jnp.deg2rad(elevation)
    away = jnp.stack([jnp.cos(rise) * jnp.sin(turn), jnp.sin(rise), jnp.cos(rise) * jnp.cos(turn)])
    target = jnp.array([0.0, -0.08, 0.0])
    return look_at(target + 4 * away, target, VIEW, parallel=True)


def _head(proportions: Float[Array, "13"], point: Float[Array, "3"]) -> tuple[Scalar, Scalar]:
    """The distance, and how bright the skin is there."""
    width, height, depth, jaw, long, chin, nose, wide, brow, apart, cheek, lip, ear = proportions
    p = point.at[0].set(jnp.sqrt(point[0] ** 2 + 1e-6))

    def ball(x, y, z, radius) -> Scalar:
        return solid.sphere(p - jnp.stack([jnp.asarray(c, jnp.float32) for c in (x, y, z)]), radius)

    def egg(x, y, z, a, b, c) -> Scalar:
        center, axes = (
            jnp.stack([jnp.asarray(v, jnp.float32) for v in three])
            for three in ((x, y, z), (a, b, c))
        )
        return solid.ellipsoid(p - center, axes)

    def rod(start, end, radius) -> Scalar:
        first, last = (
            jnp.stack([jnp.asarray(v, jnp.float32) for v in three]) for three in (start, end)
        )
        return solid.capsule(p, first, last, radius)

    eye, mouth, front = 0.24 * apart, -0.52 * long, 0.66 * depth
    union = solid.smooth_minimum
    head = egg(0, 0.26, -0.10, 0.66 * width, 0.68 * height, 0.78 * depth)
    head = union(head, egg(0, -0.28, 0.14, 0.58 * jaw, 0.70 * long, 0.58 * depth), 0.35)
    head = union(head, ball(0, -0.80 * long, 0.44 * depth, 0.19 * chin), 0.25)
    head = union(head, ball(0.34 * jaw, -0.16, 0.44 * depth, 0.20 * cheek), 0.25)
    head = union(head, rod((0, 0.24, front - 0.02), (0.34, 0.22, front - 0.16), 0.09 * brow), 0.14)
    head = -union(-head, ball(eye, 0.07, front + 0.16, 0.15), 0.14)
    head = union(head, ball(eye, 0.06, front - 0.14, 0.14), 0.04)
    tip = -0.22 * long
    head = union(head, rod((0, 0.14, front), (0, tip, front + 0.16 * nose), 0.06 * wide), 0.13)
    head = union(head, ball(0.06 * wide, tip, front + 0.08 * nose, 0.06 * wide), 0.08)
    lips = rod((0, mouth + 0.05, front + 0.04), (0.22, mouth, front - 0.08), 0.055 * lip)
    lower = rod((0, mouth - 0.06, front + 0.03), (0.17, mouth - 0.03, front - 0.07), 0.06 * lip)
    lips = union(lips, lower, 0.04)
    head = union(head, lips, 0.05)
    head = union(head, egg(0.66 * width, 0.0, -0.10, 0.08 * ear, 0.20 * ear, 0.14 * ear), 0.08)
    head = union(head, rod((0, -0.75, -0.18), (0, -2.0, -0.30), 0.42 * jaw), 0.20)
    iris = ball(eye, 0.06, front, 0.07)
    brows = rod((0.11, 0.24, front + 0.04), (0.38, 0.24, front - 0.12), 0.03)
    dark = [(iris, 0.55), (lips, 0.35), (brows, 0.30)]
    gray = jnp.asarray(0.90)
    for part, amount in dark:
        gray = gray - amount * jax.nn.sigmoid(-(part - 0.01) / 0.015)
    return head, gray
