"""What a population makes of a dataset: the posteriors of every member, chunk by chunk."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from rich.console import Console
from rich.progress import track

from untwist.datasets import Dataset
from untwist.models import VAE, FullGaussian, fuse
from untwist.training.member import Rows
from untwist.training.program import place

CHUNK = 1024
"""Examples at a time on a CPU."""
IMAGES = {True: 2**17, False: 2**15}
"""Examples times members at a time elsewhere, with the GPU kernels and without."""
MOST = 2**14
"""Examples at a time there, however few the members."""
AHEAD = 4
"""How many chunks are under way, on the device or on their way into the host's memory."""


class Encoding(NamedTuple):
    """The posteriors of examples under every member, and how well their means decode.

    Attributes:
        means: The means of the posteriors: the codes.
        variances: Their variances, latent by latent, or covariances under a full posterior; 0 under
            a deterministic one.
        losses: -log p(x|z) at the mean, in nats; 0 where the models have no decoder, and None where
            they were not asked for.
    """

    means: Float[np.ndarray, "member item latent"]
    variances: Float[np.ndarray, "member item *latent"]
    losses: Float[np.ndarray, "member item"] | None


def encode(
    models: VAE,
    dataset: Dataset,
    index: Int[np.ndarray, " item"] | None = None,
    *,
    losses: bool = True,
    progress: bool = False,
) -> Encoding:
    """Returns the encoding of chosen examples, all by default, under stacked models.

    Args:
        models: Every array with a leading member axis.
        dataset: The examples.
        index: Which rows.
        losses: Whether to decode, too: more than half of the work.
        progress: Whether to show a bar on a terminal.
    """
    index = np.arange(len(dataset)) if index is None else index
    models = place(fuse(models), None)
    members = len(jax.tree.leaves(eqx.filter(models, eqx.is_array))[0])
    size = _chunk_size(members, len(index), fused=models.fused)
    padded = np.resize(index, -(-len(index) // size) * size)
    console = Console(stderr=True)
    quiet = not (progress and console.is_terminal)
    chunks = range(0, len(padded), size)
    whole: PyTree = None
    stores: deque[Future] = deque()
    with ThreadPoolExecutor(AHEAD) as hands:
        for i in track(chunks, "encoding", console=console, transient=True, disable=quiet):
            rows = Rows.of(dataset, np.asarray(dataset.data[padded[i : i + size]]))
            # Placed, they are sent while the device works; a program's arguments wait for it.
            parts = _chunk(models, place(rows, None), losses)
            whole = whole or _room(parts, len(index))
            stores.append(hands.submit(_store, whole, i, parts))
            if len(stores) > AHEAD:
                stores.popleft().result()
        for store in stores:
            store.result()
    means, spread, found = whole
    if models.posterior == "full":  # a product of doubles stays positive definite
        spread = spread.astype(np.float64)
        spread = spread @ spread.swapaxes(-1, -2)
    return Encoding(means, spread, found)


def _chunk_size(members: int, items: int, *, fused: bool) -> int:
    """Examples at a time: on an accelerator the fewer the more members, and powers of two."""
    if jax.default_backend() == "cpu":
        return CHUNK
    most = min(MOST, max(1, IMAGES[fused] // members))
    return min(1 << most.bit_length() - 1, 1 << max(0, items - 1).bit_length())


def _room(parts: PyTree, items: int) -> PyTree:
    """Arrays for all items, in the shape that those of one chunk have."""
    return jax.tree.map(lambda p: np.empty((len(p), items, *p.shape[2:]), p.dtype), parts)


def _store(whole: PyTree, first: int, parts: PyTree) -> None:
    """Fetches a chunk and writes it where it belongs, without what filled it up."""
    for target, part in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        room = target[:, first : first + part.shape[1]]
        room[:] = np.asarray(part)[:, : room.shape[1]]


@eqx.filter_jit
def _chunk(models: VAE, rows: Rows, losses: bool) -> tuple[Array, Array, Array | None]:
    """One chunk through every member: means, variances or Cholesky factors, losses."""
    examples = rows.examples(jnp.arange(len(rows.data)))

    def one(model: VAE, x: Array) -> tuple[Array, Array, Array | None]:
        posterior = model.encode(x)
        full = isinstance(posterior, FullGaussian)
        spread = posterior.cholesky if full else posterior.variance
        if not losses:
            return posterior.mean, spread, None
        if model.decoder is None:
            return posterior.mean, spread, jnp.zeros(())
        loss = -model.likelihood.log_prob(model.decode(posterior.mean), x)
        return posterior.mean, spread, loss

    members = eqx.filter_vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(eqx.if_array(0), None))
    return members(models, examples)
