"""Reading .npz archives without unpickling: members stored plainly are mapped where they lie."""

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from untwist.datasets.dataset import BLOCK_BYTES
from untwist.datasets.inspection import ArrayFacts, Inspection

LOCAL_HEADER = struct.Struct("<4s22xHH")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True)
class NpzFile:
    """An .npz archive that is open for reading.

    Attributes:
        path: Where it is.
        archive: The zip archive.
        inspection: Refuses what is wrong with it.
    """

    path: Path
    archive: zipfile.ZipFile
    inspection: Inspection

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
        blocks = list(self.blocks(name))
        return np.concatenate(blocks) if blocks else np.empty(*self._empty(name))

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
        length = math.prod(facts.shape) * facts.dtype.itemsize
        if header + length != member.file_size or start + length > self.path.stat().st_size:
            raise self.inspection.refusal(f"the array {name!r} is cut off")
        if start % facts.dtype.alignment:
            return None
        return np.memmap(self.path, facts.dtype, "r", start, facts.shape)

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """Yields an array in pieces of whole rows; raises where it is cut off or damaged."""
        with self._open(name) as (file, facts, _):
            shape = facts.shape or (1,)
            row = facts.dtype.itemsize * math.prod(shape[1:])
            step = max(1, BLOCK_BYTES // max(1, row))
            for start in range(0, shape[0], step):
                rows = min(step, shape[0] - start)
                data = self._bytes(file, rows * row, name)
                block = np.frombuffer(data, facts.dtype).reshape(rows, *shape[1:])
                yield block if facts.shape else block[0]
            if self._bytes(file, None, name):
                raise self.inspection.refusal(f"the array {name!r} is longer than its header says")

    def _bytes(self, file: BinaryIO, count: int | None, name: str) -> bytes:
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
    def _open(self, name: str) -> Iterator[tuple[BinaryIO, ArrayFacts, int]]:
        """Yields an array's bytes behind its header, its shape and dtype, and the header's size."""
        member = self._member(name)
        try:
            file = self.archive.open(member)
        except DAMAGE as error:
            raise self._damaged(name, error) from error
        with file:
            facts = self._header(cast(BinaryIO, file), name)
            yield cast(BinaryIO, file), facts, file.tell()

    def _header(self, file: BinaryIO, name: str) -> ArrayFacts:
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
        if fortran and len(shape) > 1:
            raise self.inspection.refusal(f"the array {name!r} is stored column by column")
        return ArrayFacts(shape, dtype)

    def _damaged(self, name: str, error: Exception) -> Exception:
        return self.inspection.refusal(f"the array {name!r} cannot be read ({error})")

    def _empty(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        facts = self.facts(name)
        return facts.shape, facts.dtype


@contextmanager
def open_npz(path: Path, inspection: Inspection) -> Iterator[NpzFile]:
    """Yields an .npz archive; refuses what is not one."""
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise inspection.refusal(f"it is not a whole .npz archive ({error})") from error
    with archive:
        yield NpzFile(path, archive, inspection)
