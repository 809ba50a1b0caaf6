"""The store: run directories that survive being killed and are readable without this package."""

from untwist.store import toml
from untwist.store.atomic import cannot_write, replacing
from untwist.store.query import query
from untwist.store.run import Run, create_run, environment, find_runs, holding, open_run
from untwist.store.table import read_table, write_table
from untwist.store.weights import fill, named_arrays, read_arrays, write_arrays

__all__ = [
    "Run",
    "cannot_write",
    "create_run",
    "environment",
    "fill",
    "find_runs",
    "holding",
    "named_arrays",
    "open_run",
    "query",
    "read_arrays",
    "read_table",
    "replacing",
    "toml",
    "write_arrays",
    "write_table",
]
