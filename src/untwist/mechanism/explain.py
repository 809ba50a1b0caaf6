"""`explain`: everything that applies to one trained model, in one call."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, Decode, as_decoder
from untwist.mechanism.directions import (
    DirectionAgreement,
    direction_agreement,
    mean_jacobians,
    neighbor_directions,
    principal_directions,
)
from untwist.mechanism.explanation import Explanation, Orthogonality
from untwist.mechanism.figures import figures
from untwist.mechanism.geometry import Geometry, jacobians, local_geometry
from untwist.mechanism.hessian import elbo_comparison, hessian_shares, likelihood_hessians
from untwist.mechanism.identifiability import free_angles
from untwist.mechanism.independence import factorization, posterior_overlap, total_correlation
from untwist.mechanism.likelihood import Likelihood, as_likelihood
from untwist.mechanism.local_fit import local_fits
from untwist.mechanism.loss_split import loss_split
from untwist.mechanism.matching import match_factors
from untwist.mechanism.orthogonality import (
    column_norms,
    cosines,
    distance_to_orthogonality,
    haar_distance,
    hadamard_gap,
    polar_distance,
    spectrum,
)
from untwist.mechanism.plateaus import Profile, plateau_contrast, profile
from untwist.mechanism.polarized import polarization
from untwist.mechanism.posterior import Encode, posteriors_of
from untwist.mechanism.precision import covariance_relation, noise_rule
from untwist.mechanism.sentences import sentences
from untwist.mechanism.subject import NO_DECODER, Depth, Parts, Subject, active_latents, among
from untwist.types import AnyArray, InputError, RandomKey

Generator = Callable[[Array], Array] | AnyArray


def explain(
    decode: Decode | AbstractDecoder | AnyArray | None,
    encode: Encode | tuple[AnyArray, AnyArray | None],
    x: AnyArray | None = None,
    factors: AnyArray | None = None,
    *,
    key: RandomKey,
    likelihood: str | Likelihood = "squared_error",
    beta: float = 1.0,
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
        beta: The weight of the KL term that the model was trained with.
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
    likelihood = as_likelihood(likelihood)
    if not (np.isfinite(beta) and beta >= 0):
        raise InputError(f"beta must be at least 0, but got {beta}")
    posteriors = posteriors_of(encode, x)
    if x is not None and len(x) != len(posteriors.mean):
        raise InputError(f"{len(x)} examples have {len(posteriors.mean)} codes: give one each")
    given = isinstance(decode, np.ndarray | Array)
    draw = np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
    subject = Subject(
        None if given or decode is None else as_decoder(decode),
        np.asarray(decode) if given else None,
        None if outputs is None else np.asarray(outputs),
        posteriors,
        x,
        likelihood,
        beta,
        active_latents(posteriors),
        depth,
        list(jax.random.split(key, 4)),
        draw.permutation(len(posteriors.mean)),
    )
    parts = Parts()
    geometry = _add_geometry(parts, subject)
    _add_posterior(parts, subject, geometry)
    _add_curvature(parts, subject)
    _add_traversals(parts, subject)
    _add_data(parts, subject, factors, generator)
    kind = "none" if posteriors.sigma is None else "diagonal" if posteriors.diagonal else "full"
    items = 0 if geometry is None else len(geometry.gram)
    latents = posteriors.mean.shape[1]
    found = Explanation(latents, items, kind, subject.active, reasons=parts.reasons, **parts.made)
    labels = names if names is not None or factors is None else _numbered(np.shape(factors)[1])
    said = sentences(found, names=labels)
    return replace(found, sentences=said, figures=figures(found, subject, geometry))


def _numbered(count: int) -> list[str]:
    return [f"factor {index}" for index in range(count)]


def _add_geometry(parts: Parts, subject: Subject) -> Geometry | None:
    """Orthogonality, factorization and free angles, all from Gram matrices."""
    if subject.encoder_alone:
        for name in ("orthogonality", "factorization", "free"):
            parts.reasons[name] = NO_DECODER
        return None
    rows = subject.rows(subject.depth.items)
    codes = subject.posteriors.mean[rows]
    if subject.decoder is not None:
        geometry = local_geometry(
            subject.decoder, codes, likelihood=subject.likelihood, chunk=subject.depth.chunk
        )
    else:
        matrices = np.asarray(subject.jacobians)
        if len(matrices) != len(subject.posteriors.mean):
            raise InputError(
                f"there are {len(matrices)} Jacobians for {len(subject.posteriors.mean)} codes: "
                "give one each"
            )
        outputs = None if subject.outputs is None else subject.outputs[rows]
        geometry = local_geometry(
            matrices[rows], codes, likelihood=subject.likelihood, outputs=outputs
        )
    used = geometry.among(subject.active)
    parts.add("orthogonality", lambda: _orthogonality(geometry, used))
    parts.add("factorization", lambda: factorization(_some(used.gram), codes[:, subject.active]))
    if subject.posteriors.diagonal:
        spread = np.sqrt(np.diagonal(subject.posteriors.aggregate())[subject.active])
        scale = spread[:, None] * spread
        parts.add("free", lambda: free_angles(_some(used.information) * scale, floor=subject.beta))
    else:
        parts.reasons["free"] = "the objective sees no axes without a diagonal posterior"
    return geometry


def _some(grams: ndarray) -> ndarray:
    """The Gram matrices, if any latent is active."""
    if not grams.shape[-1]:
        raise InputError("no latent is active")
    return np.asarray(grams, np.float64)


def _orthogonality(geometry: Geometry, used: Geometry) -> Orthogonality:
    gram = _some(used.gram)
    found, gaps = spectrum(gram), hadamard_gap(gram)
    finite = np.isfinite(gaps)
    return Orthogonality(
        distance_to_orthogonality(found.vectors),
        distance_to_orthogonality(spectrum(used.information).vectors),
        float(distance_to_orthogonality(spectrum(geometry.gram).vectors).mean()),
        haar_distance(gram.shape[-1]),
        float(polar_distance(gram).mean()),
        float(gaps[finite].mean()) if finite.any() else np.inf,
        np.abs(cosines(gram)).mean(0),
        found.values,
        float(np.mean(~finite)),
    )


def _add_posterior(parts: Parts, subject: Subject, geometry: Geometry | None) -> None:
    """What the posteriors say, by themselves and beside the decoder's slopes."""
    posteriors, active = subject.posteriors, subject.active
    some = subject.some(subject.depth.items)
    if posteriors.diagonal:
        parts.add(
            "polarization", lambda: polarization(posteriors.mean, np.asarray(posteriors.sigma))
        )
    else:
        for name in ("polarization", "noise"):
            parts.reasons[name] = "speaks of a diagonal posterior"
    if geometry is None:
        parts.reasons |= {"noise": NO_DECODER, "covariance": NO_DECODER}
    else:
        if posteriors.diagonal:
            norms, variance = column_norms(geometry.gram)[:, active], some.variance[:, active]
            parts.add("noise", lambda: noise_rule(norms, variance))
        parts.add("covariance", lambda: covariance_relation(geometry, some, beta=subject.beta))
    parts.add(
        "total_correlation",
        lambda: total_correlation(among(posteriors, active), key=subject.keys[0]),
    )
    parts.add("overlap", lambda: posterior_overlap(posteriors, subject.x, key=subject.keys[1]))


