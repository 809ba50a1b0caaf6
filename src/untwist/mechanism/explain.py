"""`explain`: everything that applies to one trained model, or to each of a population."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.assembly import assemble
from untwist.mechanism.decoder import AbstractDecoder, Decode, Number, as_decoder
from untwist.mechanism.directions import neighbor_directions, principal_directions
from untwist.mechanism.explanation import Explanation
from untwist.mechanism.geometry import jacobians
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.measure import measure, members_at_once
from untwist.mechanism.posterior import Encode, posteriors_of
from untwist.mechanism.subject import Depth, Directions, Subject, active_latents
from untwist.types import AnyArray, InputError, RandomKey

GENERATED = 8
"""Rows of the generator's Jacobians at a time."""

Generator = Callable[[Array], Array] | AnyArray


def explain(
    decode: Decode | AbstractDecoder | AnyArray | None,
    encode: Encode | tuple[AnyArray, AnyArray | None],
    x: AnyArray | None = None,
    factors: AnyArray | None = None,
    *,
    key: RandomKey,
    likelihood: str | Likelihood = "squared_error",
    beta: float | None = 1.0,
    generator: Generator | None = None,
    names: Sequence[str] | None = None,
    outputs: AnyArray | None = None,
    depth: Depth = Depth(),  # noqa: B008
) -> Explanation:
    """Returns everything that applies to a trained model: numbers, plain sentences, figures' data.

    Any model will do. What does not apply (no posterior, no examples, no factors, Jacobians in
    place of a decoder) is left out with the reason. Nothing is trained but local fits, and no label
    enters anything but the matching of latents and factors.

    Args:
        decode: From one code to one example's outputs (logits for a Bernoulli likelihood) by a JAX
            function; a decoder of `untwist.mechanism.torch`; Jacobians at the means; or None for an
            encoder alone.
        encode: From a batch of examples to `(mean, sigma)`, or these arrays. Sigma holds standard
            deviations, or Cholesky factors of full covariances, or is None.
        x: The examples.
        factors: Their factors, one column each.
        key: All random choices.
        likelihood: `squared_error` (no factor 1/2), `bernoulli`, or a `Likelihood` with a variance.
        beta: The weight of the KL term that the model was trained with; None for an objective that
            holds none, as an annealed capacity: then the one that the posterior speaks of is used.
        generator: The data's generator: its Jacobians [item, pixel, factor], scaled by the factors'
            standard deviations, or a JAX function from one row of factors. Without it, the data's
            directions come from nearest neighbors.
        names: Names of the factors.
        outputs: With Jacobians of a Bernoulli decoder, its logits at the means.
        depth: How much to look at.

    Returns:
        The explanation: `table` and `sentences` to read, its parts to work with.

    >>> import jax
    >>> mean = np.random.default_rng(0).standard_normal((200, 2))
    >>> sigma = np.tile([1 / 9, 1 / 3], (200, 1))
    >>> found = explain(lambda z: z * np.sqrt([40.0, 4.0]), (mean, sigma), key=jax.random.key(0))
    >>> round(float(found.orthogonality.distance.mean()), 6), round(found.covariance.slope, 6)
    (0.0, 1.0)
    """
    subject = _subject(decode, encode, x, key, likelihood, beta, outputs, depth)
    if subject.members is not None:
        raise InputError(
            f"these are the codes of a population of {subject.members} members: explain each by "
            "`explain_members`, or give codes (item, latent) of one"
        )
    subject = replace(subject, data=_data_directions(subject, factors, generator))
    return assemble(subject, measure(subject), factors, names)


