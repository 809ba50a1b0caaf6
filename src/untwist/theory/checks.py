"""Every result of the five papers that numbers can bear out, as a check that runs."""

from collections.abc import Callable
from dataclasses import dataclass

from untwist.theory import (
    allen_hessian,
    allen_linear,
    allen_pushforward,
    bhowal_expansion,
    bhowal_geometry,
    bhowal_neighbors,
    rolinek_game,
    rolinek_geometry,
    rolinek_symmetry,
    sikka_gaussian,
    sikka_optimum,
    zietlow_pca,
)
from untwist.theory.evidence import Evidence
from untwist.theory.statements import PAPERS, Statement, statements
from untwist.types import RandomKey, nearest

_MODULES = {
    "rolinek2019": (rolinek_geometry, rolinek_symmetry, rolinek_game),
    "zietlow2021": (zietlow_pca,),
    "bhowal2024": (bhowal_expansion, bhowal_geometry, bhowal_neighbors),
    "allen2024": (allen_linear, allen_hessian, allen_pushforward),
    "sikka2019": (sikka_gaussian, sikka_optimum),
}

CHECKS: dict[str, Callable[..., Evidence]] = {
    f"{paper}/{name}": function
    for paper, modules in _MODULES.items()
    for module in modules
    for name, function in module.CHECKS.items()
}

UNCHECKED = {
    "zietlow2021/manip": "an outcome of trained networks on image datasets, which a study tests",
}


@dataclass(frozen=True)
class Check:
    """A statement of a paper beside what was found: both sides, gap, tolerance and verdict."""

    statement: Statement
    evidence: Evidence

    @property
    def id(self) -> str:
        """`paper/id`, as in the published files."""
        return self.statement.id

    @property
    def verdict(self) -> str:
        """`holds` or `fails`, from the numbers."""
        return "holds" if self.evidence.holds else "fails"


def check(identifier: str, *, key: RandomKey) -> Check:
    """Returns the check of one result on an instance drawn from a key.

    Args:
        identifier: `paper/id`, such as `rolinek2019/thm2`.
        key: Decides the random instance.

    >>> import jax
    >>> check("rolinek2019/lemS1", key=jax.random.key(0)).verdict
    'holds'
    """
    if identifier not in CHECKS:
        same_paper = [n for n in CHECKS if n.split("/")[0] == identifier.split("/")[0]]
        raise nearest("check", identifier, same_paper or PAPERS)
    return Check(statements()[identifier], CHECKS[identifier](key))
