"""Whether a perturbed dataset still holds its factors: a regressor and a nearest neighbor say so.

A manipulation that hid the factors would lower every score for a dull reason. So a network is
taught to read the factors from original images and another, alike, from perturbed ones, and both
are asked about images that they have not seen; and for perturbed images the nearest original is
sought among all.
"""

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

READER = Layers(dense=(256, 256))
TEST_SHARE = 0.2
CANDIDATES = 2**31
"""How many products of pixels a search may take."""


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
    original: Dataset, perturbed: Dataset, *, steps: int = 3000, seed: int = 0
) -> Preservation:
    """Returns how well the factors can be read from perturbed images, beside the original ones.

    R^2 of a factor is 1 - (squared error) / (variance) over its features: indicators of a
    categorical factor, cosine and sine of a periodic one, the value of the others.

    Args:
        original: The source.
        perturbed: The same images changed, row by row.
        steps: Steps of the regressors' training, on batches of 128.
        seed: Of weights, batches, and the choice of unseen images.
    """
    if len(original) != len(perturbed) or original.shape != perturbed.shape:
        raise InputError(
            f"expected the same images perturbed, but got {len(original)} of {original.shape} and "
            f"{len(perturbed)} of {perturbed.shape}"
        )
    before, after = (factor_r2(d, steps=steps, seed=seed) for d in (original, perturbed))
    found, searched, among = nearest_originals(original, perturbed, seed=seed)
    owners = dict.fromkeys(feature_owners(original.space))
    names = tuple(original.space.names[i] for i in owners)
    return Preservation(names, before, after, found, searched, among)


def factor_r2(dataset: Dataset, *, steps: int, seed: int) -> Float[np.ndarray, " factor"]:
    """Returns the R^2 of each factor that varies, read from unseen images by a dense network."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(dataset))
    unseen, seen = np.split(order, [max(1, round(TEST_SHARE * len(order)))])
    if len(seen) < 1:
        raise InputError(f"{dataset.name} is too small to split: it has {len(dataset)} images")
    features = factor_features(dataset.factors, dataset.space)
    reader = Encoder(READER, dataset.shape, features.shape[1], key=jax.random.key(seed))
    state = _ADAM.init(eqx.filter(reader, eqx.is_inexact_array))
    layout = (dataset.shape, dataset.peak, dataset.bits)
    for first in range(0, steps, 250):
        index = seen[rng.integers(len(seen), size=(min(250, steps - first), 128))]
        rows = np.asarray(dataset.data[index.reshape(-1)])
        rows = jnp.asarray(rows.reshape(*index.shape, *rows.shape[1:]))
        rate = _RATE * (1 - (first / steps)) ** 2
        reader, state = _read_on(reader, state, rows, jnp.asarray(features[index]), rate, layout)
    error = np.zeros(features.shape[1])
    for first in range(0, len(unseen), 1024):
        part = unseen[first : first + 1024]
        predicted = _read(reader, jnp.asarray(dataset.examples(part)))
        error += ((np.asarray(predicted) - features[part]) ** 2).sum(0)
    spread = ((features[unseen] - features[unseen].mean(0)) ** 2).sum(0)
    owners = np.array(feature_owners(dataset.space))
    return np.array(
        [1 - error[owners == i].sum() / spread[owners == i].sum() for i in dict.fromkeys(owners)]
    )


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
    most = max(len(asked), CANDIDATES // (pixels * len(asked)) * 16)
    others = rng.choice(len(original), min(most, len(original)), replace=False)
    candidates = np.union1d(asked, others)
    wanted = perturbed.examples(asked).reshape(len(asked), -1)
    best = np.full(len(asked), np.inf)
    nearest = np.zeros(len(asked), int)
    for first in range(0, len(candidates), 1024):
        part = candidates[first : first + 1024]
        images = original.examples(part).reshape(len(part), -1)
        distance = (images**2).sum(1) - 2 * wanted @ images.T
        closest = distance.argmin(1)
        value = distance[np.arange(len(asked)), closest]
        nearer = value < best
        best[nearer], nearest[nearer] = value[nearer], part[closest[nearer]]
    same = (original.examples(nearest) == original.examples(asked)).reshape(len(asked), -1).all(1)
    return float(same.mean()), len(asked), len(candidates)


_RATE = 1e-3
_ADAM = optax.scale_by_adam()


@eqx.filter_jit
def _read_on(
    reader: Encoder,
    state: optax.OptState,
    rows: Num[Array, "step batch *stored"],
    features: Float[Array, "step batch feature"],
    rate: float,
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