def _add_curvature(parts: Parts, subject: Subject) -> None:
    """Loss split, Hessians, ELBOs and local fits: all that calls the decoder off the codes."""
    count, depth = subject.depth.costly_items, subject.depth
    if depth.fit_items:
        few = subject.some(depth.fit_items)
        parts.add("fits", lambda: local_fits(subject.decode(), few, key=subject.keys[3]))
    else:
        parts.reasons["fits"] = "left out: depth.fit_items is 0"
    if not count:
        for name in ("split", "hessian", "elbo"):
            parts.reasons[name] = "left out: depth.costly_items is 0"
        return
    some = subject.some(count)
    chunk = {"likelihood": subject.likelihood, "chunk": depth.chunk}
    local: list[Geometry] = []

    def geometry() -> Geometry:
        if not local:
            local.append(local_geometry(subject.decode(), some.mean, **chunk))
        return local[0]

    split = parts.add(
        "split",
        lambda: loss_split(
            subject.decode(),
            some,
            subject.examples(count),
            key=subject.keys[2],
            geometry=geometry(),
            draws=depth.draws,
            **chunk,
        ),
    )
    shares = parts.add(
        "hessian",
        lambda: hessian_shares(
            likelihood_hessians(subject.decode(), some.mean, subject.examples(count), **chunk),
            geometry(),
        ),
    )
    if split is not None and shares is not None:
        hessian = shares.hessian
        parts.add("elbo", lambda: elbo_comparison(hessian, some, split, beta=subject.beta))
    else:
        parts.reasons["elbo"] = parts.reasons.get("split", parts.reasons.get("hessian", ""))


