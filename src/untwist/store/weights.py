"""Arrays of a pytree as one safetensors file, each under the path that leads to it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from untwist.store.atomic import replacing
from untwist.types import InputError

Tree = TypeVar("Tree")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays, and a digest of them, in place of whatever the file held."""
    ready = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(save(ready, {"sha256": _digest(ready)}))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns the named arrays; an error where a single bit of them has changed."""
    try:
        with safe_open(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            expected = (file.metadata() or {}).get("sha256")
    except SafetensorError as error:
        raise InputError(f"{path} is damaged: expected safetensors, but {error}") from error
    if expected != _digest(arrays):
        raise InputError(f"{path} is damaged: its arrays do not match the digest stored with them")
    return arrays


def named_arrays(tree: object, prefix: str = "") -> dict[str, np.ndarray]:
    """Returns the array leaves of a tree by their paths: `encoder.dense.layers.0.weight`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        prefix + jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in leaves
        if isinstance(leaf, jax.Array | np.ndarray)
    }


def fill(tree: Tree, arrays: Mapping[str, np.ndarray], prefix: str = "", *, where: Path) -> Tree:
    """Returns the tree with its arrays replaced by the stored ones of the same paths."""

    def leaf(path: tuple, old: object) -> object:
        if not isinstance(old, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
            return old
        name = prefix + jax.tree_util.keystr(path, simple=True, separator=".")
        new = arrays.get(name)
        if new is None or new.shape != old.shape or new.dtype != old.dtype:
            came = "nothing" if new is None else f"{new.dtype}{list(new.shape)}"
            raise InputError(
                f"{where} does not fit its run: expected {name} as {old.dtype}{list(old.shape)}, "
                f"but it holds {came}; it belongs to another run or version"
            )
        return new

    return jax.tree_util.tree_map_with_path(leaf, tree)


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A checksum of names, types, shapes and content."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
