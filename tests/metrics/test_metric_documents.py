"""Every metric's docstring and its row in the documentation say what a reader must know."""

import inspect
import re
from pathlib import Path

import pytest

from untwist import metrics

FUNCTIONS = {
    name: function
    for name in metrics.__all__
    if inspect.isfunction(function := getattr(metrics, name))
    and ("Score" in str(inspect.signature(function).return_annotation))
    and "ScoreTable" not in str(inspect.signature(function).return_annotation)
}
DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")


def test_all_metrics_are_functions_at_the_door():
    bases = {name.removesuffix("_fast").removesuffix("_lasso") for name in metrics.METRICS}
    variants = {"mig_neighbors": "mig", "mig_posterior": "mig", "sap_continuous": "sap"}
    variants |= {f"mcc_{fit}": "mcc" for fit in ("spearman", "affine", "componentwise")}
    assert {variants.get(name, name) for name in bases} | {"udr"} == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_docstring_has_every_part(name):
    words = inspect.getdoc(FUNCTIONS[name]) or ""
    assert words.startswith("Returns")
    for part in (
        r"[Rr]ange ",
        r"higher|lower|neither",
        r"[Ii]nvarian",
        r"Reference: .*\d{4}",
        ">>> ",
    ):
        assert re.search(part, words, re.DOTALL), part


def rows():
    """The names in the first column of the table of metrics."""
    section = DOCUMENT.split("## The metrics")[1].split("## Degenerate")[0]
    names = []
    for line in section.splitlines():
        if line.startswith("| `"):
            cell = line.split("|")[1]
            found = re.findall(r"`([^`]+)`", cell)
            stem = found[0].rsplit("_", 1)[0]
            names += [stem + n if n.startswith("_") else n for n in found]
    return names


def test_the_documented_metrics_are_those_that_exist():
    parts = ("disentanglement", "completeness", "informativeness")
    expanded = set()
    for name in rows():
        expanded |= {name.replace("*", part) for part in parts} if "*" in name else {name}
    assert expanded == set(metrics.metric_names())
