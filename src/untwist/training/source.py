"""Where the program's rows come from: all of them on the device, or one shard after another.

A dataset that fits is put on the device once. A larger one is read in shards, each a set of blocks
of neighboring rows drawn by a keyed permutation of all blocks, anew for every epoch and the same
for every member. While one shard is in use the next is read and sent, so that a memory map on disk
streams through the device.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from untwist.datasets import Dataset
from untwist.training.member import Rows
from untwist.training.order import shuffled
from untwist.types import InputError

BLOCK_ROWS = 64


@dataclass
class Source:
    """The rows of a dataset for any step of training.

    Attributes:
        dataset: The examples.
        batch: Examples a step.
        limit: How many bytes of rows the device may hold; twice that while shards are swapped.
        place: Puts rows on the device or devices.
    """

    dataset: Dataset
    batch: int
    limit: int | None
    place: Callable[[Rows], Rows]
    _held: tuple[int, Rows] | None = field(default=None, init=False)
    _next: tuple[int, Future] | None = field(default=None, init=False)
    _reader: ThreadPoolExecutor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"a batch needs at least one example, but got {self.batch}")
        if self.batch > self.shard_rows:
            where = "the dataset has" if self.shards == 1 else "a shard of the dataset holds"
            raise InputError(
                f"a batch of {self.batch} is larger than the {self.shard_rows} examples that "
                f"{where}: use a smaller batch" + ("" if self.shards == 1 else " or more memory")
            )

    @property
    def shards(self) -> int:
        """How many shards make up the dataset; 1 where it fits on the device."""
        if self.limit is None or self.dataset.data.nbytes <= self.limit:
            return 1
        return -(-2 * self.dataset.data.nbytes // self.limit)

    @property
    def shard_rows(self) -> int:
        """How many rows a shard has: the same for all, so that one program serves them."""
        count = len(self.dataset)
        return count if self.shards == 1 else (count // BLOCK_ROWS // self.shards) * BLOCK_ROWS

    @property
    def shard_steps(self) -> int:
        """How many steps are taken on a shard before the next comes."""
        return self.shard_rows // self.batch

    def steps_left(self, step: int) -> int | None:
        """Returns how many steps the rows at `step` still serve; None if for ever."""
        return None if self.shards == 1 else self.shard_steps - step % self.shard_steps

    def rows(self, step: int) -> Rows:
        """Returns the rows on the device that `step` needs, and begins to read the next shard."""
        visit = 0 if self.shards == 1 else step // self.shard_steps
        if self._held is not None and self._held[0] == visit:
            return self._held[1]
        self._held = None
        ahead = self._next if self._next and self._next[0] == visit else None
        rows = ahead[1].result() if ahead else self._read(visit)
        self._held = (visit, rows)
        if self.shards > 1:
            self._reader = self._reader or ThreadPoolExecutor(1)
            self._next = (visit + 1, self._reader.submit(self._read, visit + 1))
        return rows

    def close(self) -> None:
        """Stops reading ahead."""
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    def _read(self, visit: int) -> Rows:
        """The rows of one visit to a shard, on the device."""
        dataset = self.dataset
        data = dataset.data if self.shards == 1 else dataset.data[self._choose(visit)]
        return self.place(Rows.of(dataset, data))

    def _choose(self, visit: int) -> np.ndarray:
        """The row numbers of one visit: blocks of neighbors, dealt out anew in every epoch."""
        epoch, shard = divmod(visit, self.shards)
        blocks = len(self.dataset) // BLOCK_ROWS
        dealt = self.shard_rows // BLOCK_ROWS
        places = jnp.arange(shard * dealt, (shard + 1) * dealt)
        chosen = np.sort(np.asarray(shuffled(places, blocks, key=jax.random.key(epoch))))
        return (chosen[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
