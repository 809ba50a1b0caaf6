"""The documents: the README's code runs and prints what it says; what they name exists."""

import ast
import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import untwist
from untwist.cli import DESCRIPTIONS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 100


def test_the_readme_prints_the_numbers_that_it_says():
    (code,) = blocks(README, "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    scores = np.array(ast.literal_eval(printed.getvalue()))
    said = np.array(ast.literal_eval(code.rsplit("# ", 1)[1]))
    # Another processor rounds otherwise, and a member whose axes are free ends elsewhere by it.
    np.testing.assert_allclose(scores, said, atol=0.05)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_documents_exist(page):
    for block in blocks(page.read_text(), "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["untwist"]:
                assert words[1] in DESCRIPTIONS, line
            if words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_room_stands_in_the_readme():
    package = Path(untwist.__file__).parent
    rooms = {path.parent.name for path in package.glob("*/__init__.py")} - {"cli"}
    assert rooms == set(re.findall(r"^\| `untwist\.(\w+)`", README, re.MULTILINE))