def _add_traversals(parts: Parts, subject: Subject) -> None:
    """Profiles through the median code, and steepness between the data."""
    mean = subject.posteriors.mean
    middle, spread = np.median(mean, axis=0), mean.astype(np.float64).std(0)

    def profiles() -> tuple[Profile, ...]:
        found = []
        for latent in np.flatnonzero(subject.active):
            reach = 2.5 * spread[latent]
            line = np.linspace(middle[latent] - reach, middle[latent] + reach, subject.depth.steps)
            found.append(
                profile(subject.decode(), middle, int(latent), line, chunk=subject.depth.chunk)
            )
        return tuple(found)

    parts.add("profiles", profiles)
    if subject.depth.costly_items:
        few = subject.some(subject.depth.costly_items).mean
        parts.add(
            "plateau", lambda: plateau_contrast(subject.decode(), few, chunk=subject.depth.chunk)
        )
    else:
        parts.reasons["plateau"] = "left out: depth.costly_items is 0"


def _add_data(
    parts: Parts, subject: Subject, factors: AnyArray | None, generator: Generator | None
) -> None:
    """Latents beside factors, and directions of the decoder beside those of the data."""
    if factors is None:
        parts.reasons["matching"] = "needs the factors: give factors"
    else:
        values = np.asarray(factors)
        parts.add(
            "matching",
            lambda: match_factors(subject.posteriors.mean, values, active=subject.active),
        )
    if subject.depth.fit_items:
        parts.add("directions", lambda: _directions(subject, factors, generator))
    else:
        parts.reasons["directions"] = "left out: depth.fit_items is 0"


def _directions(
    subject: Subject, factors: AnyArray | None, generator: Generator | None
) -> DirectionAgreement:
    """The agreement of tangent spaces and axes."""
    rows, codes = subject.rows(subject.depth.fit_items), subject.some(subject.depth.fit_items).mean
    if subject.encoder_alone:
        raise InputError(NO_DECODER)
    if not subject.active.any():
        raise InputError("no latent is active")
    if subject.decoder is not None:
        matrices = mean_jacobians(subject.decoder, codes, likelihood=subject.likelihood)
    elif subject.likelihood.name == "bernoulli":
        raise InputError("Jacobians of logits are not in the space of the data: give a decoder")
    else:
        matrices = np.asarray(subject.jacobians)[rows]
    matrices = matrices[:, :, subject.active]
    if generator is not None:
        directions = principal_directions(_generator_jacobians(generator, factors, rows))
        return direction_agreement(matrices, directions, source="the generator")
    if subject.x is None:
        raise InputError("needs the examples, or the data's generator: give x or generator")
    axes = int(subject.active.sum())
    directions = neighbor_directions(subject.x, subject.x[rows], axes=axes)
    return direction_agreement(matrices, directions, source="nearest neighbors")


def _generator_jacobians(
    generator: Generator, factors: AnyArray | None, rows: ndarray
) -> Float[ndarray, "item pixel factor"]:
    """The generator's Jacobians at chosen items, scaled to unit variance of the factors."""
    if isinstance(generator, np.ndarray | Array):
        return np.asarray(generator)[rows]
    if factors is None:
        raise InputError("the generator needs factors: give factors, or its Jacobians")
    values = np.asarray(factors, np.float64)
    return jacobians(generator, values[rows]) * values.std(0)
