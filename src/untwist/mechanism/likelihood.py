"""The likelihood as local geometry needs it: slope, curvature and divergence in the outputs."""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.types import AnyArray, InputError, known, nearest

LikelihoodName = Literal["squared_error", "gaussian", "bernoulli"]


class Likelihood(eqx.Module):
    """p(x|y) with natural outputs y: log p = x T y - A(y) up to constants, in nats.

    `squared_error` is |x - y|^2, `gaussian` has a fixed variance, `bernoulli` takes logits. For a
    population the variance may have a member axis.

    >>> Likelihood("gaussian", jnp.array(0.5)).curvature(jnp.zeros(1)).tolist()
    [2.0]
    """

    name: str = eqx.field(static=True)
    variance: Float[Array, "..."]

    def log_prob(self, output: Float[AnyArray, " pixel"], x: Float[AnyArray, " pixel"]) -> Array:
        """Returns log p(x|y), without its constant for a squared error."""
        if self.name == "bernoulli":
            return jnp.sum(x * output - jax.nn.softplus(output))
        square = -0.5 * jnp.sum((x - output) ** 2) / self.variance
        if self.name == "squared_error":
            return square
        return square - 0.5 * x.size * jnp.log(2 * jnp.pi * self.variance)

    def pull(self, output: Float[AnyArray, " pixel"], x: Float[AnyArray, " pixel"]) -> Array:
        """Returns the derivative of log p(x|y) in y."""
        if self.name == "bernoulli":
            return jnp.asarray(x) - jax.nn.sigmoid(output)
        return jnp.asarray(x - output) / self.variance

    def curvature(self, output: Float[AnyArray, " pixel"]) -> Array:
        """Returns minus the second derivative of log p(x|y) in y, whatever x."""
        if self.name == "bernoulli":
            mean = jax.nn.sigmoid(output)
            return mean * (1 - mean)
        return jnp.broadcast_to(1 / self.variance, output.shape).astype(output.dtype)

    def divergence(
        self, clean: Float[AnyArray, " pixel"], noisy: Float[AnyArray, " pixel"]
    ) -> Array:
        """Returns KL(p(.|clean) || p(.|noisy)): half the square of the change over the variance."""
        if self.name == "bernoulli":
            rise = jax.nn.softplus(noisy) - jax.nn.softplus(clean)
            return jnp.sum(rise - jax.nn.sigmoid(clean) * (noisy - clean))
        return 0.5 * jnp.sum((noisy - clean) ** 2) / self.variance

    def at(self, codes: AnyArray) -> "Likelihood":
        """Returns it with a variance for each item (of each member) of [*member, item, ...]."""
        shape = np.shape(codes)[:-1]
        return Likelihood(self.name, jnp.broadcast_to(self.variance[..., None], shape))


def as_likelihood(
    name: str | Likelihood, variance: float | Float[AnyArray, " member"] | None = None
) -> Likelihood:
    """Returns the likelihood of this name; squared error counts as the variance 1/2 that it is.

    >>> float(as_likelihood("squared_error").variance)
    0.5
    """
    if isinstance(name, Likelihood):
        return name
    if name not in get_args(LikelihoodName):
        raise nearest("likelihood", name, get_args(LikelihoodName))
    if name == "gaussian":
        if variance is None:
            raise InputError("a Gaussian likelihood needs its variance: give variance=...")
        if known(variance) and not np.all(np.asarray(variance) > 0):
            raise InputError(f"a Gaussian likelihood needs a variance above 0, but got {variance}")
        return Likelihood(name, jnp.asarray(variance, jnp.float32))
    return Likelihood(name, jnp.asarray(0.5 if name == "squared_error" else 1.0, jnp.float32))
