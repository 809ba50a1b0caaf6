"""Where the files of datasets live."""

from pathlib import Path

import pooch
import pytest

from untwist.datasets import cache_directory
from untwist.types import InputError


def test_the_variable_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWIST_CACHE", str(tmp_path / "new"))
    assert cache_directory() == tmp_path / "new"
    assert not (tmp_path / "new").exists()


def test_a_home_and_a_relative_path_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNTWIST_CACHE", "here")
    assert cache_directory() == tmp_path / "here"
    monkeypatch.setenv("UNTWIST_CACHE", "~/there")
    assert cache_directory() == Path.home() / "there"


@pytest.mark.parametrize("value", [None, "", " "])
def test_without_the_variable_it_is_the_users_cache(value, monkeypatch):
    if value is None:
        monkeypatch.delenv("UNTWIST_CACHE", raising=False)
    else:
        monkeypatch.setenv("UNTWIST_CACHE", value)
    assert cache_directory() == Path(pooch.os_cache("untwist"))


def test_a_file_in_its_place_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNTWIST_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="is a file: set UNTWIST_CACHE to a directory"):
        cache_directory()
