"""One tensor out of a file written by `torch.save`, without PyTorch and without unpickling.

Such a file describes its tensors by a pickle, a program for a small stack machine that can call
anything. Here its instructions are read one by one and only described: numbers, texts, tuples and
names go on a stack, a call becomes a record of what would be called, and nothing is ever called or
imported. Only the record of a tensor is then understood; every other is refused. Both layouts are
read: the zip archive of PyTorch 1.6 and later, and the sequence of pickles before it.
"""

import io
import math
import pickletools
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from untwist.datasets.inspection import Inspection
from untwist.types import InputError

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
REBUILDERS = ("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2")
STORAGES = {
    "torch ByteStorage": "uint8",
    "torch CharStorage": "int8",
    "torch ShortStorage": "int16",
    "torch IntStorage": "int32",
    "torch LongStorage": "int64",
    "torch HalfStorage": "float16",
    "torch FloatStorage": "float32",
    "torch DoubleStorage": "float64",
}
LONGEST = 2**20
"""More bytes of pickle than any description of one tensor takes."""


@dataclass(frozen=True)
class Named:
    """Something that a pickle would import."""

    name: str


@dataclass(frozen=True)
class Call:
    """Something that a pickle would call."""

    function: Any
    arguments: Any


@dataclass(frozen=True)
class Persistent:
    """Something that lies outside the pickle, such as the numbers of a tensor."""

    identity: Any


@dataclass(frozen=True)
class TensorFacts:
    """What a file says of its tensor.

    Attributes:
        key: The name of its numbers.
        dtype: Their type.
        count: How many there are.
        shape: The shape of the tensor.
    """

    key: str
    dtype: str
    count: int
    shape: tuple[int, ...]


def map_tensor(path: Path, inspection: Inspection) -> np.ndarray:
    """Returns a memory map of the one tensor in a file of `torch.save`."""
    if zipfile.is_zipfile(path):
        facts, start, length = _zip_layout(path, inspection)
    else:
        facts, start, length = _pickle_layout(path, inspection)
    needed = math.prod(facts.shape) * np.dtype(facts.dtype).itemsize
    if facts.count != math.prod(facts.shape) or length != needed:
        raise inspection.refusal(
            f"expected {math.prod(facts.shape):,} numbers for a tensor of shape {facts.shape}, but "
            f"got {facts.count:,} in {length:,} bytes"
        )
    if start + length > path.stat().st_size:
        raise inspection.refusal("it is cut off: the numbers of the tensor are not all there")
    return np.memmap(path, facts.dtype, "r", start, facts.shape)


def describe_pickle(data: bytes | io.BytesIO, inspection: Inspection) -> Any:
    """Returns what a pickle describes, with `Named`, `Call` and `Persistent` in place of objects.

    Args:
        data: The pickle; a stream is left behind its end.
        inspection: Refuses instructions that no description of a tensor needs.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return stack.pop()
            if not _step(opcode.name, argument, stack, marks, memo):
                raise inspection.refusal(
                    f"its pickle has the instruction {opcode.name}, which a tensor does not need"
                )
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
        raise inspection.refusal(f"its pickle is damaged ({error})") from error
    raise inspection.refusal("its pickle has no end")


def _step(name: str, argument: Any, stack: list, marks: list[int], memo: dict[int, Any]) -> bool:
    """Carries out one instruction on the stack; false if it is none of those that are known."""
    if name in ("PROTO", "FRAME"):
        pass
    elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
        memo[argument] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET", "GET"):
        stack.append(memo[argument])
    elif name == "MARK":
        marks.append(len(stack))
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name]())
    elif name in _VALUES:
        stack.append(argument)
    elif name == "GLOBAL":
        stack.append(Named(argument))
    elif name == "STACK_GLOBAL":
        module, attribute = _pop(stack, 2)
        stack.append(Named(f"{module} {attribute}"))
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        stack.append(tuple(_pop(stack, int(name[-1]))))
    elif name in ("TUPLE", "LIST", "APPENDS", "SETITEMS"):
        held = _pop(stack, len(stack) - marks.pop())
        if name in ("TUPLE", "LIST"):
            stack.append(tuple(held) if name == "TUPLE" else held)
        else:
            _extend(stack[-1], held, pairs=name == "SETITEMS")
    elif name in ("APPEND", "SETITEM"):
        held = _pop(stack, 1 if name == "APPEND" else 2)
        _extend(stack[-1], held, pairs=name == "SETITEM")
    elif name == "BINPERSID":
        stack.append(Persistent(stack.pop()))
    elif name == "REDUCE":
        function, arguments = _pop(stack, 2)
        stack.append(Call(function, arguments))
    else:
        return False
    return True


_CONSTANTS = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_VALUES = (
    "BININT",
    "BININT1",
    "BININT2",
    "INT",
    "LONG",
    "LONG1",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "UNICODE",
    "BINSTRING",
    "SHORT_BINSTRING",
)


def _pop(stack: list, count: int) -> list:
    """The last so many things of the stack, taken off it."""
    if count > len(stack):
        raise ValueError("it takes more than there is")
    held = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return held


def _extend(container: Any, held: list, *, pairs: bool) -> None:
    """Adds to a list or a dict; to what stands for an object, nothing is done."""
    if pairs and isinstance(container, dict):
        container.update(zip(held[::2], held[1::2], strict=True))
    elif not pairs and isinstance(container, list):
        container.extend(held)
    else:
        raise TypeError("it adds to something that is not a list or a dict")


def _zip_layout(path: Path, inspection: Inspection) -> tuple[TensorFacts, int, int]:
    """The tensor of a zip archive, and where its numbers begin and how long they are."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > LONGEST:
                raise inspection.refusal("expected one small data.pkl, but the archive has none")
            facts = _tensor(describe_pickle(archive.read(pickles[0]), inspection), inspection)
            root = pickles[0].removesuffix("data.pkl")
            order = f"{root}byteorder"
            if order in archive.namelist() and archive.read(order) != b"little":
                raise inspection.refusal("its numbers are not in little-endian order")
            member = archive.getinfo(f"{root}data/{facts.key}")
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise inspection.refusal(f"its archive is damaged ({error})") from error
    if member.compress_type != zipfile.ZIP_STORED:
        raise inspection.refusal("the numbers of the tensor are compressed")
    with path.open("rb") as file:
        file.seek(member.header_offset)
        names, extra = struct.unpack("<26xHH", file.read(30))
    return facts, member.header_offset + 30 + names + extra, member.file_size


