"""Datasets: the record, the sets that need no files, and the catalog that names them."""

from untwist.datasets.cache import cache_directory
from untwist.datasets.catalog import CATALOG, default_options, description, load, parse_options
from untwist.datasets.circles import circles, generate_circles
from untwist.datasets.dataset import (
    AbstractRows,
    Dataset,
    Likelihood,
    Provenance,
    blocks,
    decode_examples,
)
from untwist.datasets.export import export_dataset
from untwist.datasets.linear import generate_linear, linear, linear_mixing
from untwist.datasets.nonlinear import (
    NonlinearWeights,
    generate_nonlinear,
    nonlinear,
    nonlinear_weights,
)
from untwist.datasets.pairs import LaplacePairs, Pairs, UniformPairs, walk
from untwist.datasets.sprite_drawing import draw_sprite
from untwist.datasets.sprites import sprite_values, sprites
from untwist.datasets.square import generate_square, square

__all__ = [
    "CATALOG",
    "AbstractRows",
    "Dataset",
    "LaplacePairs",
    "Likelihood",
    "NonlinearWeights",
    "Pairs",
    "Provenance",
    "UniformPairs",
    "blocks",
    "cache_directory",
    "circles",
    "decode_examples",
    "default_options",
    "description",
    "draw_sprite",
    "export_dataset",
    "generate_circles",
    "generate_linear",
    "generate_nonlinear",
    "generate_square",
    "linear",
    "linear_mixing",
    "load",
    "nonlinear",
    "nonlinear_weights",
    "parse_options",
    "sprite_values",
    "sprites",
    "square",
    "walk",
]
