"""Optimizers: one step and several against the textbook, and rates that vary by member."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.training import Optimizer
from untwist.types import InputError

GRADIENTS = np.array([[1.0, -2.0], [0.5, 0.25], [-1.0, 3.0]])


def by_hand(name, rate):
    x, m, v = np.zeros(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(GRADIENTS, 1):
        if name == "adam":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        elif name == "adagrad":
            v = v + g**2
            x = x - rate * g / np.sqrt(v + 1e-10)
        else:
            x = x - rate * g
    return x


@pytest.mark.parametrize("name", ["adam", "adagrad", "sgd"])
def test_three_steps_by_hand(name):
    optimizer = Optimizer(jnp.array(0.1), name)
    x = jnp.zeros(2)
    state = optimizer.init(x)
    for gradient in GRADIENTS:
        x, state = optimizer.update(jnp.asarray(gradient, jnp.float32), state, x)
    np.testing.assert_allclose(x, by_hand(name, 0.1), rtol=1e-4)


def test_the_rate_varies_over_members():
    def run(rate):
        optimizer = Optimizer(rate, "sgd")
        return optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)), jnp.ones(2))[0]

    np.testing.assert_allclose(
        jax.vmap(run)(jnp.array([0.1, 0.5])), [[0.9, 0.9], [0.5, 0.5]], rtol=1e-6
    )


def test_bad_optimizers_are_refused():
    with pytest.raises(InputError, match="did you mean 'adam'"):
        Optimizer(jnp.array(0.1), "adm")
    with pytest.raises(InputError, match="learning rate must be above 0"):
        Optimizer(jnp.array([0.1, 0.0]))