def _pickle_layout(path: Path, inspection: Inspection) -> tuple[TensorFacts, int, int]:
    """The tensor of a sequence of pickles, and where its numbers begin and how long they are."""
    with path.open("rb") as file:
        stream = io.BytesIO(file.read(LONGEST))
    magic, protocol = (describe_pickle(stream, inspection) for _ in range(2))
    if (magic, protocol) != (MAGIC, PROTOCOL):
        raise inspection.refusal(
            f"expected a file of torch.save, which begins with {MAGIC:#x} and {PROTOCOL}, but got "
            f"{magic!r} and {protocol!r}"
        )
    system = describe_pickle(stream, inspection)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise inspection.refusal("its numbers are not in little-endian order")
    facts = _tensor(describe_pickle(stream, inspection), inspection)
    keys = describe_pickle(stream, inspection)
    if keys != [facts.key]:
        raise inspection.refusal(f"expected the numbers of one tensor, but got those of {keys!r}")
    count = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))[0]
    if count != facts.count:
        raise inspection.refusal(f"expected {facts.count:,} numbers, but the file says {count:,}")
    start = stream.tell()
    return facts, start, path.stat().st_size - start


def _tensor(described: Any, inspection: Inspection) -> TensorFacts:
    """The one tensor that a description is, or that it holds."""
    found = list(_calls(described, inspection))
    if len(found) != 1:
        raise inspection.refusal(f"expected one tensor, but the file holds {len(found)}")
    call = found[0]
    arguments = call.arguments
    try:
        storage, offset, shape, strides = arguments[:4]
        tag, kind, key, _, count = storage.identity[:5]
        dtype = STORAGES[kind.name]
        whole = [math.prod(shape[i + 1 :]) for i in range(len(shape))] == list(strides)
        sound = tag == "storage" and all(type(size) is int and size > 0 for size in shape)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        sound = whole = False
    if not sound:
        raise inspection.refusal("its tensor is of a kind that is not known here")
    if not whole or offset != 0:
        raise inspection.refusal("its tensor is a view of another, not a whole one")
    return TensorFacts(str(key), dtype, count, tuple(shape))


def _calls(described: Any, inspection: Inspection) -> Iterator[Call]:
    """The records of tensors in a description; refuses every other call."""
    if isinstance(described, Call):
        name = getattr(described.function, "name", "")
        if name == "collections OrderedDict" and described.arguments == ():
            return
        if name not in REBUILDERS:
            raise inspection.refusal(
                f"its pickle would call {name or 'something unnamed'}, which a tensor does not need"
            )
        yield described
    elif isinstance(described, dict | list | tuple):
        for part in described.values() if isinstance(described, dict) else described:
            yield from _calls(part, inspection)
    elif isinstance(described, Named | Persistent):
        raise inspection.refusal(f"its pickle holds {described}, not a tensor")
