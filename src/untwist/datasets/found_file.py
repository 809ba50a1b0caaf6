"""A published file on this machine: where it is, whether it is the right one, what is known of it.

A file is identified by its sha256. Where a checksum is published it must agree; where none is, the
first file that passes all checks is recorded in a small TOML in the cache, and later ones must be
the same. The record also keeps size and time of every file accepted, so that one that has not
changed since is not read again, and what was checked.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from untwist.datasets.cache import VARIABLE, cache_directory
from untwist.datasets.download import download_file
from untwist.datasets.progress import progress_bar
from untwist.datasets.published_file import PublishedFile
from untwist.store import toml
from untwist.types import InputError

CHECKS = 1
"""Raised when checks are added, so that files accepted before are checked again."""

UNVERIFIED = "nothing but its content: its checksum is not the published one"
READ_BYTES = 2**22

TWINS = {
    "dsprites": "sprites",
    "faces": "faces_twin",
    "mpi3d_real": "mpi3d_twin",
    "mpi3d_real_complex": "mpi3d_complex_twin",
    "mpi3d_realistic": "mpi3d_twin",
    "mpi3d_toy": "mpi3d_twin",
    "shapes3d": "shapes3d_twin",
}
"""The procedural twins of datasets that come in files."""

UNCHECKED = ".unchecked"
"""The ending of a fetched file that no checksum vouches for, until it has passed every check."""


@dataclass(frozen=True)
class Access:
    """How to come by the files of a dataset.

    Attributes:
        path: The file, or the directory that holds it; the cache if None.
        download: Whether to fetch what is missing.
        unverified: Whether to accept a file by its content alone, against its checksum.
    """

    path: str | None = None
    download: bool = False
    unverified: bool = False


@dataclass(frozen=True)
class FoundFile:
    """A published file on this machine.

    Attributes:
        dataset: The name of the dataset.
        published: What is known of the file.
        path: Where it is.
        sha256: Its own checksum.
        confirmed: What says that it is the right file; empty if nothing does yet.
        accepted: Whether it was checked before and has not changed since.
        checks: What was verified then.
    """

    dataset: str
    published: PublishedFile
    path: Path
    sha256: str
    confirmed: str
    accepted: bool
    checks: tuple[str, ...] = ()

    @property
    def record(self) -> Path:
        """Where the record of this file is."""
        return cache_directory() / self.dataset / f"{self.published.name}.toml"

    @property
    def what(self) -> str:
        """The dataset and the file, as errors begin."""
        return f"{self.dataset}: {self.path}"

    @property
    def certain(self) -> bool:
        """Whether a published checksum says that it is the right file."""
        return self.confirmed.startswith("the published")

    @property
    def confirmed_by(self) -> str:
        """What says that it is the right file, or that nothing but its content does."""
        return self.confirmed or UNVERIFIED

    def made(self, part: str) -> Path:
        """Returns where an array made from this very file lies in the cache."""
        return self.record.parent / f"{part}-{self.sha256[:16]}.npy"

    def confirm_content(self, sha256: str) -> "FoundFile":
        """Returns this file confirmed by what it unpacks to, where that is known."""
        if self.published.content_sha256 and sha256 == self.published.content_sha256:
            return replace(self, confirmed="the published sha256 of its content")
        return self

    def require_confirmed(self, access: Access) -> None:
        """Raises where the checksum is not the one published or recorded."""
        if not self.confirmed and self.published.binding and not access.unverified:
            raise InputError(
                f"{self.what}: expected {self.published.checksum}, the published checksum, but got "
                f"{_same_kind(self)}: get the file anew, or, if you repacked it yourself, say "
                "unverified=yes to accept it by its content"
            )

    def accept(self, checks: list[str]) -> None:
        """Records that this file passed, with what was checked."""
        path = self.path.with_name(self.path.name.removesuffix(UNCHECKED))
        if path != self.path:
            self.path.replace(path)
        table = _read_record(self.record)
        stat = path.stat()
        others = table["seen"] if table.get("sha256") == self.sha256 else {}
        seen = {**others, str(path): [stat.st_size, stat.st_mtime_ns]}
        self.record.parent.mkdir(parents=True, exist_ok=True)
        toml.write(
            self.record,
            {
                "sha256": self.sha256,
                "confirmed": self.confirmed_by,
                "version": CHECKS,
                "checks": checks,
                "seen": seen,
            },
        )


def find_file(dataset: str, published: PublishedFile, access: Access) -> FoundFile:
    """Returns the file that `access` leads to; raises with what to do where there is none."""
    path = _locate(dataset, published, access)
    bare = FoundFile(dataset, published, path, "", "", False)
    record = _read_record(bare.record)
    stat = path.stat()
    seen = record.get("seen", {}).get(str(path)) == [stat.st_size, stat.st_mtime_ns]
    if seen and record["version"] == CHECKS and _still_confirmed(record["confirmed"], access):
        return replace(
            bare,
            sha256=record["sha256"],
            confirmed=record["confirmed"],
            accepted=True,
            checks=tuple(record["checks"]),
        )
    if published.size and stat.st_size != published.size and stat.st_size == 0:
        raise InputError(f"{bare.what}: the file is empty: get it anew")
    sha256, md5 = _hash(path, md5=bool(published.md5 and not published.sha256))
    found = replace(bare, sha256=sha256, confirmed=_confirmation(published, sha256, md5))
    if not found.confirmed and not published.binding and record.get("sha256"):
        if record["sha256"] != sha256:
            raise InputError(
                f"{bare.what}: no checksum of it is published, and it is not the file that was "
                f"loaded first: expected sha256 {record['sha256']}, recorded then, but got "
                f"{sha256}: get the first one, or, if this is the right one, delete {bare.record}"
            )
    if not found.confirmed and not published.binding:
        found = replace(found, confirmed="the checksum recorded at its first load")
    return found


def find_folder(dataset: str, folder: Path, pattern: str) -> FoundFile:
    """Returns a folder of files as one, known by the names, sizes and times of those it holds."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob(pattern)):
        stat = file.stat()
        digest.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    sha256 = digest.hexdigest()
    found = FoundFile(dataset, PublishedFile(folder.name), folder, sha256, "its content", False)
    record = _read_record(found.record)
    if record.get("sha256") != sha256 or record["version"] != CHECKS or not record["seen"]:
        return found
    return replace(found, accepted=True, checks=tuple(record["checks"]))


