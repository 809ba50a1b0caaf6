"""Array aliases shared by every room, and the one error that users cause.

Axis names come from one list: `run step item batch grid latent factor height width channel
pixel`; `member` is the leading axis of everything that belongs to a population.
"""

import difflib
from collections.abc import Iterable
from typing import Any

from jax.core import Tracer
from jaxtyping import Array, Float, Int, Key, UInt8
from numpy import ndarray

AnyArray = Array | ndarray

Device = Any
"""A `jax.Device`, which type checkers do not know as a type."""

Scalar = Float[Array, ""]
RandomKey = Key[Array, ""]
Codes = Float[AnyArray, "item latent"]
Factors = Int[AnyArray, "item factor"] | Float[AnyArray, "item factor"]
Images = UInt8[AnyArray, "item height width channel"]


class InputError(ValueError):
    """Something the user gave is wrong: says what was expected, what came and what to do.

    The command line prints the sentence and exits with code 2. Everything else that is raised is a
    mistake of ours and keeps its traceback.
    """


def known(value: object) -> bool:
    """Returns whether a number is known yet: false inside a function that is being traced."""
    return not isinstance(value, Tracer)


def nearest(what: str, name: str, known: Iterable[str]) -> InputError:
    """Returns the error for an unknown name, with the nearest known one.

    >>> str(nearest("dataset", "sprits", ["sprites", "circles"]))
    "unknown dataset 'sprits': did you mean 'sprites'? Known: circles, sprites"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return InputError(f"unknown {what} {name!r}: {hint}Known: {', '.join(names)}")
