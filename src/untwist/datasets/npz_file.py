"""Reading .npz archives without unpickling: members stored plainly are mapped where they lie."""

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from untwist.datasets.dataset import BLOCK_BYTES
from untwist.datasets.inspection import ArrayFacts, Inspection

LOCAL_HEADER = struct.Struct("<4s22xHH")
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
    SyntaxError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the standard library and numpy raise on damaged archives and headers."""


@dataclass(frozen=True)
class NpzFile:
    """An .npz archive that is open for reading.

    Attributes:
        path: Where it is.
        archive: The zip archive.
        inspection: Refuses what is wrong with it.
        streams: Closes arrays that are still being read when the archive is closed.
    """

    path: Path
    archive: zipfile.ZipFile
    inspection: Inspection
    streams: ExitStack

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [name.removesuffix(".npy") for name in self.archive.namelist()]

    def facts(self, name: str) -> ArrayFacts:
        """Returns shape and dtype of an array without reading it."""
        with self._open(name) as (_, facts, _):
            return facts

    def read(self, name: str) -> np.ndarray:
        """Returns a small array, read into memory; its checksum in the archive must be right."""
        with self._open(name) as (file, facts, _):
            data = self._bytes(file, facts.size, name)
            if self._bytes(file, None, name):
                raise self.inspection.refusal(f"the array {name!r} is longer than its header says")
        order = "F" if facts.by_columns else "C"
        return np.frombuffer(data, facts.dtype).reshape(facts.shape, order=order).copy()

    def mapped(self, name: str) -> np.ndarray | None:
        """Returns a memory map of an array that is stored plainly; None if it is compressed."""
        member = self._member(name)
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        with self._open(name) as (_, facts, header):
            pass
        with self.path.open("rb") as file:
            file.seek(member.header_offset)
            signature, names, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise self.inspection.refusal(f"the archive is damaged where {name!r} begins")
        start = member.header_offset + LOCAL_HEADER.size + names + extra + header
        length = facts.size
        if header + length != member.file_size or start + length > self.path.stat().st_size:
            raise self.inspection.refusal(f"the array {name!r} is cut off")
        if start % facts.dtype.alignment:
            return None
        order = "F" if facts.by_columns else "C"
        return np.memmap(self.path, facts.dtype, "r", start, facts.shape, order)

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """Yields an array in pieces of whole rows; raises where it is cut off or damaged."""
        with self._open(name) as (file, facts, _):
            if facts.by_columns:
                raise self.inspection.refusal(f"the array {name!r} is stored column by column")
            row = facts.size // max(1, facts.shape[0])
            step = max(1, BLOCK_BYTES // max(1, row))
            for start in range(0, facts.shape[0], step):
                rows = min(step, facts.shape[0] - start)
                data = self._bytes(file, rows * row, name)
                yield np.frombuffer(data, facts.dtype).reshape(rows, *facts.shape[1:])
            if self._bytes(file, None, name):
                raise self.inspection.refusal(f"the array {name!r} is longer than its header says")

    def _bytes(self, file: zipfile.ZipExtFile, count: int | None, name: str) -> bytes:
        """So many bytes of an array, or all that are left."""
        try:
            data = file.read() if count is None else file.read(count)
        except DAMAGE as error:
            raise self._damaged(name, error) from error
        if count is not None and len(data) != count:
            raise self.inspection.refusal(f"the array {name!r} is cut off")
        return data

    def _member(self, name: str) -> zipfile.ZipInfo:
        """The entry of an array."""
        try:
            return self.archive.getinfo(f"{name}.npy")
        except KeyError:
            held = ", ".join(self.names) or "nothing"
            raise self.inspection.refusal(
                f"expected an array named {name!r}, but the archive holds {held}"
            ) from None

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[zipfile.ZipExtFile, ArrayFacts, int]]:
        """Yields an array's bytes behind its header, its shape and dtype, and the header's size."""
        member = self._member(name)
        try:
            file = cast(zipfile.ZipExtFile, self.archive.open(member))
        except DAMAGE as error:
            raise self._damaged(name, error) from error
        with self.streams.enter_context(file):
            facts = self._header(file, name)
            yield file, facts, file.tell()

    def _header(self, file: zipfile.ZipExtFile, name: str) -> ArrayFacts:
        """Shape and dtype out of the header of an array."""
        try:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
        except DAMAGE as error:
            raise self._damaged(name, error) from error
        if dtype.hasobject:
            raise self.inspection.refusal(
                f"the array {name!r} holds pickled Python objects, which are never loaded"
            )
        return ArrayFacts(shape, dtype, fortran and len(shape) > 1)

    def _damaged(self, name: str, error: Exception) -> Exception:
        return self.inspection.refusal(f"the array {name!r} cannot be read ({error})")


@contextmanager
def open_npz(path: Path, inspection: Inspection) -> Iterator[NpzFile]:
    """Yields an .npz archive; refuses what is not one."""
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise inspection.refusal(f"it is not a whole .npz archive ({error})") from error
    with archive, ExitStack() as streams:
        yield NpzFile(path, archive, inspection, streams)
