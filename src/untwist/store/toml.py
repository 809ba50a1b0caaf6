"""Writing TOML: the standard library only reads it."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwist.store.atomic import replacing
from untwist.types import InputError

Scalar = str | bool | int | float


def dump(table: Mapping[str, Any]) -> str:
    r"""Returns the TOML text of nested tables of scalars and lists of scalars.

    >>> dump({"name": "a", "sizes": [1, 2], "inner": {"rate": 0.5}})
    'name = "a"\nsizes = [1, 2]\n\n[inner]\nrate = 0.5\n'
    """
    return "\n".join(_lines(table, ())) + "\n"


def write(path: Path, table: Mapping[str, Any]) -> None:
    """Writes the table in place of whatever the file held."""
    with replacing(path) as temporary:
        temporary.write_text(dump(table), encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Returns the file's table."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged: expected TOML, but {error}") from error


def _lines(table: Mapping[str, Any], prefix: tuple[str, ...]) -> list[str]:
    """A table's own values first, then its tables, since TOML reads them in this order."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(table[key])}" for key in table if key not in inner]
    for key, value in inner.items():
        path = (*prefix, key)
        if lines:
            lines.append("")
        lines += [f"[{'.'.join(map(_key, path))}]", *_lines(value, path)]
    return lines


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else json.dumps(key)


def _value(value: Scalar | list[Scalar] | tuple[Scalar, ...]) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
