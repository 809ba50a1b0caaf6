"""Decoders whose local geometry is known in closed form."""

import jax.numpy as jnp
import numpy as np


def rotation(angle):
    """The plane rotation by an angle."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def orthogonal(size, seed=0):
    """A random rotation."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def frame(rows, columns, seed=0):
    """Orthonormal columns."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((rows, columns)))[0]


def linear(values, turn, pixels=7):
    """U diag(values) V' with V prescribed: singular values and right vectors are known."""
    matrix = frame(pixels, len(values), 5) @ np.diag(values) @ np.asarray(turn).T
    return (lambda z: jnp.asarray(matrix, z.dtype) @ z), matrix


def polar(z):
    """Polar coordinates: columns (1, r), orthogonal everywhere."""
    return z[0] * jnp.array([jnp.cos(z[1]), jnp.sin(z[1])])


def spherical(z):
    """Spherical coordinates: column lengths 1, r and r sin(theta)."""
    r, theta, phi = z
    ring = r * jnp.sin(theta)
    return jnp.array([ring * jnp.cos(phi), ring * jnp.sin(phi), r * jnp.cos(theta)])


def conformal(z):
    """The complex exponential: a multiple of a rotation everywhere, so equal singular values."""
    return jnp.exp(z[0]) * jnp.array([jnp.cos(z[1]), jnp.sin(z[1])])


def entangled(decode, turn):
    """A decoder behind a rotation of its latents."""
    return lambda z: decode(jnp.asarray(turn, z.dtype) @ z)


def piecewise(z):
    """Linear on each side of zero: no bends, orthogonal columns."""
    return jnp.array([jnp.where(z[0] > 0, 3 * z[0], z[0]), 2 * z[1], 0.5 * z[1]])


def curved(z):
    """A separable curve an axis: orthogonal columns whose lengths vary."""
    bent = z + 0.3 * jnp.sin(2 * z)
    return jnp.asarray(frame(9, 3, 4), z.dtype) @ (jnp.array([3.0, 1.5, 0.7], z.dtype) * bent)


def dead(z):
    """Three latents of which the middle one does nothing."""
    return jnp.array([2 * z[0], z[2], z[0] * 0])
