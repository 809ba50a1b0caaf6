"""Datasets: the record, the sets that need no files, and the catalog that names them."""

from untwist.datasets.cache import cache_directory
from untwist.datasets.catalog import CATALOG, default_options, description, load, parse_options
from untwist.datasets.circles import circles, generate_circles
from untwist.datasets.dataset import Dataset, Likelihood, Provenance, blocks, decode_examples
from untwist.datasets.derived import correlated, rescaled, sampled, with_noise
from untwist.datasets.digits import digit_mixture, moving_digit
from untwist.datasets.export import export_dataset
from untwist.datasets.faces_twin import faces_twin
from untwist.datasets.generators import generator
from untwist.datasets.jacobian import generator_jacobian, grid_jacobian
from untwist.datasets.linear import generate_linear, linear, linear_mixing
from untwist.datasets.mpi3d_twin import mpi3d_complex_twin, mpi3d_twin
from untwist.datasets.nonlinear import (
    NonlinearWeights,
    generate_nonlinear,
    nonlinear,
    nonlinear_weights,
)
from untwist.datasets.pairs import LaplacePairs, UniformPairs, walk
from untwist.datasets.shapes3d_twin import shapes3d_twin
from untwist.datasets.sprite_drawing import draw_sprite
from untwist.datasets.sprites import sprite_values, sprites
from untwist.datasets.square import generate_square, square
from untwist.datasets.walks import NaturalPairs, generalized_normal_walk, read_changes

__all__ = [
    "CATALOG",
    "Dataset",
    "LaplacePairs",
    "Likelihood",
    "NaturalPairs",
    "NonlinearWeights",
    "Provenance",
    "UniformPairs",
    "blocks",
    "cache_directory",
    "circles",
    "correlated",
    "decode_examples",
    "default_options",
    "description",
    "digit_mixture",
    "draw_sprite",
    "export_dataset",
    "faces_twin",
    "generalized_normal_walk",
    "generate_circles",
    "generate_linear",
    "generate_nonlinear",
    "generate_square",
    "generator",
    "generator_jacobian",
    "grid_jacobian",
    "linear",
    "linear_mixing",
    "load",
    "moving_digit",
    "mpi3d_complex_twin",
    "mpi3d_twin",
    "nonlinear",
    "nonlinear_weights",
    "parse_options",
    "read_changes",
    "rescaled",
    "sampled",
    "shapes3d_twin",
    "sprite_values",
    "sprites",
    "square",
    "walk",
    "with_noise",
]
