"""Every result of the papers is checked or listed; every check holds on random instances."""

import tomllib
from importlib import resources
from pathlib import Path

import jax
import numpy as np
import pytest

from untwist.theory import CHECKS, UNCHECKED, check, statements
from untwist.types import InputError

PAPERS = ("rolinek2019", "zietlow2021", "bhowal2024", "allen2024", "sikka2019")
COMPILED = ("allen2024/eq6", "allen2024/a4")


def test_nothing_in_the_papers_is_missing():
    stated = set()
    for paper in PAPERS:
        text = resources.files("untwist.published").joinpath(f"{paper}.toml").read_text("utf-8")
        stated |= {f"{paper}/{entry['id']}" for entry in tomllib.loads(text)["results"]}
    assert stated == set(CHECKS) | set(UNCHECKED)
    assert not set(CHECKS) & set(UNCHECKED)
    assert stated == set(statements())


def test_no_theorem_is_left_unchecked():
    proven = ("theorem", "proposition", "lemma", "corollary")
    assert [n for n in UNCHECKED if statements()[n].kind in proven] == []


@pytest.mark.parametrize("identifier", CHECKS)
def test_a_check_holds(identifier):
    found = check(identifier, key=jax.random.key(7))
    assert found.verdict == "holds", found.evidence
    assert np.isfinite([found.evidence.left, found.evidence.right]).all()


@pytest.mark.slow
@pytest.mark.parametrize("identifier", CHECKS)
def test_a_check_holds_on_many_instances(identifier):
    for seed in range(100, 104 if identifier in COMPILED else 120):
        found = check(identifier, key=jax.random.key(seed))
        assert found.verdict == "holds", (seed, found.evidence)


def test_the_documented_verdicts_are_those_of_the_checks():
    text = (Path(__file__).parents[2] / "docs" / "theory.md").read_text("utf-8")
    rows = set()
    for section in text.split("\n### ")[1:]:
        paper = section.splitlines()[0]
        cells = [line.strip("| ").split(" | ") for line in section.splitlines() if " | " in line]
        rows |= {(f"{paper}/{c[0]}", c[2], c[3] if len(c) > 3 else "") for c in cells[2:]}
    found = {n: CHECKS[n](jax.random.key(0)) for n in CHECKS}
    expected = {(n, "holds" if e.holds else "fails", e.note) for n, e in found.items()}
    assert rows == expected | {(n, "not checked", why) for n, why in UNCHECKED.items()}


def test_checks_depend_on_the_key():
    left = [check("rolinek2019/thm2", key=jax.random.key(s)).evidence for s in (0, 0, 1)]
    assert left[0] == left[1] != left[2]


def test_an_unknown_check_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'rolinek2019/thm2'"):
        check("rolinek2019/thm22", key=jax.random.key(0))
