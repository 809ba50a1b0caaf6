"""Perturbed datasets: datasets like any other, with the same factors and their own provenance."""

from dataclasses import replace

import numpy as np

from untwist.datasets import Dataset, Provenance
from untwist.perturbation.change import AbstractChange, check_epsilon
from untwist.perturbation.learning import check_source
from untwist.perturbation.rows import CHUNK, PerturbedRows

KEPT_BYTES = 2**30
"""Up to so many bytes the images are computed once and kept in memory; above, when read."""


def perturbed_dataset(
    source: Dataset,
    change: AbstractChange,
    epsilon: float,
    *,
    name: str,
    provenance: Provenance | None = None,
) -> Dataset:
    """Returns the images of a dataset with a change applied to each, factors as they were.

    Binary images become gray: one byte a pixel, 255 for 1, whatever the source's layout. The
    likelihood stays the source's: a Bernoulli on gray values differs from the exact one only by a
    constant of the data (`untwist.models.likelihood`), and so beta keeps its meaning across the
    original and the changed images.

    Args:
        source: The original images.
        change: What is done to them.
        epsilon: The largest change of a pixel.
        name: What the dataset is called.
        provenance: What to say of it beyond its source and epsilon.
    """
    check_epsilon(epsilon)
    check_source(source)
    rows = PerturbedRows(source, change, epsilon)
    data = rows[:] if rows.nbytes <= KEPT_BYTES else rows
    told = source.provenance | {"perturbed": True, "epsilon": epsilon} | (provenance or {})
    return replace(
        source,
        name=name,
        data=data,
        provenance=told,
        peak=255,
        bits=False,
    )


def pixel_changes(original: Dataset, perturbed: Dataset) -> tuple[float, float]:
    """Returns the largest and the mean absolute change of a pixel, over all images.

    >>> from untwist.datasets import load
    >>> images = load("sprites", size=16, orientations=1, positions=2)
    >>> pixel_changes(images, images)
    (0.0, 0.0)
    """
    largest, total = 0.0, 0.0
    for first in range(0, len(original), CHUNK):
        rows = slice(first, first + CHUNK)
        change = np.abs(perturbed.examples(rows) - original.examples(rows))
        largest = max(largest, float(change.max()))
        total += float(change.sum(dtype=np.float64))
    return largest, total / (len(original) * int(np.prod(original.shape)))
