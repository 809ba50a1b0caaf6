"""Whether a perturbed dataset still holds its factors: a regressor and a nearest neighbor say so.

A manipulation that hid the factors would lower every score for a dull reason. So a network is
taught to read the factors from original images and another, alike, from perturbed ones, and both
are asked about images that they have not seen; and for perturbed images the nearest original is
sought among all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Num

from untwist.datasets import Dataset, decode_examples
from untwist.models import Encoder, Layers
from untwist.perturbation.features import factor_features, feature_owners
from untwist.types import InputError

DENSE = Layers(dense=(256, 256))
CONVOLUTIONAL = Layers(dense=(128,), channels=(32, 64), kernels=(4, 4))
RATE = 1e-3
LOOK, CHUNK = 200, 1024
"""Steps between looks at the images set aside; images read at a time."""
PRODUCTS = 2**33
"""How many products of pixels a search may take."""

_ADAM = optax.scale_by_adam()


@dataclass(frozen=True)
class Preservation:
    """What is left of the factors.

    Attributes:
        factors: The factors that vary.
        original: R^2 of each on unseen original images.
        perturbed: R^2 of each on unseen perturbed images.
        found: The share of perturbed images whose nearest original is the one they came from.
        searched: How many were sought.
        among: Among how many originals.
    """

    factors: tuple[str, ...]
    original: Float[np.ndarray, " factor"]
    perturbed: Float[np.ndarray, " factor"]
    found: float
    searched: int
    among: int

    @property
    def largest_loss(self) -> float:
        """The most that a factor lost, in points: hundredths of R^2."""
        return float(100 * (self.original - self.perturbed).max())


def measure_preservation(
    original: Dataset,
    perturbed: Dataset,
    *,
    steps: int = 2000,
    seed: int = 0,
    before: Float[np.ndarray, " factor"] | None = None,
) -> Preservation:
    """Returns how well the factors can be read from perturbed images, beside the original ones.

    R^2 of a factor is 1 - (squared error) / (variance) over its features: indicators of a
    categorical factor, cosine and sine of a periodic one, the value of the others.

    Args:
        original: The source.
        perturbed: The same images changed, row by row.
        steps: Steps of the regressors' training, on batches of 128.
        seed: Of weights, batches, and the choice of unseen images.
        before: What `factor_r2` gave for the original, if that is known.
    """
    if len(original) != len(perturbed) or original.shape != perturbed.shape:
        raise InputError(
            f"expected the same images perturbed, but got {len(original)} of {original.shape} and "
            f"{len(perturbed)} of {perturbed.shape}"
        )
    before = factor_r2(original, steps=steps, seed=seed) if before is None else before
    after = factor_r2(perturbed, steps=steps, seed=seed)
    found, searched, among = nearest_originals(original, perturbed, seed=seed)
    owners = dict.fromkeys(feature_owners(original.space))
    names = tuple(original.space.names[i] for i in owners)
    return Preservation(names, before, after, found, searched, among)


def factor_r2(
    dataset: Dataset, *, steps: int = 2000, seed: int = 0
) -> Float[np.ndarray, " factor"]:
    """Returns the R^2 of each factor that varies, read from unseen images by a small network.

    Each factor is read by the network as it was when it read that factor best from a fifth of the
    images set aside for this; another fifth is unseen.
    """
    order = np.random.default_rng(seed).permutation(len(dataset))
    fifth = len(order) // 5
    if not fifth:
        raise InputError(
            f"{dataset.name} has {len(dataset)} images, too few to teach a network on some and ask "
            "it about others: give at least 5"
        )
    aside, seen = order[: 2 * fifth], order[2 * fifth :]
    features = factor_features(dataset.factors, dataset.space)
    owners = np.array(feature_owners(dataset.space))
    kinds = np.stack([owners == factor for factor in dict.fromkeys(owners)])
    least, kept = np.full(len(kinds), np.inf), np.full(len(kinds), np.inf)
    for reader in _readers(dataset, features, seen, steps, seed):
        squares = (_read_all(reader, dataset, aside) - features[aside]) ** 2
        judged, unseen = (part.sum(0) @ kinds.T for part in np.split(squares, 2))
        kept = np.where(judged < least, unseen, kept)
        least = np.minimum(judged, least)
    centered = features[aside[fifth:]] - features[aside[fifth:]].mean(0)
    return 1 - kept / ((centered**2).sum(0) @ kinds.T)


def _readers(
    dataset: Dataset, features: np.ndarray, seen: np.ndarray, steps: int, seed: int
) -> Iterator[Encoder]:
    """The network before its training, which knows the means, and now and then on the way."""
    rng = np.random.default_rng((seed, 1))
    layers = DENSE if dataset.shape[0] % 4 or dataset.shape[1] % 4 else CONVOLUTIONAL
    reader = Encoder(layers, dataset.shape, features.shape[1], key=jax.random.key(seed))
    last = lambda r: (r.dense.layers[-1].weight, r.dense.layers[-1].bias)  # noqa: E731
    blind = (jnp.zeros_like(last(reader)[0]), jnp.asarray(features[seen].mean(0)))
    reader = eqx.tree_at(last, reader, blind)
    yield reader
    state = _ADAM.init(eqx.filter(reader, eqx.is_inexact_array))
    layout = (dataset.shape, dataset.peak, dataset.bits)
    for first in range(0, steps, LOOK):
        index = seen[rng.integers(len(seen), size=(LOOK, 128))]
        rows = np.asarray(dataset.data[index.reshape(-1)])
        rows = jnp.asarray(rows.reshape(*index.shape, *rows.shape[1:]))
        rate = jnp.float32(RATE * (1 - first / steps))
        reader, state = _read_on(reader, state, rows, jnp.asarray(features[index]), rate, layout)
        yield reader


def _read_all(
    reader: Encoder, dataset: Dataset, rows: np.ndarray
) -> Float[np.ndarray, "row feature"]:
    """What the network reads from these rows."""
    parts = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]
    return np.concatenate([_read(reader, jnp.asarray(dataset.examples(part))) for part in parts])


def nearest_originals(
    original: Dataset, perturbed: Dataset, *, seed: int, queries: int = 500
) -> tuple[float, int, int]:
    """Returns the share of perturbed images nearest to their own original, and the counts.

    An original that looks the same as the right one is right too. Where the dataset is large the
    search is among as many originals as time allows, the right ones always among them.
    """
    rng = np.random.default_rng(seed)
    asked = np.sort(rng.choice(len(original), min(queries, len(original)), replace=False))
    pixels = int(np.prod(original.shape))
    most = PRODUCTS // (pixels * len(asked))
    others = rng.choice(len(original), min(most, len(original)), replace=False)
    candidates = np.union1d(asked, others)
    wanted = perturbed.examples(asked).reshape(len(asked), -1)
    best = np.full(len(asked), np.inf)
    nearest = np.zeros(len(asked), int)
    for first in range(0, len(candidates), CHUNK):
        part = candidates[first : first + CHUNK]
        images = original.examples(part).reshape(len(part), -1)
        distance = (images**2).sum(1) - 2 * wanted @ images.T
        closest = distance.argmin(1)
        value = distance[np.arange(len(asked)), closest]
        nearer = value < best
        best[nearer], nearest[nearer] = value[nearer], part[closest[nearer]]
    same = (original.examples(nearest) == original.examples(asked)).reshape(len(asked), -1).all(1)
    return float(same.mean()), len(asked), len(candidates)


@eqx.filter_jit
def _read_on(
    reader: Encoder,
    state: optax.OptState,
    rows: Num[Array, "step batch *stored"],
    features: Float[Array, "step batch feature"],
    rate: Float[Array, ""],
    layout: tuple[tuple[int, ...], int, bool],
) -> tuple[Encoder, optax.OptState]:
    """The regressor after these batches."""
    arrays, statics = eqx.partition((reader, state), eqx.is_array)
    shape, peak, bits = layout

    def step(arrays, batch):
        reader, state = eqx.combine(arrays, statics)
        images = decode_examples(batch[0], shape=shape, peak=peak, bits=bits)
        loss = lambda reader: jnp.mean((jax.vmap(reader)(images) - batch[1]) ** 2)  # noqa: E731
        updates, state = _ADAM.update(eqx.filter_grad(loss)(reader), state)
        moved = eqx.apply_updates(reader, jax.tree.map(lambda u: -rate * u, updates))
        return eqx.filter((moved, state), eqx.is_array), None

    return eqx.combine(jax.lax.scan(step, arrays, (rows, features))[0], statics)


@eqx.filter_jit
def _read(reader: Encoder, images: Array) -> Float[Array, "batch feature"]:
    return jax.vmap(reader)(images)