def forget_seen(dataset: str) -> None:
    """Makes the next load check every file of the dataset again; checksums stay recorded."""
    for record in sorted((cache_directory() / dataset).glob("*.toml")):
        toml.write(record, {**_read_record(record), "seen": {}})


def is_here(dataset: str, published: PublishedFile) -> bool:
    """Returns whether the file lies in the cache, or was accepted elsewhere and is still there."""
    return next(_places(dataset, published), None) is not None


def _places(dataset: str, published: PublishedFile) -> Iterator[Path]:
    """The places that have the file: the cache first, then those where it was accepted before."""
    inside = cache_directory() / dataset / published.name
    seen = _read_record(inside.with_name(f"{inside.name}.toml")).get("seen", {})
    yield from (path for path in (inside, *map(Path, seen)) if path.is_file())


def _locate(dataset: str, published: PublishedFile, access: Access) -> Path:
    """The path of the file, fetched if need be and allowed."""
    inside = cache_directory() / dataset / published.name
    if access.path is None:
        path = next(_places(dataset, published), inside)
        if not path.exists() and access.download:
            path = path if published.binding else path.with_name(path.name + UNCHECKED)
            path.unlink(missing_ok=True)
            download_file(published, path)
    else:
        path = Path(access.path).expanduser().absolute()
        if path.is_dir():
            path = path / published.name
    if not path.is_file():
        raise InputError(_missing(dataset, published, path, inside))
    return path


def _missing(dataset: str, published: PublishedFile, path: Path, inside: Path) -> str:
    """Which file to put where, and how to know it."""
    size = f"{published.size:,} bytes" if published.size else ""
    facts = ", ".join(part for part in (size, published.checksum) if part)
    if published.earlier:
        facts += " for an earlier upload"
    origin = published.urls[0] if published.urls else published.by_hand
    where = "" if path == inside else f"is not at {path}: "
    twin = TWINS.get(dataset)
    drawn = f"; its twin {twin!r} needs no file" if twin else ""
    fetch = f", or say download=yes (`--set download=yes`) to fetch it from {origin}"
    by_hand = f"; it comes from {origin}"
    return (
        f"{dataset}: the file {published.name} {where or 'is missing: '}put it at {inside}"
        f" ({facts or 'no checksum is published: the first load records one'}), give its place as "
        f"path=..., or set {VARIABLE}{fetch if published.urls else by_hand}{drawn}"
    )


def _hash(path: Path, *, md5: bool) -> tuple[str, str]:
    """The sha256 of a file, and its md5 if wanted, in one pass."""
    digests = [hashlib.sha256()] + ([hashlib.md5(usedforsecurity=False)] if md5 else [])
    with path.open("rb") as file, progress_bar(f"hashing {path.name}", path.stat().st_size) as bar:
        while block := file.read(READ_BYTES):
            for digest in digests:
                digest.update(block)
            bar(len(block))
    return digests[0].hexdigest(), digests[-1].hexdigest() if md5 else ""


def _confirmation(published: PublishedFile, sha256: str, md5: str) -> str:
    """What confirms a file by its checksum; empty if nothing does."""
    if published.sha256:
        return "the published sha256" if sha256 == published.sha256 else ""
    if published.md5 and md5 == published.md5:
        return "the published md5" + (" of an earlier upload" if published.earlier else "")
    return ""


def _still_confirmed(confirmed: str, access: Access) -> bool:
    """Whether what a file was accepted for is enough now."""
    return access.unverified or confirmed != UNVERIFIED


def _same_kind(found: FoundFile) -> str:
    """The checksum of a file, of the kind that is published."""
    if found.published.sha256:
        return f"sha256 {found.sha256}"
    return f"md5 {_hash(found.path, md5=True)[1]}"


def _read_record(path: Path) -> dict:
    """The record of a file; empty if there is none."""
    if not path.exists():
        return {}
    record = toml.read(path)
    if not {"sha256", "confirmed", "version", "checks", "seen"} <= record.keys():
        raise InputError(
            f"{path} is damaged: expected sha256, confirmed, version, checks and seen, but got "
            f"{', '.join(record) or 'nothing'}: delete it, and the next load writes it anew"
        )
    return record
