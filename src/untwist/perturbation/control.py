"""The control that the paper lacks: a manipulation of the same size and smoothness, unlearned.

Its network has the same form with weights never trained, so its neuron is another function of the
factors and its patterns other patterns. Three properties are then made equal to the learned one's:

- *smoothness along the factors*: how much patterns change when one factor moves one step, relative
  to how much they change at all, by the gain of the neuron;
- *smoothness in the image, and the share of the pattern that never changes*: the power spectra of
  the mean pattern and of the rest, by two linear filters before the hyperbolic tangent;
- *size*: the root mean square of the pattern, by a last gain.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from untwist.models import Layers
from untwist.perturbation.change import AbstractChange
from untwist.perturbation.manipulation import Manipulation

HALVINGS = 40
RATIO = 100.0
"""Gains are sought within this factor of 1."""


class RandomDirection(AbstractChange):
    """tanh(gain (mean + F (logits(sharpness neuron(w)) - center))), F a filter in the image.

    Attributes:
        network: Untrained weights.
        sharpness: The gain of its neuron.
        center: The mean of its own logits.
        mean: What takes the center's place.
        filter: The amplitudes of F on the frequencies of `rfft2`.
        gain: The gain before the hyperbolic tangent.
    """

    network: Manipulation
    sharpness: Float[Array, ""]
    center: Float[Array, "height width channel"]
    mean: Float[Array, "height width channel"]
    filter: Float[Array, "height frequency channel"]
    gain: Float[Array, ""]

    def __call__(
        self, features: Float[Array, " feature"], row: Int[Array, ""]
    ) -> Float[Array, "height width channel"]:
        """Returns the pattern, the same for every row with these factors."""
        varying = self.network.draw(self.sharpness * self.network.neuron(features)) - self.center
        spectrum = self.filter * jnp.fft.rfft2(varying, axes=(0, 1))
        filtered = jnp.fft.irfft2(spectrum, varying.shape[:2], axes=(0, 1))
        return jnp.tanh(self.gain * (self.mean + filtered))


def random_direction(
    learned: Manipulation,
    layers: Layers,
    points: Float[Array, "item feature"],
    neighbors: Float[Array, "item feature"],
    *,
    key: Key[Array, ""],
) -> RandomDirection:
    """Returns an untrained manipulation that matches a learned one in size and smoothness.

    Args:
        learned: What to match.
        layers: The layers of its network.
        points: Features of random images, on which everything is measured.
        neighbors: Features of the same images with one factor one step further.
        key: Of the untrained weights.
    """
    width, shape = points.shape[1], learned.draw.shape
    network = Manipulation(layers, width, shape, key=key)
    target = _patterns(learned, points)
    sharpness = _solve(
        lambda s: _step(_logits(network, s, points), _logits(network, s, neighbors)),
        float(_step(target, _patterns(learned, neighbors))),
    )
    logits = _logits(network, sharpness, points)
    center, wanted = jnp.mean(logits, axis=0), jnp.mean(target, axis=0)
    amplitude = _amplitude(target - wanted) / jnp.maximum(_amplitude(logits - center), 1e-12)
    scale = _amplitude(wanted[None]) / jnp.maximum(_amplitude(center[None]), 1e-12)
    spectrum = scale * jnp.fft.rfft2(center, axes=(0, 1))
    mean = jnp.fft.irfft2(spectrum, shape[:2], axes=(0, 1))
    made = RandomDirection(network, sharpness, center, mean, amplitude, jnp.float32(1.0))
    size = float(_size(target))
    gain = _solve(lambda g: _size(_patterns(eqx.tree_at(lambda m: m.gain, made, g), points)), size)
    return eqx.tree_at(lambda m: m.gain, made, gain)


def smoothness(
    change: AbstractChange,
    points: Float[Array, "item feature"],
    neighbors: Float[Array, "item feature"],
) -> dict[str, float]:
    """Returns what the control matches, as measured on patterns.

    `size` is the root mean square of the pattern; `varying` that of the pattern less its mean over
    images; `factor_step` the root mean square change over one step of one factor, and `pixel_step`
    that between neighboring pixels, both relative to `varying` and `size`.
    """
    here, there = _patterns(change, points), _patterns(change, neighbors)
    size, varying = _size(here), _size(here - jnp.mean(here, axis=0))
    pixels = jnp.sqrt(
        0.5 * (_size(jnp.diff(here, axis=1)) ** 2 + _size(jnp.diff(here, axis=2)) ** 2)
    )
    return {
        "size": float(size),
        "varying": float(varying),
        "factor_step": float(_size(there - here) / jnp.maximum(varying, 1e-12)),
        "pixel_step": float(pixels / jnp.maximum(size, 1e-12)),
    }


def _solve(rising: Callable[[Array], Array], target: float) -> Float[Array, ""]:
    """The gain at which a function that rises with it reaches the target, by bisection."""
    function = jax.jit(rising)
    low, high = -np.log(RATIO), np.log(RATIO)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = float(function(jnp.float32(np.exp(middle)))) >= target
        low, high = (low, middle) if reached else (middle, high)
    return jnp.float32(np.exp((low + high) / 2))


def _logits(network: Manipulation, sharpness: Array, features: Array) -> Array:
    return jax.vmap(lambda f: network.draw(sharpness * network.neuron(f)))(features)


def _patterns(change: AbstractChange, features: Array) -> Array:
    return jax.vmap(change)(features, jnp.arange(len(features)))


def _size(values: Array) -> Array:
    """The root mean square."""
    return jnp.sqrt(jnp.mean(values**2))


def _step(here: Array, there: Array) -> Array:
    """The change over one step of a factor, relative to the variation over all images."""
    return _size(there - here) / jnp.maximum(_size(here - jnp.mean(here, axis=0)), 1e-12)


def _amplitude(images: Array) -> Float[Array, "height frequency channel"]:
    """The root of the mean power at each frequency."""
    return jnp.sqrt(jnp.mean(jnp.abs(jnp.fft.rfft2(images, axes=(1, 2))) ** 2, axis=0))
