"""All that `explain` asks of decoders: for every member of a population in one program each."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, chunk_of
from untwist.mechanism.directions import mean_jacobians
from untwist.mechanism.geometry import Geometry, local_geometry
from untwist.mechanism.hessian import elbo_comparison, hessian_shares, likelihood_hessians
from untwist.mechanism.local_fit import DRAWS, local_fits
from untwist.mechanism.loss_split import loss_split
from untwist.mechanism.plateaus import Profile, plateau_contrast, profile
from untwist.mechanism.subject import NO_DECODER, Parts, Subject
from untwist.types import InputError


def measure(subject: Subject) -> Parts:
    """Returns what the decoder says, of one model or of each member of a population.

    Besides parts of an explanation these are `geometry`, `slopes` (Jacobians in the data's space)
    and a profile of every latent that is active in any member.
    """
    parts = Parts()
    if not subject.encoder_alone:
        parts.made["geometry"] = _geometry(subject)
    _add_curvature(parts, subject)
    parts.add("profiles", lambda: _profiles(subject))
    if subject.depth.costly_items:
        few, chunk = subject.some(subject.depth.costly_items).mean, subject.depth.chunk
        parts.add("plateau", lambda: plateau_contrast(subject.decode(), few, chunk=chunk))
    else:
        parts.reasons["plateau"] = "left out: depth.costly_items is 0"
    if subject.depth.fit_items:
        parts.add("slopes", lambda: _slopes(subject))
    else:
        parts.reasons["slopes"] = "left out: depth.fit_items is 0"
    return parts


def members_at_once(subject: Subject) -> int:
    """Returns how many members to take at a time, so that memory stays bounded."""
    codes = subject.posteriors.mean
    if not isinstance(subject.decoder, AbstractDecoder):
        return len(codes)
    return chunk_of(subject.decoder.pixels(codes) * DRAWS * (codes.shape[-1] + 2) // 8)


def _geometry(subject: Subject) -> Geometry:
    """Gram matrices at the means, of the decoder or of Jacobians that were given."""
    rows = subject.rows(subject.depth.items)
    codes, likelihood = subject.posteriors.at(rows).mean, subject.likelihood
    if subject.decoder is not None:
        chunk = subject.depth.chunk
        return local_geometry(subject.decoder, codes, likelihood=likelihood, chunk=chunk)
    matrices, axis = np.asarray(subject.jacobians), subject.posteriors.mean.ndim - 2
    count = subject.posteriors.mean.shape[-2]
    if matrices.shape[axis : axis + 1] != (count,):
        raise InputError(
            f"there are Jacobians of shape {matrices.shape} for {count} codes: give one each"
        )
    outputs = None if subject.outputs is None else np.take(subject.outputs, rows, axis)
    given = np.take(matrices, rows, axis)
    return local_geometry(given, codes, likelihood=likelihood, outputs=outputs)


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
        beta = 1.0 if subject.beta is None else subject.beta
        hessian = shares.hessian
        parts.add("elbo", lambda: elbo_comparison(hessian, some, split, beta=beta))
    else:
        parts.reasons["elbo"] = parts.reasons.get("split", parts.reasons.get("hessian", ""))


def _profiles(subject: Subject) -> tuple[Profile, ...]:
    """Along each latent that is active in any member, through the median code."""
    mean, found = subject.posteriors.mean, []
    middle, spread = np.median(mean, axis=-2), mean.astype(np.float64).std(-2)
    decoder, chunk = subject.decode(), subject.depth.chunk
    for latent in np.flatnonzero(subject.active.reshape(-1, mean.shape[-1]).any(0)):
        reach = 2.5 * spread[..., latent]
        ends = middle[..., latent] - reach, middle[..., latent] + reach
        line = np.linspace(*ends, subject.depth.steps, axis=-1)
        found.append(profile(decoder, middle, int(latent), line, chunk=chunk))
    return tuple(found)


def _slopes(subject: Subject) -> Float[ndarray, "*member item pixel latent"]:
    """Jacobians of the mean output at the items of the fits, in the data's space."""
    if subject.encoder_alone:
        raise InputError(NO_DECODER)
    rows = subject.rows(subject.depth.fit_items)
    codes = subject.posteriors.at(rows).mean
    if subject.decoder is not None:
        return mean_jacobians(subject.decoder, codes, likelihood=subject.likelihood)
    if subject.likelihood.name == "bernoulli":
        raise InputError("Jacobians of logits are not in the space of the data: give a decoder")
    return np.take(np.asarray(subject.jacobians), rows, subject.posteriors.mean.ndim - 2)
