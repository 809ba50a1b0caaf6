"""Datasets: the record, the sets drawn here, those read from files, and the catalog of all."""

from untwist.datasets.availability import availability, name_of_file
from untwist.datasets.cache import cache_directory
from untwist.datasets.catalog import CATALOG, default_options, description, load, parse_options
from untwist.datasets.circles import circles
from untwist.datasets.dataset import (
    AbstractRows,
    Dataset,
    Likelihood,
    Provenance,
    decode_examples,
)
from untwist.datasets.derived import correlated, rescaled, sampled, with_noise
from untwist.datasets.digits import digit_mixture, moving_digit
from untwist.datasets.export import export_dataset
from untwist.datasets.faces_twin import faces_twin
from untwist.datasets.found_file import forget_seen
from untwist.datasets.generators import GENERATORS, generator
from untwist.datasets.jacobian import generator_jacobian, grid_jacobian
from untwist.datasets.linear import generate_linear, linear
from untwist.datasets.mpi3d_twin import mpi3d_complex_twin, mpi3d_twin
from untwist.datasets.nonlinear import (
    generate_nonlinear,
    nonlinear,
    nonlinear_weights,
)
from untwist.datasets.own import imported_names, imported_path, own, settled_name
from untwist.datasets.pairs import LaplacePairs, Pairs, UniformPairs, walk
from untwist.datasets.shapes3d_twin import shapes3d_twin
from untwist.datasets.sprites import sprites
from untwist.datasets.square import square
from untwist.datasets.walks import NaturalPairs, generalized_normal_walk, read_changes

__all__ = [
    "CATALOG",
    "GENERATORS",
    "AbstractRows",
    "Dataset",
    "LaplacePairs",
    "Likelihood",
    "NaturalPairs",
    "Pairs",
    "Provenance",
    "UniformPairs",
    "availability",
    "cache_directory",
    "circles",
    "correlated",
    "decode_examples",
    "default_options",
    "description",
    "digit_mixture",
    "export_dataset",
    "faces_twin",
    "forget_seen",
    "generalized_normal_walk",
    "generate_linear",
    "generate_nonlinear",
    "generator",
    "generator_jacobian",
    "grid_jacobian",
    "imported_names",
    "imported_path",
    "linear",
    "load",
    "moving_digit",
    "mpi3d_complex_twin",
    "mpi3d_twin",
    "name_of_file",
    "nonlinear",
    "nonlinear_weights",
    "own",
    "parse_options",
    "read_changes",
    "rescaled",
    "sampled",
    "settled_name",
    "shapes3d_twin",
    "sprites",
    "square",
    "walk",
    "with_noise",
]
