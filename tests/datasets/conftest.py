"""Every test of datasets has a cache of its own."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("UNTWIST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nothing_kept(cache):
    """Fails where a refused file has left anything in the cache."""
    yield
    assert not [path for path in cache.rglob("*") if path.is_file()]
