"""One member's part of what was found for a whole population."""

import dataclasses
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from untwist.mechanism.decoder import number

Part = TypeVar("Part")


def member_of(part: Part, member: int | Int[ndarray, " chosen"]) -> Part:
    """Returns a member's part of a record, or some members': every array has a leading member axis.

    >>> from untwist.mechanism.geometry import Geometry
    >>> both = Geometry(np.ones((2, 5, 1, 1)), np.zeros((2, 5, 1, 1)))
    >>> member_of(both, 1).gram.shape
    (5, 1, 1)
    """
    return _taken(part, member)


def _taken(part: Any, member: int | ndarray) -> Any:
    """The same of anything that a record may hold."""
    if isinstance(part, ndarray):
        one = np.asarray(part[member])
        return one if one.ndim else number(one)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        names = [field.name for field in dataclasses.fields(part)]
        return dataclasses.replace(part, **{n: _taken(getattr(part, n), member) for n in names})
    if isinstance(part, dict):
        return {name: _taken(value, member) for name, value in part.items()}
    if isinstance(part, tuple):
        return tuple(_taken(value, member) for value in part)
    return part
