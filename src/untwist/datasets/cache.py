"""The cache: one directory for the files of datasets, those fetched and those made from them."""

import os
from pathlib import Path

from untwist.types import InputError

VARIABLE = "UNTWIST_CACHE"


def cache_directory() -> Path:
    """Returns where files of datasets live: `UNTWIST_CACHE`, or the user's cache on this platform.

    The directory need not exist yet. A relative path is taken from the working directory and `~` is
    the home, as in a shell.
    """
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        path = Path(named).expanduser().absolute()
    else:
        import pooch

        path = Path(pooch.os_cache("untwist"))
    if path.exists() and not path.is_dir():
        raise InputError(
            f"the cache of datasets must be a directory, but {path} is a file: "
            f"set {VARIABLE} to a directory"
        )
    return path
