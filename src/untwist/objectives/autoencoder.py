"""The plain autoencoder: reconstruction only."""

from typing import ClassVar

from jaxtyping import Array, Key, PyTree

from untwist.models import VAE
from untwist.objectives.objective import AbstractObjective, Batch, Needs, Terms, autoencode


class Autoencoder(AbstractObjective):
    """loss = -log p(x|z), with z drawn from the posterior: its mean if that is deterministic.

    It equals `BetaVAE` at beta 0.
    """

    needs: ClassVar[Needs] = Needs(posteriors=("deterministic", "diagonal", "full"))

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the reconstruction and its parts."""
        _, _, parts = autoencode(model, batch.examples, key=key)
        return Terms(parts["reconstruction"], parts)
