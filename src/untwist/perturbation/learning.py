"""Learning the manipulation: what disentangles by accident is made to pay, what does not, to gain.

Two sets of frozen encoders read the original images. Their decoders learn to draw the changed
images out of the same codes; the manipulation learns to make that easy for the entangled decoders
and hard for the disentangled ones. So the changed data reward the entangled latent space.

One round is three batches for the decoders and one for the manipulation.
"""

from collections.abc import Generator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, Num, PyTree

from untwist.datasets import Dataset, decode_examples
from untwist.models import ARCHITECTURES, VAE, Decoder
from untwist.perturbation.change import check_epsilon, perturb
from untwist.perturbation.features import check_factors, factor_features
from untwist.perturbation.manipulation import Manipulation
from untwist.types import InputError, nearest

Batch = tuple[Array, Array, Array]
"""Original images, features of their factors, and the key of the latent samples."""


@dataclass(frozen=True)
class Procedure:
    """How a manipulation is learned; the defaults are zietlow2021's where it states them.

    Attributes:
        epsilon: The largest change of a pixel: 0.1 for dSprites, 0.175 for Shapes3D.
        rounds: How many rounds (not stated in the paper).
        batch: Images a batch (not stated).
        samples: Latent samples an image.
        decoder_batches: Batches for the decoders to each one for the manipulation.
        learning_rate: Adam's, for the manipulation and the decoders.
        common: Whether the mean of the pattern over images is learned too. It tells nothing of the
            factors, yet while the decoders still learn that the images have changed it pays, and a
            large epsilon can drive the pattern into saturation by it (not in the paper).
        architecture: The entry of `ARCHITECTURES` whose decoder the manipulation has.
        seed: Seed of the network, of the batches and of the latent samples.
        log_every: Rounds a log.
    """

    epsilon: float = 0.1
    rounds: int = 10_000
    batch: int = 64
    samples: int = 5
    decoder_batches: int = 3
    learning_rate: float = 1e-4
    common: bool = True
    architecture: str = "convolutional"
    seed: int = 0
    log_every: int = 100

    def check(self) -> None:
        """Raises where a setting makes no sense."""
        check_epsilon(self.epsilon)
        if self.architecture not in ARCHITECTURES:
            raise nearest("architecture", self.architecture, ARCHITECTURES)
        counts = ("rounds", "batch", "samples", "decoder_batches", "log_every")
        for name in counts:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, but got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise InputError(f"a learning rate must be above 0, but got {self.learning_rate}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"a seed must be from 0 to {2**32 - 1}, but got {self.seed}")


class Players(eqx.Module):
    """What evolves while a manipulation is learned.

    Attributes:
        manipulation: m(w).
        decoders: Those of all models, stacked, the disentangled first.
        manipulation_state: Of the manipulation's optimizer.
        decoder_state: Of the decoders' optimizer.
    """

    manipulation: Manipulation
    decoders: Decoder
    manipulation_state: PyTree
    decoder_state: PyTree


@dataclass(frozen=True)
class Progress:
    """Where learning is after a log.

    Attributes:
        round: How many rounds were taken.
        players: What they came to.
        logs: Means over the rounds since the last log: `disentangled` and `entangled` (the squared
            error an image that the two sets of decoders pay for the changed images), `gap` (the
            second less the first, which the manipulation lowers), and `size`, the mean of |m|.
    """

    round: int
    players: Players
    logs: dict[str, float]


class Feed(eqx.Module):
    """Batches of rows as they are stored, with their factors' features and the noise's keys."""

    rows: Num[Array, "step part batch *stored"]
    features: Float[Array, "step part batch feature"]
    keys: Key[Array, "step part"]


def start_players(dataset: Dataset, models: VAE, procedure: Procedure) -> Players:
    """Returns the players before the first round: decoders as trained, a new manipulation.

    Args:
        dataset: The original images.
        models: The stacked disentangled models, then as many entangled ones.
        procedure: How to learn.
    """
    procedure.check()
    check_source(dataset)
    if models.decoder is None:
        raise InputError(
            "the manipulation is learned against decoders, but these models have none: take the "
            "members from a population of VAEs"
        )
    width = factor_features(dataset.factors[:1], dataset.space).shape[1]
    layers = ARCHITECTURES[procedure.architecture].decoder
    key = jax.random.key(procedure.seed)
    manipulation = Manipulation(layers, width, dataset.shape, key=key)
    optimizer = _optimizer(procedure.learning_rate)
    return Players(
        manipulation,
        models.decoder,
        optimizer.init(eqx.filter(manipulation, eqx.is_inexact_array)),
        optimizer.init(eqx.filter(models.decoder, eqx.is_inexact_array)),
    )


def learn(
    dataset: Dataset,
    models: VAE,
    procedure: Procedure,
    *,
    players: Players | None = None,
    first: int = 0,
) -> Generator[Progress, None, None]:
    """Yields the players after every `log_every` rounds and after the last one.

    What a round draws follows from the seed and its number alone, so that learning goes on from
    any log as if it had never stopped.

    Args:
        dataset: The original images, with their factors.
        models: The stacked disentangled models, then as many entangled ones; their encoders stay.
        procedure: How to learn.
        players: Where to go on from; a fresh start if None.
        first: How many rounds were taken already: a multiple of `log_every`.

    Reference: zietlow2021, Section 4.4 and Appendix B.1.
    """
    players = start_players(dataset, models, procedure) if players is None else players
    features = factor_features(dataset.factors, dataset.space)
    while first < procedure.rounds:
        last = min(procedure.rounds, first + procedure.log_every)
        feed = _feed(dataset, features, procedure, first, last)
        layout = (dataset.shape, dataset.peak, dataset.bits)
        players, logs = _advance(players, models, feed, procedure, layout)
        means = {name: float(np.mean(values)) for name, values in jax.device_get(logs).items()}
        if not all(np.isfinite(value) for value in means.values()):
            raise InputError(
                f"the manipulation diverged between rounds {first} and {last}: its loss is no "
                f"longer a number; lower the learning rate, which is {procedure.learning_rate:g}"
            )
        first = last
        yield Progress(first, players, means)


def check_source(dataset: Dataset) -> None:
    """Raises unless a dataset has images and factors that vary."""
    if not dataset.is_image:
        raise InputError(
            f"{dataset.name} holds vectors, and a manipulation changes the pixels of images: give "
            "a dataset of images"
        )
    check_factors(dataset.name, dataset.space)


def reconstruction(
    model: VAE,
    originals: Float[Array, "batch *shape"],
    targets: Float[Array, "batch *shape"],
    samples: int,
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """Returns E |E[x|z] - target|^2, z ~ q(z | original): a mean over samples and images.

    It is the squared error of the paper's Eq. 4 whatever the model's own likelihood is (with the
    expectation that Eq. 4 leaves out, erratum E16). Under a Bernoulli likelihood pixels that were
    always black have logits far out; whichever model lies farther pays more for any gray, and the
    manipulation runs into a constant veil before the decoders have learned that gray exists.
    """

    def image(x: Array, target: Array, key: Array) -> Array:
        posterior = model.encode(x)
        noise = jax.random.normal(key, (samples, *posterior.mean.shape))
        drawn = jax.vmap(lambda e: model.likelihood.mean(model.decode(posterior.at(e))))(noise)
        return jnp.sum((drawn - target) ** 2) / samples

    return jnp.mean(jax.vmap(image)(originals, targets, jax.random.split(key, len(originals))))


def _optimizer(learning_rate: float) -> optax.GradientTransformation:
    return optax.adam(learning_rate, b1=0.9, b2=0.999, eps=1e-7)


def _feed(
    dataset: Dataset, features: np.ndarray, procedure: Procedure, first: int, last: int
) -> Feed:
    """The batches of some rounds, drawn uniformly and gathered on the host."""
    parts = procedure.decoder_batches + 1
    rng = np.random.default_rng((procedure.seed, first))
    index = rng.integers(len(dataset), size=(last - first, parts, procedure.batch))
    rows = np.asarray(dataset.data[index.reshape(-1)])
    keys = jax.random.split(jax.random.key(procedure.seed), procedure.rounds * parts)
    return Feed(
        jnp.asarray(rows.reshape(*index.shape, *rows.shape[1:])),
        jnp.asarray(features[index]),
        keys.reshape(-1, parts)[first:last],
    )


@eqx.filter_jit
def _advance(
    players: Players,
    models: VAE,
    feed: Feed,
    procedure: Procedure,
    layout: tuple[tuple[int, ...], int, bool],
) -> tuple[Players, dict[str, Float[Array, " step"]]]:
    """The players after the rounds of this feed, and the logs of each."""
    arrays, statics = eqx.partition(players, eqx.is_array)
    shape, peak, bits = layout

    def batch(feed: Feed) -> Batch:
        originals = decode_examples(feed.rows, shape=shape, peak=peak, bits=bits)
        return originals, feed.features, feed.keys

    def teach(arrays: PyTree, feed: Feed) -> tuple[PyTree, None]:
        players = eqx.combine(arrays, statics)
        players = _teach_decoders(players, models, procedure, batch(feed))
        return eqx.filter(players, eqx.is_array), None

    def take(arrays: PyTree, feed: Feed) -> tuple[PyTree, dict[str, Array]]:
        arrays, _ = jax.lax.scan(teach, arrays, jax.tree.map(lambda leaf: leaf[:-1], feed))
        last = batch(jax.tree.map(lambda leaf: leaf[-1], feed))
        players = eqx.combine(arrays, statics)
        players, logs = _teach_manipulation(players, models, procedure, last)
        return eqx.filter(players, eqx.is_array), logs

    moved, logs = jax.lax.scan(take, arrays, feed)
    return eqx.combine(moved, statics), logs


def _teach_decoders(players: Players, models: VAE, procedure: Procedure, batch: Batch) -> Players:
    """The players after one step of every decoder towards the changed images."""
    originals, features, key = batch
    targets = _change(players.manipulation, originals, features, procedure.epsilon)

    def loss(decoders: Decoder) -> Array:
        return jnp.sum(_losses(decoders, models, originals, targets, procedure, key))

    gradient = eqx.filter_grad(loss)(players.decoders)
    moved, state = _move(players.decoders, gradient, players.decoder_state, procedure)
    return eqx.tree_at(lambda p: (p.decoders, p.decoder_state), players, (moved, state))


def _teach_manipulation(
    players: Players, models: VAE, procedure: Procedure, batch: Batch
) -> tuple[Players, dict[str, Array]]:
    """The players after one step of the manipulation, and the logs."""
    originals, features, key = batch

    def loss(manipulation: Manipulation) -> tuple[Array, dict[str, Array]]:
        patterns = _patterns(manipulation, features)
        if not procedure.common:
            mean = jnp.mean(patterns, axis=0)
            patterns = patterns - mean + jax.lax.stop_gradient(mean)
        targets = perturb(originals, patterns, procedure.epsilon)
        losses = _losses(players.decoders, models, originals, targets, procedure, key)
        disentangled, entangled = jnp.mean(losses.reshape(2, -1), axis=1)
        gap = entangled - disentangled
        size = jnp.mean(jnp.abs(patterns))
        return gap, {
            "disentangled": disentangled,
            "entangled": entangled,
            "gap": gap,
            "size": size,
        }

    gradient, logs = eqx.filter_grad(loss, has_aux=True)(players.manipulation)
    moved, state = _move(players.manipulation, gradient, players.manipulation_state, procedure)
    where = lambda p: (p.manipulation, p.manipulation_state)  # noqa: E731
    return eqx.tree_at(where, players, (moved, state)), logs


def _losses(
    decoders: Decoder,
    models: VAE,
    originals: Array,
    targets: Array,
    procedure: Procedure,
    key: Array,
) -> Float[Array, " model"]:
    """What each model pays for the targets, its encoder reading the originals."""
    players = eqx.tree_at(lambda m: m.decoder, models, decoders)
    arrays, statics = eqx.partition(players, eqx.is_array)
    keys = jax.random.split(key, len(jax.tree.leaves(arrays)[0]))

    def one(arrays: PyTree, key: Array) -> Array:
        model = eqx.combine(arrays, statics)
        return reconstruction(model, originals, targets, procedure.samples, key)

    return jax.vmap(one)(arrays, keys)


def _patterns(manipulation: Manipulation, features: Array) -> Array:
    return jax.vmap(manipulation, in_axes=(0, None))(features, jnp.int32(0))


def _change(manipulation: Manipulation, originals: Array, features: Array, epsilon: float) -> Array:
    return perturb(originals, _patterns(manipulation, features), epsilon)


def _move(player: PyTree, gradient: PyTree, state: PyTree, procedure: Procedure):
    """The player after one step of Adam, and its new state."""
    updates, state = _optimizer(procedure.learning_rate).update(gradient, state)
    return eqx.apply_updates(player, updates), state