def explain_members(
    decode: Decode | AbstractDecoder | AnyArray | None,
    encode: Encode | tuple[AnyArray, AnyArray | None],
    x: AnyArray | None = None,
    factors: AnyArray | None = None,
    *,
    key: RandomKey,
    likelihood: str | Likelihood = "squared_error",
    beta: Number | None = 1.0,
    generator: Generator | None = None,
    names: Sequence[str] | None = None,
    outputs: AnyArray | None = None,
    depth: Depth = Depth(),  # noqa: B008
) -> tuple[Explanation, ...]:
    """Returns the explanation of each member of a population: what `explain` gives it alone.

    Whatever calls a decoder is computed for many members in one program, so it is compiled once.

    Args:
        decode: Stacked decoders, as `population.models.decode`: every array has a leading member
            axis. Or Jacobians [member, item, pixel, latent], or None.
        encode: From a batch of examples to `(mean, sigma)` of all members, or these arrays, with a
            leading member axis.
        x: The examples, the same for all members.
        factors: Their factors.
        key: All random choices, the same for all members.
        likelihood: Its variance, if it has one, may be one a member.
        beta: The weight of the KL term, or one a member.
        generator: As for `explain`.
        names: Names of the factors.
        outputs: With Jacobians of Bernoulli decoders, their logits.
        depth: How much to look at.

    >>> import jax
    >>> mean = np.random.default_rng(0).standard_normal((2, 200, 2))
    >>> sigma = np.tile([1 / 9, 1 / 3], (2, 200, 1))
    >>> decode = lambda z: z * np.sqrt([40.0, 4.0])
    >>> both = explain_members(decode, (mean, sigma), key=jax.random.key(0))
    >>> [round(found.covariance.slope, 6) for found in both]
    [1.0, 1.0]
    """
    subject = _subject(decode, encode, x, key, likelihood, beta, outputs, depth)
    members = subject.members
    if members is None:
        raise InputError(
            "these are the codes of one model: explain it by `explain`, or give codes with a "
            "leading member axis"
        )
    subject = replace(subject, data=_data_directions(subject, factors, generator))
    found, block = [], min(members_at_once(subject), members)
    for first in range(0, members, block):
        # The last block is filled up, so that one shape is compiled.
        few = subject.of(np.minimum(np.arange(first, first + block), members - 1))
        measured = measure(few)
        for place in range(min(block, members - first)):
            found.append(assemble(few.of(place), measured.of(place), factors, names))
    return tuple(found)


def _subject(
    decode: Decode | AbstractDecoder | AnyArray | None,
    encode: Encode | tuple[AnyArray, AnyArray | None],
    x: AnyArray | None,
    key: RandomKey,
    likelihood: str | Likelihood,
    beta: Number | None,
    outputs: AnyArray | None,
    depth: Depth,
) -> Subject:
    """The arguments, checked."""
    if beta is not None and not (np.isfinite(beta).all() and (np.asarray(beta) >= 0).all()):
        raise InputError(f"beta must be at least 0, but got {beta}")
    posteriors = posteriors_of(encode, x)
    items = posteriors.mean.shape[-2]
    if x is not None and len(x) != items:
        raise InputError(f"{len(x)} examples have {items} codes: give one each")
    given = isinstance(decode, np.ndarray | Array)
    draw = np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
    return Subject(
        None if given or decode is None else as_decoder(decode),
        np.asarray(decode) if given else None,
        None if outputs is None else np.asarray(outputs),
        posteriors,
        x,
        _no_directions,
        as_likelihood(likelihood),
        beta,
        active_latents(posteriors),
        depth,
        list(jax.random.split(key, 4)),
        draw.permutation(items),
    )


def _no_directions(axes: int) -> tuple[ndarray, str]:
    raise InputError("needs the examples, or the data's generator: give x or generator")


def _data_directions(
    subject: Subject, factors: AnyArray | None, generator: Generator | None
) -> Directions:
    """Local directions of the data, computed once for all members that need as many."""
    rows, x = subject.rows(subject.depth.fit_items), subject.x
    if generator is not None:
        once = functools.cache(
            lambda: principal_directions(_generator_jacobians(generator, factors, rows))
        )
        return lambda axes: (once(), "the generator")
    if x is None:
        return _no_directions
    near = functools.cache(lambda axes: neighbor_directions(x, x[rows], axes=axes))
    return lambda axes: (near(axes), "nearest neighbors")


def _generator_jacobians(
    generator: Generator, factors: AnyArray | None, rows: ndarray
) -> Float[ndarray, "item pixel factor"]:
    """The generator's Jacobians at chosen items, scaled to unit variance of the factors."""
    if isinstance(generator, np.ndarray | Array):
        return np.asarray(generator)[rows]
    if factors is None:
        raise InputError("the generator needs factors: give factors, or its Jacobians")
    values = np.asarray(factors, np.float64)
    # A few rows at a time: a drawing holds far more on its way than its pixels.
    return jacobians(generator, values[rows], chunk=GENERATED) * values.std(0)
