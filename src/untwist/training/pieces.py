"""Pieces of a population that fit the device: one, unless memory is short.

Every piece has the same number of members, the last one filled up with members that never move, so
that one compiled program serves them all. A piece alone stays on the device; several take turns
and wait on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from untwist.training.member import Member, Recipe, Rows
from untwist.training.memory import members_that_fit
from untwist.training.program import Sums, compile_advance, is_numeric, no_sums, place

Tree = TypeVar("Tree")


@dataclass
class Piece:
    """Some members, their recipe and sums, and the program that advances them."""

    members: Member
    recipe: Recipe
    sums: Sums
    program: Callable[..., tuple[Member, Sums]]
    mesh: Mesh | None
    alone: bool

    @property
    def alive(self) -> bool:
        """Whether any member still runs."""
        return bool(np.asarray(self.members.alive).any())

    def clear(self) -> None:
        """Sets the sums to zero, for the next log."""
        self.sums = jax.tree.map(lambda leaf: leaf * 0, self.sums)

    def advance(self, rows: Rows, first: Array, count: Array) -> None:
        """Takes `count` steps from step `first`."""
        members, recipe, sums = place((self.members, self.recipe, self.sums), self.mesh)
        self.members, self.sums = self.program((recipe, rows, first, count), members, sums)
        if not self.alone:
            self.to_host()

    def to_host(self) -> "Piece":
        """Makes room on the device for the next piece."""
        self.members, self.recipe, self.sums = _to_host((self.members, self.recipe, self.sums))
        return self


def split(
    members: Member, recipe: Recipe, rows: Rows, memory: int, mesh: Mesh | None
) -> list[Piece]:
    """Returns the population in as few equal pieces as fit into so many bytes a device."""
    count, devices = len(members.seed), 1 if mesh is None else mesh.size
    state = sum(leaf.nbytes for leaf in jax.tree.leaves(members) if is_numeric(leaf)) // count
    fitting = max(1, memory // max(1, 2 * state)) * devices
    while True:
        pieces = -(-count // fitting)
        size = -(-count // (pieces * devices)) * devices
        part = place(_take(members, recipe, 0, size), mesh)
        program = compile_advance(part, rows, mesh)
        fitting = members_that_fit(program, size // devices, rows.data.nbytes, memory) * devices
        if fitting >= size:
            break
    made = []
    for first in range(0, count, size):
        part = place(_take(members, recipe, first, size), mesh)
        sums = place(no_sums(*part, rows), mesh)
        piece = Piece(part[0], part[1], sums, program, mesh, size >= count)
        made.append(piece if piece.alone else piece.to_host())
    return made


def gather(trees: list[Tree], count: int) -> Tree:
    """Returns the first `count` members of these pieces as one stack."""
    arrays, statics = zip(*(eqx.partition(tree, is_numeric) for tree in trees), strict=True)
    if len(trees) == 1 and len(jax.tree.leaves(arrays[0])[0]) == count:
        return trees[0]
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *arrays)
    return eqx.combine(joined, statics[0])


def _take(members: Member, recipe: Recipe, first: int, size: int) -> tuple[Member, Recipe]:
    """`size` members from `first` on; past the end the last one again, marked as not alive."""
    count = len(members.seed)
    if size == count:
        return members, recipe
    index = np.arange(first, first + size)
    within = np.minimum(index, count - 1)
    arrays, statics = eqx.partition((members, recipe), is_numeric)
    taken, lessons = eqx.combine(jax.tree.map(lambda leaf: leaf[within], arrays), statics)
    return eqx.tree_at(lambda m: m.alive, taken, taken.alive & (index < count)), lessons


def _to_host(tree: Tree) -> Tree:
    """The tree with its arrays in host memory."""
    arrays, statics = eqx.partition(tree, is_numeric)
    return eqx.combine(jax.device_get(arrays), statics)
