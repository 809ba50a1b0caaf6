"""Optimizers whose learning rate is an array, so that it may vary inside a population."""

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from untwist.types import InputError, known, nearest

# Adam with the field's constants, and with those of FactorVAE's discriminator (Kim and Mnih 2018,
# Appendix A); AdaGrad as in PyTorch, its accumulator from zero.
OPTIMIZERS: dict[str, optax.GradientTransformation] = {
    "adam": optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8),
    "adam-adversarial": optax.scale_by_adam(b1=0.5, b2=0.9, eps=1e-8),
    "adagrad": optax.scale_by_rss(initial_accumulator_value=0.0, eps=1e-10),
    "sgd": optax.identity(),
}


class Optimizer(eqx.Module):
    """A rule by name and a learning rate: parameters move by -rate times the scaled gradient."""

    learning_rate: Float[Array, "..."]
    name: str = eqx.field(static=True, default="adam")

    def __check_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise nearest("optimizer", self.name, OPTIMIZERS)
        rate = self.learning_rate
        if known(rate) and not (np.asarray(rate) > 0).all():
            raise InputError(f"a learning rate must be above 0, but got {rate}")

    def init(self, parameters: PyTree) -> PyTree:
        """Returns the state before the first step."""
        return OPTIMIZERS[self.name].init(parameters)

    def update(self, gradients: PyTree, state: PyTree, parameters: PyTree) -> tuple[PyTree, PyTree]:
        """Returns the parameters after one step, and the new state."""
        scaled, state = OPTIMIZERS[self.name].update(gradients, state)
        moved = jax.tree.map(lambda p, u: p - self.learning_rate * u, parameters, scaled)
        return moved, state
