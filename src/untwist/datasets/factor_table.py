"""Factors of your own data: a table of values, turned into a factor space and rows in it."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from untwist.factors import FactorSpace, Kind
from untwist.types import InputError, nearest

MOST_LEVELS = 1000
"""A column of numbers with more values than this, or with one for most rows, is continuous."""


@dataclass(frozen=True)
class FactorTable:
    """Factors row by row, and what they are.

    Attributes:
        rows: The rows of a dataset: ranks of discrete factors, values of continuous ones.
        space: What the factors are.
    """

    rows: np.ndarray
    space: FactorSpace


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Returns the names of the columns and the rows of a table, every row as long as the first."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a table of factors as CSV: {error}") from error
    if len(rows) < 2:
        raise InputError(
            f"{path}: expected a first line of factor names and a line for each example, but got "
            f"{len(rows)} lines"
        )
    header = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise InputError(
                f"{path}: expected {len(header)} values, one a column, in line {number}, but got "
                f"{len(row)}"
            )
        if "" in (cell.strip() for cell in row):
            raise InputError(
                f"{path}: line {number} has no value of {header[_empty(row)]!r}: fill it in, or "
                "leave the example out"
            )
    if len(set(header)) < len(header) or "" in header:
        raise InputError(f"{path}: expected different names of factors, but got {header}")
    return header, [[cell.strip() for cell in row] for row in rows[1:]]


def factor_table(
    names: Sequence[str],
    columns: Sequence[Sequence[str] | np.ndarray],
    kinds: str | None,
    what: str,
) -> FactorTable:
    """Returns the rows and the space of named columns of numbers or texts.

    Texts are categorical, their values sorted. Whole numbers, and other numbers with few values,
    are ordinal; numbers with a value of their own for most rows are continuous.

    Args:
        names: The factors.
        columns: The values of each, row by row.
        kinds: A kind for each, with commas between, where they should be others.
        what: The beginning of an error.
    """
    given = _given_kinds(names, kinds, what)
    encoded = [
        _encode(name, column, kind, what)
        for name, column, kind in zip(names, columns, given, strict=True)
    ]
    ranks, sizes, found = zip(*encoded, strict=True)
    discrete = None not in sizes
    rows = np.stack(ranks, -1).astype(np.int32 if discrete else np.float32)
    return FactorTable(rows, FactorSpace(tuple(names), sizes, found))


def unlabeled(count: int) -> FactorTable:
    """Returns one factor of one value, which says nothing: for examples without labels."""
    space = FactorSpace(("unlabeled",), (1,), ("categorical",))
    return FactorTable(np.zeros((count, 1), np.int32), space)


def grid_order(table: FactorTable) -> np.ndarray | None:
    """Returns the order that puts the rows in grid order; None unless they are a whole grid."""
    space = table.space
    if not space.has_grid or len(table.rows) != space.grid_size:
        return None
    index = np.asarray(space.index(table.rows.astype(np.int64)))
    order = np.argsort(index, kind="stable")
    return order if np.array_equal(index[order], np.arange(len(index))) else None


def _encode(
    name: str, column: Sequence[str] | np.ndarray, kind: Kind | None, what: str
) -> tuple[np.ndarray, int | None, Kind]:
    """The ranks, or values, of one factor; its size; its kind."""
    numbers = _numbers(column)
    if kind == "continuous" and numbers is None:
        raise InputError(f"{what}: the factor {name!r} holds texts, so it cannot be continuous")
    if numbers is None:
        values, ranks = np.unique(np.asarray(column, str), return_inverse=True)
        return ranks.reshape(-1), len(values), kind or "categorical"
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InputError(
            f"{what}: the factor {name!r} is not a finite number in row {row}: clean it or leave "
            "the example out"
        )
    values, ranks = np.unique(numbers, return_inverse=True)
    whole = bool((numbers == np.round(numbers)).all())
    many = len(values) > MOST_LEVELS or len(values) > len(numbers) / 2
    if kind == "continuous" or (kind is None and many and not whole):
        return numbers, None, "continuous"
    return ranks.reshape(-1), len(values), kind or "ordinal"


def _numbers(column: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """A column as numbers; None if it holds texts."""
    try:
        return np.asarray(column, np.float64)
    except ValueError:
        return None


def _given_kinds(names: Sequence[str], kinds: str | None, what: str) -> list[Kind | None]:
    """The kinds that were asked for; None where the values should say."""
    if kinds is None:
        return [None] * len(names)
    given = [kind.strip() for kind in kinds.split(",")]
    if len(given) != len(names):
        raise InputError(
            f"{what}: expected a kind for each of {', '.join(names)}, but got {len(given)}: {kinds}"
        )
    known: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
    for kind in given:
        if kind not in known:
            raise nearest("kind of factor", kind, known)
    return [known[kind] for kind in given]


def _empty(row: list[str]) -> int:
    return next(i for i, cell in enumerate(row) if not cell.strip())
