"""Where files that can be had again are kept: downloads and drawn sets, in one place a user."""

import os
from pathlib import Path

import pooch

VARIABLE = "UNTWIST_CACHE"
"""The environment variable that names another place."""


def cache_directory() -> Path:
    """Returns the directory of cached files: `UNTWIST_CACHE`, else the platform's user cache.

    Nothing is created here; whoever writes a file into it makes the directory.
    """
    named = os.environ.get(VARIABLE, "")
    return Path(named).expanduser() if named else Path(pooch.os_cache("untwist"))
