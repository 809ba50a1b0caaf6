"""Codes with planted answers: each case is a code of factors on a small grid."""

import numpy as np

from untwist.factors import FactorSpace

SIZES = (5, 4, 6)
SPACE = FactorSpace(("a", "b", "c"), SIZES, ("ordinal", "ordinal", "ordinal"))
CATEGORICAL = FactorSpace(("a", "b", "c"), SIZES, ("categorical",) * 3)
PERIODIC = FactorSpace(("a", "b", "c"), SIZES, ("periodic", "ordinal", "ordinal"))
GRID = np.asarray(SPACE.factors(np.arange(SPACE.grid_size)))


def standardized(factors):
    """Factors with mean 0 and variance 1 over the grid."""
    return (factors - GRID.mean(0)) / GRID.std(0)


def rotation(degrees, size=3):
    """A rotation of the first two coordinates."""
    turn = np.eye(size)
    angle = np.radians(degrees)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return turn


def items(count, seed=0):
    """Uniform factors, one row an item."""
    return np.random.default_rng(seed).integers(0, SIZES, size=(count, 3))


def correlated(count):
    """Factors of which the second mostly follows the first."""
    factors = items(count, 1)
    follow = np.random.default_rng(2).random(count) < 0.7
    factors[:, 1] = np.where(follow, np.minimum(factors[:, 0], 3), factors[:, 1])
    return factors


def cases(count=900):
    """Codes and factors by name."""
    rng = np.random.default_rng(3)
    factors = items(count)
    clean = standardized(factors) + 0.02 * rng.standard_normal((count, 3))
    angle = 2 * np.pi * factors[:, [0]] / SIZES[0]
    circle = np.concatenate([np.cos(angle), np.sin(angle), clean[:, 1:]], 1)
    linked = correlated(count)
    noise = rng.standard_normal((count, 3))
    return {
        "aligned": (clean, factors),
        "permuted": (clean[:, [2, 0, 1]], factors),
        "flipped": (clean * [-1, 1, -1], factors),
        "rescaled": (clean * [100.0, 1.0, 0.01], factors),
        "rotated_15": (clean @ rotation(15), factors),
        "rotated_30": (clean @ rotation(30), factors),
        "rotated_45": (clean @ rotation(45), factors),
        "mixed": (clean @ np.linalg.qr(rng.standard_normal((3, 3)))[0], factors),
        "noisy": (clean + 0.5 * noise, factors),
        "redundant": (np.concatenate([clean, clean[:, :1] + 0.05 * noise[:, :1]], 1), factors),
        "dead": (np.concatenate([clean, np.full((count, 1), 0.7)], 1), factors),
        "monotone": (np.exp(clean), factors),
        "periodic": (circle + 0.02 * rng.standard_normal(circle.shape), factors),
        "fewer": (clean[:, :2], factors),
        "more": (np.concatenate([clean, noise], 1), factors),
        "correlated": (standardized(linked) + 0.02 * noise, linked),
        "independent": (noise, factors),
    }


def live(codes):
    """Which latents vary."""
    return np.ptp(codes, axis=0) > 0


def binned(column, bins=20):
    """The number of the bin of each value, as numpy's histogram cuts them."""
    return np.digitize(column, np.histogram(column, bins)[1][:-1])


def with_column(codes, column):
    """The codes with one more latent, the last."""
    return np.concatenate([codes, column], 1)


CASES = cases()
FACTORS = np.concatenate([GRID, GRID])[:150]
CODES = standardized(FACTORS) + 0.05 * np.random.default_rng(0).standard_normal(FACTORS.shape)
ONE = FactorSpace(("a",), (5,), ("ordinal",))
MIXED = FactorSpace(("a", "b", "c"), (None, 4, 6), ("continuous", "categorical", "periodic"))
