"""Training a population: the loop around the compiled program, one snapshot a log.

`fit` knows nothing of files or bars: it yields a `Snapshot` after every log, and whoever drives it
shows progress, writes checkpoints, or stops.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from untwist.datasets import Dataset
from untwist.training.member import Member, Recipe
from untwist.training.memory import free_memory
from untwist.training.pieces import Piece, gather, split
from untwist.training.program import AXIS, place
from untwist.training.source import Source
from untwist.types import Device, InputError


@dataclass(frozen=True)
class Snapshot:
    """A population after a log.

    Attributes:
        step: How many steps were taken.
        members: The stacked members. Their buffers go to the next steps: copy what must outlive
            this snapshot.
        parts: The mean of each part of the loss over the steps since the last log, one row a
            member; zero where the member took none.
        taken: How many of these steps each member took: fewer than all where it diverged.
        splits: How many pieces the population was split into to fit the device.
        shards: How many shards the dataset was split into to fit the device.
    """

    step: int
    members: Member
    parts: dict[str, Float[np.ndarray, "member ..."]]
    taken: Int[np.ndarray, " member"]
    splits: int
    shards: int


def fit(
    dataset: Dataset,
    members: Member,
    recipe: Recipe,
    steps: int,
    *,
    log_every: int = 100,
    first: int = 0,
    memory: int | None = None,
    devices: list[Device] | None = None,
) -> Generator[Snapshot, None, None]:
    """Yields the population after every `log_every` steps and after the last one.

    Args:
        dataset: What to train on; check it first (`dataset.check()`).
        members: The stacked members, from `start_population` or from a checkpoint.
        recipe: How they learn; its array leaves carry the member axis too.
        steps: How many steps the whole training has.
        log_every: Steps a log.
        first: How many steps were taken already: a multiple of `log_every`.
        memory: Bytes that rows and members may take on each device; all that is free if None.
        devices: Devices that share the member axis; the first of the backend if None.
    """
    if steps < 1 or log_every < 1 or first % log_every:
        raise InputError(
            f"training takes at least one step and logs at least every step, but got {steps} "
            f"steps, a log every {log_every} and a start at {first}"
        )
    devices = devices or jax.devices()[:1]
    mesh = Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None
    memory = free_memory(devices[0]) if memory is None else memory
    source = Source(dataset, recipe.batch, memory // 2, partial(place, mesh=mesh, shared=True))
    if callable(recipe.partners) and source.shards > 1:
        raise InputError(
            f"partners may be any rows of {dataset.name}, so all {dataset.data.nbytes:,} bytes of "
            f"it must fit on the device, but {memory // 2:,} are free for them: use fewer or "
            "smaller examples, or more memory"
        )
    try:
        pieces = split(members, recipe, source.rows(first), memory, mesh)
        while first < steps:
            last = min(steps, first + log_every)
            _advance(pieces, source, first, last)
            first = last
            yield _snapshot(first, pieces, source, len(members.seed))
            if not any(piece.alive for piece in pieces):
                return
    finally:
        source.close()


def _advance(pieces: list[Piece], source: Source, first: int, last: int) -> None:
    """Takes every piece from step `first` to `last`, on each shard in turn."""
    for piece in pieces:
        piece.clear()
    while first < last:
        count = min(last - first, source.steps_left(first) or last - first)
        rows = source.rows(first)
        for piece in pieces:
            piece.advance(rows, jnp.int32(first), jnp.int32(count))
        first += count


def _snapshot(step: int, pieces: list[Piece], source: Source, count: int) -> Snapshot:
    """What the population looks like now."""
    members = gather([piece.members for piece in pieces], count)
    sums = gather([piece.sums for piece in pieces], count)
    taken = np.asarray(sums.taken)
    parts = {}
    for name, part in sums.parts.items():
        total = np.asarray(part)
        parts[name] = total / np.maximum(taken, 1).reshape(-1, *[1] * (total.ndim - 1))
    return Snapshot(step, members, parts, taken, len(pieces), source.shards)
