"""The digit sets of sikka2019: a mixture of digits, and one digit that moves.

Both take their digits from the caller, as images of a dataset that was loaded, so that they work
with MNIST, with any other set of gray images, and with drawn ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from untwist.datasets.dataset import Dataset
from untwist.factors import FactorSpace
from untwist.types import InputError

MOVE = ((2.73, 0.73), (0.73, 2.73))
"""How the two sources move the digit, in pixels (sikka2019, appendix C)."""


def digit_mixture(
    digits: Float[np.ndarray, "digit height width"],
    *,
    samples: int = 1000,
    noise: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Returns x = A s + noise · eta, the columns of A digits, s and eta standard normal.

    The factors are the sources. The paper takes ten digits of MNIST and does not say which, nor how
    their pixels are scaled; here they are taken as they come.

    Args:
        digits: One image a source, in [0, 1].
        samples: How many mixtures.
        noise: The standard deviation of every pixel; 1 in the paper.
        seed: Seed of sources and noise.

    Reference:
        sikka2019, section V and appendix C.
    """
    _check(digits, samples, seed)
    if not 0 <= noise < float("inf"):
        raise InputError(f"digit mixture: expected a noise of 0 or more, but got {noise}")
    source_key, noise_key = jax.random.split(jax.random.key(seed))
    mixing = jnp.asarray(digits.reshape(len(digits), -1).T, jnp.float32)
    sources = jax.random.normal(source_key, (samples, len(digits)))
    eta = jax.random.normal(noise_key, (samples, len(mixing)))
    data = np.asarray(sources @ mixing.T + noise * eta)
    names = tuple(f"source{number}" for number in range(len(digits)))
    space = FactorSpace(names, (None,) * len(names), ("continuous",) * len(names))
    provenance = {"source": "synthetic, sikka2019", "twin": False, "version": 1}
    provenance |= {"seed": seed, "noise": noise}
    return Dataset(
        "digit_mixture", data, np.asarray(sources), space, "gaussian", provenance, (len(mixing),)
    )


def moving_digit(
    digit: Float[np.ndarray, "height width"],
    *,
    canvas: int = 64,
    samples: int = 1000,
    seed: int = 0,
) -> Dataset:
    """Returns images of one digit on a blank canvas at the place A s + eta, both standard normal.

    A = ((2.73, 0.73), (0.73, 2.73)), in pixels from the middle of the canvas, to the right and
    down. The factors are the sources s; eta, which moves the digit too, is the noise of the paper's
    model. The size of the canvas is not stated: 64 holds an image of 28 pixels at four standard
    deviations. Between pixels the digit is interpolated linearly.

    Args:
        digit: A gray image in [0, 1].
        canvas: Height and width of the images.
        samples: How many images.
        seed: Seed of sources and noise.

    Reference:
        sikka2019, appendix C.
    """
    _check(digit[None], samples, seed)
    if canvas < max(digit.shape):
        raise InputError(
            f"moving digit: a digit of {digit.shape} does not fit on a canvas of {canvas} pixels"
        )
    source_key, noise_key = jax.random.split(jax.random.key(seed))
    sources = jax.random.normal(source_key, (samples, 2))
    places = sources @ jnp.array(MOVE).T + jax.random.normal(noise_key, (samples, 2))
    draw = jax.jit(jax.vmap(lambda place: draw_digit(jnp.asarray(digit), place, canvas=canvas)))
    data = np.asarray(jnp.floor(255 * draw(places) + 0.5).astype(jnp.uint8))
    space = FactorSpace(("source1", "source2"), (None, None), ("continuous", "continuous"))
    provenance = {"source": "synthetic, sikka2019", "twin": False, "version": 1, "seed": seed}
    factors = np.asarray(sources)
    shape = (canvas, canvas, 1)
    return Dataset("moving_digit", data, factors, space, "bernoulli", provenance, shape)


def draw_digit(
    digit: Float[Array, "height width"], place: Float[Array, "2"], *, canvas: int = 64
) -> Float[Array, "canvas canvas 1"]:
    """Returns the canvas with the digit's middle at a place, linear between pixels.

    Args:
        digit: A gray image in [0, 1].
        place: Pixels to the right and down from the middle of the canvas.
        canvas: Height and width in pixels.
    """
    height, width = digit.shape
    rows = jnp.arange(canvas) - (canvas - height) / 2 - place[1]
    columns = jnp.arange(canvas) - (canvas - width) / 2 - place[0]
    from_rows = jnp.maximum(1 - jnp.abs(rows[:, None] - jnp.arange(height)), 0)
    from_columns = jnp.maximum(1 - jnp.abs(columns[:, None] - jnp.arange(width)), 0)
    return (from_rows @ digit @ from_columns.T)[..., None]


def _check(digits: Float[np.ndarray, "digit height width"], samples: int, seed: int) -> None:
    """Raises unless the digits are images and the sample can be drawn."""
    if len(digits) < 1 or digits.min() < 0 or digits.max() > 1 or not digits.max() > 0:
        raise InputError("digits: expected at least one image in [0, 1] that is not blank")
    if samples < 1:
        raise InputError(f"digits: expected at least one sample, but got samples={samples}")
    if not 0 <= seed < 2**32:
        raise InputError(f"digits: expected a seed from 0 to 2^32 - 1, but got {seed}")
