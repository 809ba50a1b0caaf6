"""Files of the store: written whole or not at all, and refused when damaged."""

import os
import tomllib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from untwist.store import (
    fill,
    named_arrays,
    read_arrays,
    read_table,
    replacing,
    toml,
    write_arrays,
    write_table,
)
from untwist.types import InputError

ARRAYS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "alive": np.array([True, False]),
    "seed": np.array(7, np.uint32),
}


def test_arrays_come_back_to_the_bit(tmp_path):
    write_arrays(tmp_path / "w.safetensors", ARRAYS)
    stored = read_arrays(tmp_path / "w.safetensors")
    assert stored.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert stored[name].dtype == array.dtype
        np.testing.assert_array_equal(stored[name], array)


@pytest.mark.parametrize("place", [8, -1])
def test_one_changed_byte_is_noticed(tmp_path, place):
    path = tmp_path / "w.safetensors"
    write_arrays(path, ARRAYS)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"w\.safetensors is damaged"):
        read_arrays(path)


@pytest.mark.parametrize("length", [0, 5, 60])
def test_a_truncated_file_is_damaged(tmp_path, length):
    for write, read, value in (
        (write_arrays, read_arrays, ARRAYS),
        (write_table, read_table, {"a": np.arange(3)}),
    ):
        path = tmp_path / "file"
        write(path, value)
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(InputError, match="is damaged"):
            read(path)


def test_tables_come_back(tmp_path):
    columns = {
        "member": np.arange(3),
        "kl": np.arange(6, dtype=np.float32).reshape(3, 2),
        "status": np.array(["ok", "diverged", "ok"]),
    }
    write_table(tmp_path / "t.parquet", columns)
    stored = read_table(tmp_path / "t.parquet")
    for name, column in columns.items():
        np.testing.assert_array_equal(stored[name], column)


@pytest.mark.parametrize(
    "table",
    [
        {"a": 1, "b": 0.1, "c": True, "d": 'quo"te\n\\ é', "e": [1, 2], "f": []},
        {"x": {"y": {"z": 1e-4}, "w": ["a"]}, "dotted.key": 1, "": 2},
        {"f": 1e22, "n": float("inf"), "tuple": (1.5, 2.0)},
    ],
)
def test_toml_is_what_the_standard_library_reads(table):
    expected = {k: list(v) if isinstance(v, tuple) else v for k, v in table.items()}
    assert tomllib.loads(toml.dump(table)) == expected


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(str(1 / 0))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    write_arrays(path, ARRAYS)

    # /dev/full refuses every byte: write there in place of the temporary file.
    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda _, data: write_bytes(Path("/dev/full"), data))
    with pytest.raises(InputError, match="No space left on device; free some space and resume"):
        write_arrays(path, {"other": np.zeros(3)})
    monkeypatch.undo()
    assert read_arrays(path).keys() == ARRAYS.keys()
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_a_forbidden_directory_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot write .*; choose a directory"):
        write_arrays(tmp_path / "missing" / "w.safetensors", ARRAYS)


def test_trees_are_named_by_their_paths_and_filled_by_them(tmp_path):
    tree = {"layers": [{"weight": jnp.ones((2, 2)), "name": "dense"}]}
    assert list(named_arrays(tree, "m.")) == ["m.layers.0.weight"]
    filled = fill(tree, {"m.layers.0.weight": np.eye(2, dtype=np.float32)}, "m.", where=tmp_path)
    np.testing.assert_array_equal(filled["layers"][0]["weight"], np.eye(2))
    assert filled["layers"][0]["name"] == "dense"


@pytest.mark.parametrize(
    "arrays", [{}, {"w": np.zeros(3, np.float32)}, {"w": np.zeros((2, 2), np.float64)}]
)
def test_arrays_that_do_not_fit_are_refused(arrays, tmp_path):
    with pytest.raises(InputError, match=r"expected w as float32\[2, 2\], but it holds"):
        fill({"w": jnp.zeros((2, 2))}, arrays, where=tmp_path)
