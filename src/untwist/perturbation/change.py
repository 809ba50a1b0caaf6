"""Changes of images: a pattern of at most 1, its size epsilon, and the fold back into [0, 1].

A change is a function of one image's factors and row number to a pattern in [-1, 1]; the perturbed
image is fold(x + epsilon pattern), which lies within epsilon of x at every pixel.
"""

import abc

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, UInt32

from untwist.types import InputError


class AbstractChange(eqx.Module):
    """A pattern in [-1, 1] for every image of a dataset."""

    @abc.abstractmethod
    def __call__(
        self, features: Float[Array, " feature"], row: Int[Array, ""]
    ) -> Float[Array, "height width channel"]:
        """Returns the pattern of the image with these factors, in this row."""


class Noise(AbstractChange):
    """Uniform noise, drawn once an image, so that the noisy set is a dataset like any other.

    Reference: zietlow2021, Section 5.2, which leaves open whether noise is drawn anew each time.
    """

    seed: UInt32[Array, ""]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, features: Float[Array, " feature"], row: Int[Array, ""]
    ) -> Float[Array, "height width channel"]:
        """Returns values uniform in [-1, 1], by the row alone."""
        key = jax.random.fold_in(jax.random.key(self.seed), row)
        return jax.random.uniform(key, self.shape, minval=-1.0, maxval=1.0)


def fold(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns x reflected at 0 and 1: x - 2 relu(x - 1) + 2 relu(-x).

    Values of [-1, 2] come into [0, 1], and no nearer to or farther from any point of it than the
    way around: |fold(x + d) - x| <= |d| for x in [0, 1].

    Reference: zietlow2021, Appendix B.1.

    >>> fold(jnp.array([-0.25, 0.5, 1.25])).tolist()
    [0.25, 0.5, 0.75]
    """
    return x - 2 * jax.nn.relu(x - 1) + 2 * jax.nn.relu(-x)


def perturb(
    images: Float[Array, "*shape"],
    pattern: Float[Array, "*shape"],
    epsilon: Float[Array, ""] | float,
) -> Float[Array, "*shape"]:
    """Returns fold(x + epsilon m), with the epsilon that Appendix B.1 drops (erratum E13).

    >>> perturb(jnp.array([0.0, 1.0]), jnp.array([-1.0, 0.5]), 0.5).tolist()
    [0.5, 0.75]
    """
    return fold(images + epsilon * pattern)


def check_epsilon(epsilon: float) -> None:
    """Raises unless 0 < epsilon <= 1."""
    if not 0 < epsilon <= 1:
        raise InputError(
            f"epsilon is the largest change of a pixel, above 0 and at most 1, but got {epsilon}: "
            "zietlow2021 uses 0.1 for dSprites and 0.175 for Shapes3D"
        )
