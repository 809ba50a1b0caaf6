"""Datasets: the record, and the sets that need no files."""

from untwist.datasets.dataset import Dataset, Likelihood, Provenance, decode_examples

__all__ = ["Dataset", "Likelihood", "Provenance", "decode_examples"]
