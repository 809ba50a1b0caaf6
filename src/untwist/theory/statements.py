"""What the papers state: the results and errata of the published files, read from the package."""

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources

PAPERS = ("rolinek2019", "zietlow2021", "bhowal2024", "allen2024", "sikka2019")


@dataclass(frozen=True)
class Statement:
    """One result of a paper: its kind (theorem, lemma, claim, ...), place, words and formula."""

    id: str
    paper: str
    kind: str
    where: str
    statement: str
    formula: str


@functools.cache
def statements() -> dict[str, Statement]:
    """Returns every stated result by `paper/id`, in the order of the files.

    >>> statements()["sikka2019/prop3"].statement
    'ELBO at the optimum is largest at beta = 1.'
    """
    found = {}
    for paper in PAPERS:
        text = resources.files("untwist.published").joinpath(f"{paper}.toml").read_text("utf-8")
        for entry in tomllib.loads(text)["results"]:
            name = f"{paper}/{entry['id']}"
            words = (entry[field] for field in ("kind", "where", "statement", "formula"))
            found[name] = Statement(name, paper, *words)
    return found
