"""Where cached files go."""

from pathlib import Path

from untwist.datasets import cache_directory


def test_the_variable_names_the_place(monkeypatch, tmp_path):
    monkeypatch.setenv("UNTWIST_CACHE", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    assert not cache_directory().exists()
    monkeypatch.setenv("UNTWIST_CACHE", "~/elsewhere")
    assert cache_directory() == Path.home() / "elsewhere"


def test_without_it_the_platform_decides(monkeypatch):
    monkeypatch.delenv("UNTWIST_CACHE", raising=False)
    place = cache_directory()
    assert place.is_absolute()
    assert place.name == "untwist" or place.parent.name == "untwist"
    monkeypatch.setenv("UNTWIST_CACHE", "")
    assert cache_directory() == place
