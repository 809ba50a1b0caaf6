"""Two directories of `untwist perturb` side by side."""

from pathlib import Path

import numpy as np

from untwist.store import read_arrays, read_table

DATASETS = ("manipulated", "noise", "random-direction")


def assert_same(path: Path, straight: Path) -> None:
    """Both hold the same changes, curves, choice and preservation, to the bit."""
    for name in DATASETS:
        ours, theirs = (
            read_arrays(p / name / "perturbation.safetensors") for p in (path, straight)
        )
        assert ours.keys() == theirs.keys()
        for key, array in theirs.items():
            np.testing.assert_array_equal(ours[key], array)
    for file in ("learning.parquet", "preservation.parquet", "members.parquet"):
        ours, theirs = read_table(path / file), read_table(straight / file)
        for key, column in theirs.items():
            np.testing.assert_array_equal(ours[key], column)
