"""The shape of the package: rooms are entered by their door; what is public is documented."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import untwist

ROOT = Path(untwist.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py"))
ROOMS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_are_entered_by_their_door(path):
    room = path.relative_to(ROOT).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("untwist."):
            parts = node.module.split(".")
            inside = parts[1] == room
            assert inside or len(parts) == 2, f"{path.name} enters {node.module} by the window"


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "cli"])
def test_a_room_lists_what_it_offers(room):
    door = importlib.import_module(f"untwist.{room}")
    assert door.__doc__
    assert 1 <= len(door.__all__) <= 50
    for name in door.__all__:
        thing = getattr(door, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"untwist.{room}.{name} has no docstring"


def test_modules_stay_short():
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert not {str(path): length for path, length in lengths.items() if length > 400}


def test_importing_changes_nothing_global():
    code = (
        "import jax, warnings; before = dict(jax.config.values), list(warnings.filters);"
        "import untwist.training, untwist.cli.train, untwist.report;"
        "assert before == (dict(jax.config.values), list(warnings.filters))"
    )
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", code], check=True)
