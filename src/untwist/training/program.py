"""The compiled program: a population advanced by any number of steps, members side by side.

`advance` is compiled once for a member count and a set of rows. Its loop bound is an argument, so
the same program takes one step or a thousand. Several devices share the member axis: each runs its
own members' loop without a word to the others.
"""

from collections.abc import Hashable
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PyTree

from untwist.models import VAE, fuse
from untwist.training.member import BuildCritic, BuildModel, Member, Recipe, Rows, start, step

AXIS = "member"
COMPANIONABLE = 30_000
"""Up to so many parameters a member, members share each step on a CPU (docs/performance.md)."""

Tree = TypeVar("Tree")

_programs: dict[Hashable, Any] = {}


class Sums(eqx.Module):
    """The logged parts of the loss added up over the steps since the last log.

    Attributes:
        parts: The sum of each part over the steps taken.
        taken: How many steps that were.
    """

    parts: dict[str, Float[Array, "..."]]
    taken: Int[Array, "..."]


def start_population(
    seeds: Int[np.ndarray, " member"],
    recipe: Recipe,
    model: BuildModel,
    critic: BuildCritic | None = None,
) -> Member:
    """Returns the stacked members before their first step, in host memory.

    They are started one by one, so that each is a function of its seed alone to the last bit, and
    so that a population larger than the device can begin.
    """
    one = eqx.filter_jit(partial(start, recipe=recipe, model=model, critic=critic))
    started = [
        jax.device_get(eqx.partition(one(seed), eqx.is_array))
        for seed in jnp.asarray(seeds, jnp.uint32)
    ]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(arrays for arrays, _ in started))
    return eqx.combine(stacked, started[0][1])


def no_sums(members: Member, recipe: Recipe, rows: Rows) -> Sums:
    """Returns sums over no steps, in the shape that this population logs."""
    number = jnp.zeros((), jnp.int32)
    shapes = eqx.filter_eval_shape(_take_abreast, members, recipe, rows, number)[1]
    parts = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return Sums(parts, jnp.zeros_like(members.failed_at))


def advance(
    fixed: tuple[Recipe, Rows, Int[Array, ""], Int[Array, ""]],
    members: Member,
    sums: Sums,
    *,
    mesh: Mesh | None,
) -> tuple[Member, Sums]:
    """Returns members and sums after some steps; `fixed` ends in the first and the count."""
    recipe, rows, first, count = fixed
    if mesh is None:
        return _loop(recipe, members, sums, rows, first, count)
    arrays, statics = eqx.partition((recipe, members, sums), eqx.is_array)

    def shard(arrays: PyTree, rows: Rows, first: Array, count: Array) -> PyTree:
        recipe, members, sums = eqx.combine(arrays, statics)
        moved = _loop(recipe, members, sums, rows, first, count)
        return eqx.filter(moved, eqx.is_array)

    moved = jax.shard_map(
        shard, mesh=mesh, in_specs=(P(AXIS), P(), P(), P()), out_specs=P(AXIS), check_vma=False
    )(arrays, rows, first, count)
    return eqx.combine(moved, statics[1:])


def is_numeric(leaf: object) -> bool:
    """Returns whether a leaf is an array, on the device or on the host."""
    return isinstance(leaf, jax.Array | np.ndarray)


def place(tree: Tree, mesh: Mesh | None, *, shared: bool = False) -> Tree:
    """Returns the tree on the device, or split over the mesh's devices along its member axis."""
    arrays, statics = eqx.partition(tree, is_numeric)
    target = None if mesh is None else NamedSharding(mesh, P() if shared else P(AXIS))
    return eqx.combine(jax.device_put(arrays, target), statics)


def compile_advance(population: tuple[Member, Recipe], rows: Rows, mesh: Mesh | None) -> Any:
    """Returns `advance` compiled for exactly these shapes, from memory if it was before."""
    members, recipe = population
    zero = jnp.int32(0)
    arguments = (recipe, rows, zero, zero), members, place(no_sums(members, recipe, rows), mesh)
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple((leaf.shape, leaf.dtype) if is_numeric(leaf) else leaf for leaf in leaves)
    key = (structure, shapes, mesh)
    if key not in _programs:
        program = eqx.filter_jit(partial(advance, mesh=mesh), donate="all-except-first")
        while len(_programs) >= 8:
            del _programs[next(iter(_programs))]
        # Triton's products, which XLA prefers, are slower for many small matrices than cuBLAS's.
        options = {"xla_gpu_enable_triton_gemm": False} if jax.default_backend() == "gpu" else None
        _programs[key] = program.lower(*arguments).compile(options)
    return _programs[key]


def _loop(
    recipe: Recipe, members: Member, sums: Sums, rows: Rows, first: Array, count: Array
) -> tuple[Member, Sums]:
    """The steps one after another for all members: abreast in each step, or member by member.

    Where models compute in a narrower type, the narrow weights of the next step are written as the
    weights move, instead of being made from them in a pass of their own.
    """
    players = fuse(members)
    state = (players, sums, _narrowed(players))
    arrays, statics = eqx.partition((recipe, *state), eqx.is_array)
    arrays = (arrays[0], arrays[1:])
    take = _take_abreast if _abreast(members) else step

    def loop(arrays: PyTree) -> PyTree:
        recipe = eqx.combine(arrays[0], statics[0])

        def body(offset: Array, evolving: PyTree) -> PyTree:
            members, sums, narrowed = eqx.combine(evolving, statics[1:])
            members, parts, taken = take(members, recipe, rows, first + offset, narrowed)
            state = (members, _add(sums, parts, taken), _narrowed(members))
            return eqx.filter(state, eqx.is_array)

        return jax.lax.fori_loop(0, count, body, arrays[1])

    evolved = loop(arrays) if _abreast(members) else jax.lax.map(loop, arrays)
    players, sums, _ = eqx.combine(evolved, statics[1:])
    return fuse(players, False), sums


def _narrowed(members: Member) -> VAE | None:
    """The models in the type they compute in; None where that is the type of their weights."""
    return None if members.model.precision == "float32" else members.model.narrowed()


def _abreast(members: Member) -> bool:
    """Whether members share each step: always, but for large models on a CPU.

    There one member's products fill the processor, and several members' have no fast common form,
    so each runs its own steps; its results then have the same bits in any population.
    """
    players = (members.model, members.critic)
    leaves = jax.tree.leaves(eqx.filter(players, eqx.is_array))
    each = sum(leaf.size for leaf in leaves) // len(members.seed)
    return jax.default_backend() != "cpu" or each <= COMPANIONABLE


def _add(sums: Sums, parts: dict[str, Array], taken: Array) -> Sums:
    """The sums with the parts of the members that took the step."""

    def add(total: Array, part: Array) -> Array:
        keep = taken.reshape(taken.shape + (1,) * (part.ndim - taken.ndim))
        return total + jnp.where(keep, part, 0)

    return Sums(jax.tree.map(add, sums.parts, parts), sums.taken + taken)


def _take_abreast(
    members: Member, recipe: Recipe, rows: Rows, number: Array, narrowed: VAE | None = None
):
    """One step of every member."""
    each = eqx.if_array(0)
    abreast = eqx.filter_vmap(step, in_axes=(each, each, None, None, each))
    return abreast(members, recipe, rows, number, narrowed)
