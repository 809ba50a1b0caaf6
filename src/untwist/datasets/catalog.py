"""The catalog: every dataset by its name, and the options that build it, typed by its function."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from untwist.datasets.cars3d import cars3d
from untwist.datasets.celeba import celeba
from untwist.datasets.circles import circles
from untwist.datasets.dataset import Dataset
from untwist.datasets.derived_sets import DERIVED
from untwist.datasets.dsprites import dsprites
from untwist.datasets.faces import faces
from untwist.datasets.faces_twin import faces_twin
from untwist.datasets.idx import fashion_mnist, kmnist, mnist
from untwist.datasets.linear import linear
from untwist.datasets.mpi3d import mpi3d_real, mpi3d_real_complex, mpi3d_realistic, mpi3d_toy
from untwist.datasets.mpi3d_twin import mpi3d_complex_twin, mpi3d_twin
from untwist.datasets.nonlinear import nonlinear
from untwist.datasets.own import ENDINGS, imported_names, is_own, own, own_path
from untwist.datasets.shapes3d import shapes3d
from untwist.datasets.shapes3d_twin import shapes3d_twin
from untwist.datasets.smallnorb import smallnorb
from untwist.datasets.sprites import sprites
from untwist.datasets.square import square
from untwist.types import InputError, nearest

Option = int | float | bool | str | None

CATALOG: dict[str, Callable[..., Dataset]] = {
    "cars3d": cars3d,
    "celeba": celeba,
    "circles": circles,
    "dsprites": dsprites,
    "faces": faces,
    "faces_twin": faces_twin,
    "fashion_mnist": fashion_mnist,
    "kmnist": kmnist,
    "linear": linear,
    "mnist": mnist,
    "mpi3d_complex_twin": mpi3d_complex_twin,
    "mpi3d_real": mpi3d_real,
    "mpi3d_real_complex": mpi3d_real_complex,
    "mpi3d_realistic": mpi3d_realistic,
    "mpi3d_toy": mpi3d_toy,
    "mpi3d_twin": mpi3d_twin,
    "nonlinear": nonlinear,
    "shapes3d": shapes3d,
    "shapes3d_twin": shapes3d_twin,
    "smallnorb": smallnorb,
    "sprites": sprites,
    "square": square,
}


def _load_texts(name: str, assignments: Sequence[str]) -> Dataset:
    """The dataset of a name and of options as texts, for those that derive another from it."""
    return load(name, **parse_options(name, assignments))


CATALOG |= {name: functools.partial(build, _load_texts) for name, build in DERIVED.items()}

WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def load(name: str, **options: Option) -> Dataset:
    """Returns the dataset of that name, built with the options of its function.

    A name is one of the catalog, one under which your own data were imported, or the path of an
    .npz or .h5 file or of a folder of pictures.

    >>> len(load("circles", samples=10))
    10
    """
    build = _find(name)
    known = default_options(name)
    typed: dict[str, Option] = {}
    for option, value in options.items():
        if option not in known:
            raise nearest(f"option of {name}", option, known)
        accepted = _accepted(name, option)
        if type(value) is int and int not in accepted and float in accepted:
            value = float(value)
        if type(value) not in accepted:
            raise _wrong_type(name, option, repr(value))
        typed[option] = value
    return build(**typed)


def parse_options(name: str, assignments: Iterable[str]) -> dict[str, Option]:
    """Returns typed options out of `option=value` texts, by the signature of the function.

    >>> parse_options("sprites", ["size=32", "bits=no", "scales=none"])
    {'size': 32, 'bits': False, 'scales': None}
    """
    known = default_options(name)
    options: dict[str, Option] = {}
    for assignment in assignments:
        option, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(
                f"expected an option of {name} as option=value, but got {assignment!r}"
            )
        if option not in known:
            raise nearest(f"option of {name}", option, known)
        if option in options:
            raise InputError(f"option {option!r} of {name} is given twice: give it once")
        options[option] = _parse(name, option, text)
    return options


def default_options(name: str) -> Mapping[str, Option]:
    """Returns the options of a dataset with their defaults."""
    parameters = inspect.signature(_find(name)).parameters
    return {option: parameter.default for option, parameter in parameters.items()}


def description(name: str) -> str:
    """Returns what the docstring of a dataset says about it."""
    build = _find(name)
    return inspect.getdoc(build.func if isinstance(build, functools.partial) else build) or ""


def _find(name: str) -> Callable[..., Dataset]:
    """The function of a dataset, of your own data if the name is a path or was imported."""
    if name in CATALOG:
        return CATALOG[name]
    if is_own(name):
        return functools.partial(own, own_path(name))
    error = nearest("dataset", name, [*CATALOG, *imported_names()])
    raise InputError(f"{error}; or a path that ends in {' or '.join(ENDINGS)}, or of a folder")


def _accepted(name: str, option: str) -> tuple[type, ...]:
    """The types that an option may have."""
    hint: Any = inspect.signature(_find(name)).parameters[option].annotation
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _parse(name: str, option: str, text: str) -> Option:
    """The value of a text, in the first of the accepted types that reads it."""
    for kind in sorted(_accepted(name, option), key=lambda kind: kind is str):
        if kind is types.NoneType:
            if text.lower() == "none":
                return None
        elif kind is bool:
            if text.lower() in WORDS:
                return WORDS[text.lower()]
        else:
            try:
                return kind(text)
            except ValueError:
                continue
    raise _wrong_type(name, option, repr(text))


def _wrong_type(name: str, option: str, got: str) -> InputError:
    """The error for a value that its option cannot take."""
    words = {int: "a whole number", float: "a number", bool: "yes or no", types.NoneType: "none"}
    expected = " or ".join(words.get(kind, "text") for kind in _accepted(name, option))
    return InputError(f"option {option!r} of {name} must be {expected}, but got {got}")
