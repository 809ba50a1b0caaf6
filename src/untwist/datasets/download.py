"""Fetching a published file into the cache, resumed where it stopped, from any host that has it."""

import hashlib
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from untwist.datasets.progress import progress_bar
from untwist.datasets.published_file import PublishedFile
from untwist.types import InputError

BLOCK = 2**18
TIMEOUT = 30.0


def download_file(published: PublishedFile, path: Path) -> None:
    """Fetches a file to `path`, trying its addresses in turn; nothing is put there unless whole.

    What has come is kept beside it, as .part, and the next attempt goes on from there. A file whose
    checksum is not the published one is thrown away, and the next address is tried.
    """
    import pooch

    if not published.urls:
        raise InputError(
            f"{published.name} cannot be fetched by a program: get it from {published.by_hand} and "
            f"put it at {path}"
        )
    known = f"sha256:{published.sha256}" if published.sha256 else None
    if known is None and published.binding:
        known = f"md5:{published.md5}"
    pooch.get_logger().setLevel("WARNING")
    fetch: Any = _fetch
    failures = []
    for url in published.urls:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pooch.retrieve(url, known, fname=path.name, path=path.parent, downloader=fetch)
            return
        except (OSError, HTTPException, ValueError) as error:
            failures.append(f"{url}: {_reason(error)}")
    raise InputError(
        f"cannot fetch {published.name}: {'; '.join(failures)}: put it at {path} by hand"
        + (f" ({published.checksum})" if published.checksum else "")
    )


def _fetch(url: str, output: str | Path, pooch: object) -> None:
    """Fetches an address to a file that pooch checks and moves into place."""
    del pooch
    part = _part(url, Path(output).parent)
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        part.replace(output)
        return
    with response:
        goes_on = response.status == 206
        length = int(response.headers.get("Content-Length") or 0)
        total = length + have if goes_on else length
        with (
            part.open("ab" if goes_on else "wb") as file,
            progress_bar(f"fetching {url.rsplit('/', 1)[-1]}", total, done=have * goes_on) as bar,
        ):
            while block := response.read(BLOCK):
                file.write(block)
                bar(len(block))
    if total and part.stat().st_size != total:
        raise OSError(f"the connection ended after {part.stat().st_size:,} of {total:,} bytes")
    part.replace(output)


def _part(url: str, folder: Path) -> Path:
    """Where what has come from an address so far is kept: apart from what other addresses gave."""
    name = url.rsplit("/", 1)[-1]
    return folder / f"{name}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.part"


def _reason(error: Exception) -> str:
    """Why an address failed, in a few words."""
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return f"no answer ({error.reason})"
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return "what came has another checksum than published and was thrown away"
    return str(error) or type(error).__name__
