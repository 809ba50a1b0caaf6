"""An explanation out of what was measured: what needs no decoder any more, for one model."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.directions import DirectionAgreement, direction_agreement
from untwist.mechanism.explanation import Explanation, Orthogonality
from untwist.mechanism.figures import figures
from untwist.mechanism.geometry import Geometry
from untwist.mechanism.identifiability import free_angles
from untwist.mechanism.independence import factorization, posterior_overlap, total_correlation
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
from untwist.mechanism.polarized import polarization
from untwist.mechanism.precision import covariance_relation, noise_rule
from untwist.mechanism.sentences import sentences
from untwist.mechanism.subject import NO_DECODER, Parts, Subject, among
from untwist.types import AnyArray, InputError


def assemble(
    subject: Subject, measured: Parts, factors: AnyArray | None, names: Sequence[str] | None
) -> Explanation:
    """Returns the explanation of one model, out of what was measured of it."""
    geometry, posteriors, parts = measured.made.pop("geometry", None), subject.posteriors, measured
    slopes = parts.made.pop("slopes", None)
    beta = _add_posterior(parts, subject, geometry)
    _add_geometry(parts, subject, geometry, beta)
    if "profiles" in parts.made:
        lines = parts.made["profiles"]
        parts.made["profiles"] = tuple(one for one in lines if subject.active[one.latent])
    if factors is None:
        parts.reasons["matching"] = "needs the factors: give factors"
    else:
        codes, values = posteriors.mean, np.asarray(factors)
        parts.add("matching", lambda: match_factors(codes, values, active=subject.active))
    if slopes is None:
        parts.reasons["directions"] = parts.reasons.pop("slopes")
    else:
        parts.add("directions", lambda: _directions(subject, slopes))
    kind = "none" if posteriors.sigma is None else "diagonal" if posteriors.diagonal else "full"
    items = 0 if geometry is None else len(geometry.gram)
    latents = posteriors.mean.shape[1]
    found = Explanation(latents, items, kind, subject.active, reasons=parts.reasons, **parts.made)
    labels = names if names is not None or factors is None else _numbered(np.shape(factors)[1])
    said = sentences(found, names=labels)
    return replace(found, sentences=said, figures=figures(found, subject, geometry))


def _numbered(count: int) -> list[str]:
    return [f"factor {index}" for index in range(count)]


def _add_geometry(
    parts: Parts, subject: Subject, geometry: Geometry | None, beta: float | None
) -> None:
    """Orthogonality, factorization and free angles, all from Gram matrices."""
    if geometry is None:
        for name in ("orthogonality", "factorization", "free"):
            parts.reasons[name] = NO_DECODER
        return
    used, active = geometry.among(subject.active), subject.active
    codes = subject.some(subject.depth.items).mean[:, active]
    parts.add("orthogonality", lambda: _orthogonality(geometry, used))
    parts.add("factorization", lambda: factorization(_some(used.gram), codes))
    if not subject.posteriors.diagonal:
        parts.reasons["free"] = "the objective sees no axes without a diagonal posterior"
    elif beta is None:
        parts.reasons["free"] = parts.reasons["covariance"]
    else:
        spread = np.sqrt(np.diagonal(subject.posteriors.aggregate())[active])
        scale = spread[:, None] * spread
        parts.add("free", lambda: free_angles(_some(used.information) * scale, floor=beta))


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


def _add_posterior(parts: Parts, subject: Subject, geometry: Geometry | None) -> float | None:
    """What the posteriors say, by themselves and beside the decoder's slopes; returns beta."""
    posteriors, active = subject.posteriors, subject.active
    some, beta = subject.some(subject.depth.items), subject.beta
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
        known = None if beta is None else float(beta)
        found = parts.add("covariance", lambda: covariance_relation(geometry, some, beta=known))
        beta = found.beta if beta is None and found is not None else beta
    parts.add(
        "total_correlation",
        lambda: total_correlation(among(posteriors, active), key=subject.keys[0]),
    )
    parts.add("overlap", lambda: posterior_overlap(posteriors, subject.x, key=subject.keys[1]))
    return None if beta is None else float(beta)


def _directions(
    subject: Subject, slopes: Float[ndarray, "item pixel latent"]
) -> DirectionAgreement:
    """The agreement of tangent spaces and axes."""
    if not subject.active.any():
        raise InputError("no latent is active")
    directions, source = subject.data(int(subject.active.sum()))
    return direction_agreement(slopes[:, :, subject.active], directions, source=source)
