"""What a population makes of a dataset: the posteriors of every member, chunk by chunk."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from rich.console import Console
from rich.progress import track

from untwist.datasets import Dataset
from untwist.models import VAE, FullGaussian, fuse
from untwist.training.member import Rows

CHUNK = 1024
"""Examples at a time."""


class Encoding(NamedTuple):
    """The posteriors of examples under every member, and how well their means decode.

    Attributes:
        means: The means of the posteriors: the codes.
        variances: Their variances, latent by latent, or covariances under a full posterior; 0 under
            a deterministic one.
        losses: -log p(x|z) at the mean, in nats; 0 where the models have no decoder.
    """

    means: Float[np.ndarray, "member item latent"]
    variances: Float[np.ndarray, "member item *latent"]
    losses: Float[np.ndarray, "member item"]


def encode(
    models: VAE,
    dataset: Dataset,
    index: Int[np.ndarray, " item"] | None = None,
    *,
    progress: bool = False,
) -> Encoding:
    """Returns the encoding of chosen examples, all by default, under stacked models.

    Args:
        models: Every array with a leading member axis.
        dataset: The examples.
        index: Which rows.
        progress: Whether to show a bar on a terminal.
    """
    index = np.arange(len(dataset)) if index is None else index
    models = fuse(models)
    padded = np.resize(index, -(-len(index) // CHUNK) * CHUNK)
    console = Console(stderr=True)
    quiet = not (progress and console.is_terminal)
    chunks = range(0, len(padded), CHUNK)
    pieces, ahead = [], None
    for i in track(chunks, "encoding", console=console, transient=True, disable=quiet):
        rows = Rows.of(dataset, np.asarray(dataset.data[padded[i : i + CHUNK]]))
        # The next chunk is under way while the last one is fetched.
        here, ahead = ahead, _chunk(models, rows)
        pieces += [] if here is None else [jax.device_get(here)]
    pieces.append(jax.device_get(ahead))
    means, spread, losses = (
        np.concatenate(part, axis=1)[:, : len(index)] for part in zip(*pieces, strict=True)
    )
    if models.posterior == "full":  # a product of doubles stays positive definite
        spread = spread.astype(np.float64)
        spread = spread @ spread.swapaxes(-1, -2)
    return Encoding(means, spread, losses)


@eqx.filter_jit
def _chunk(models: VAE, rows: Rows) -> tuple[Array, Array, Array]:
    """One chunk through every member: means, variances or Cholesky factors, losses."""
    examples = rows.examples(jnp.arange(len(rows.data)))

    def one(model: VAE, x: Array) -> tuple[Array, Array, Array]:
        posterior = model.encode(x)
        full = isinstance(posterior, FullGaussian)
        spread = posterior.cholesky if full else posterior.variance
        if model.decoder is None:
            return posterior.mean, spread, jnp.zeros(())
        loss = -model.likelihood.log_prob(model.decode(posterior.mean), x)
        return posterior.mean, spread, loss

    members = eqx.filter_vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(eqx.if_array(0), None))
    return members(models, examples)
