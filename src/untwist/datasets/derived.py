"""Datasets made from datasets: noisy, rescaled, correlated, or a sample of their rows."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from untwist.datasets.dataset import Dataset
from untwist.types import InputError

BLOCK = 4096


def with_noise(dataset: Dataset, size: float, *, key: Key[Array, ""]) -> Dataset:
    """Returns the dataset with independent uniform noise from -size to size on every value.

    Images are kept in [0, 1], cut off there, and come out as bytes with a peak of 255.

    Args:
        dataset: Images or vectors.
        size: The largest change; zietlow2021 takes that of the entangling manipulation.
        key: The randomness; the noise of a row depends on it and on the row alone.

    Reference:
        zietlow2021, section 5.1.
    """
    if not 0 < size < float("inf"):
        raise InputError(f"noise: expected a size above 0, but got {size}")
    kind = np.uint8 if dataset.is_image else np.float32
    data = np.empty((len(dataset), *dataset.shape), kind)
    for block in range(0, len(dataset), BLOCK):
        rows = slice(block, block + BLOCK)
        clean = dataset.examples(rows)
        drawn = jax.random.uniform(
            jax.random.fold_in(key, block), (BLOCK, *dataset.shape), minval=-size, maxval=size
        )
        noisy = clean + np.asarray(drawn)[: len(clean)]
        data[rows] = np.floor(255 * np.clip(noisy, 0, 1) + 0.5) if dataset.is_image else noisy
    provenance = dataset.provenance | {"noise": size, "of": dataset.name}
    name = f"{dataset.name}_noisy"
    return replace(dataset, name=name, data=data, provenance=provenance, peak=255, bits=False)


def rescaled(dataset: Dataset, scales: Float[np.ndarray, " column"] | float) -> Dataset:
    """Returns vectors with every coordinate times its scale, or images with all pixels times one.

    A scale of images must not lift them above 1; the provenance keeps a single scale.

    Args:
        dataset: Images or vectors.
        scales: One number, or for vectors one a coordinate.
    """
    factor = np.asarray(scales, np.float32)
    if not np.isfinite(factor).all() or (factor == 0).all():
        raise InputError("rescale: expected finite scales that are not all 0")
    if dataset.is_image:
        if factor.ndim or not 0 < factor <= 1:
            raise InputError(
                f"rescale: images take one scale above 0 and up to 1, but got {scales}"
            )
        pixels = dataset.examples(slice(None))
        data = np.floor(255 * factor * pixels + 0.5).astype(np.uint8)
    else:
        if factor.ndim and factor.shape != dataset.shape:
            raise InputError(
                f"rescale: expected one scale for each of {dataset.shape[0]} coordinates, but got "
                f"{factor.shape}"
            )
        data = dataset.data * factor
    provenance = dataset.provenance | {"of": dataset.name}
    if not factor.ndim:
        provenance["scale"] = float(factor)
    name = f"{dataset.name}_rescaled"
    return replace(dataset, name=name, data=data, provenance=provenance, peak=255, bits=False)


def sampled(dataset: Dataset, count: int, *, key: Key[Array, ""], repeat: bool = False) -> Dataset:
    """Returns uniformly drawn rows; with `repeat` a row may come more than once."""
    if count < 1 or (count > len(dataset) and not repeat):
        raise InputError(
            f"sample: expected from 1 to {len(dataset)} rows, but got {count}: repeat them for more"
        )
    index = jax.random.choice(key, len(dataset), (count,), replace=repeat)
    return dataset.subset(np.asarray(index))


def correlated(
    dataset: Dataset,
    joint: Float[np.ndarray, "*grid"],
    factors: tuple[str, ...],
    count: int,
    *,
    key: Key[Array, ""],
) -> Dataset:
    """Returns rows of a full grid in which some factors follow a joint distribution.

    The other factors stay independent and uniform.

    Args:
        dataset: A dataset on a full grid.
        joint: The weight of each combination, one axis a factor; it need not sum to 1.
        factors: The names of the axes.
        count: How many rows; a row may come more than once.
        key: The randomness.
    """
    space = dataset.space
    if not dataset.has_full_grid:
        raise InputError(f"{dataset.name} is not a full grid, so its factors cannot be correlated")
    unknown = [name for name in factors if name not in space.names]
    if unknown or len(set(factors)) < len(factors):
        raise InputError(
            f"correlated: expected different factors among {', '.join(space.names)}, but got "
            f"{', '.join(factors)}"
        )
    columns = [space.names.index(name) for name in factors]
    sizes = tuple(space.grid_sizes[column] for column in columns)
    weights = np.asarray(joint, np.float64)
    if weights.shape != sizes or not np.isfinite(weights).all() or weights.min() < 0:
        raise InputError(
            f"correlated: expected weights of 0 or more in the shape {sizes}, but got {joint.shape}"
        )
    if weights.sum() == 0 or count < 1:
        raise InputError("correlated: expected a positive weight and at least one row")
    rows_key, joint_key = jax.random.split(key)
    rows = np.array(space.sample(count, key=rows_key))
    chosen = jax.random.choice(
        joint_key, weights.size, (count,), p=(weights / weights.sum()).ravel().astype(np.float32)
    )
    rows[:, columns] = np.stack(np.unravel_index(np.asarray(chosen), sizes), -1)
    part = dataset.subset(np.asarray(space.index(rows)))
    return replace(part, provenance=part.provenance | {"correlated": " ".join(factors)})
