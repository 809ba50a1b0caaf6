"""A small grid of images, and models of it that tell an axis well, badly or mixed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from untwist.datasets import Dataset, load
from untwist.factors import FactorSpace
from untwist.models import ARCHITECTURES, LIKELIHOODS, build

LAYERS = ARCHITECTURES["small"].decoder


def bars(side=6, *, columns=True):
    """Gray images of a bright row and a bright column: two factors that do not touch."""
    space = FactorSpace(("row", "column"), (side, side), ("ordinal", "ordinal"))
    factors = np.asarray(space.factors(np.arange(side * side)))
    images = np.full((side * side, 8, 8, 1), 64, np.uint8)
    for image, (row, column) in zip(images, factors, strict=True):
        image[row + 1, :4] = 192
        if columns:
            image[4:, column + 1] = 192
    provenance = {"source": "planted", "twin": False}
    return Dataset("bars", images, factors, space, "squared_error", provenance, (8, 8, 1))


def sprites():
    return load("sprites", size=16, scales=1, orientations=1, positions=4)


def models(dataset, count=2, latents=2):
    """Untrained models, stacked."""
    keys = jax.random.split(jax.random.key(0), count)
    likelihood = LIKELIHOODS[dataset.likelihood]()
    make = lambda key: build(  # noqa: E731
        ARCHITECTURES["small"], dataset.shape, latents, likelihood, key=key
    )
    return eqx.filter_vmap(make)(keys)


def same(tree, other):
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        if eqx.is_array(a):
            assert (jnp.asarray(a) == jnp.asarray(b)).all()
