"""An explanation in plain words."""

from collections.abc import Iterator, Sequence

import numpy as np

from untwist.mechanism.explanation import Explanation
from untwist.mechanism.identifiability import WARN_ANGLE
from untwist.mechanism.polarized import HOLDS
from untwist.mechanism.subject import NO_DECODER


def sentences(found: Explanation, *, names: Sequence[str] | None) -> tuple[str, ...]:
    """Returns what an explanation says, one thought a sentence, the most important first.

    Args:
        found: The explanation.
        names: Names of the factors, if there are any.
    """
    labels = [] if names is None else list(names)
    said = [*_activity(found), *_pruned(found), *_freedom(found), *_orthogonality(found)]
    said += [*_factors(found, labels), *_directions(found), *_polarized(found), *_loss(found)]
    return (*said, *_precision(found), *_fits(found), *_independence(found))


def _activity(found: Explanation) -> Iterator[str]:
    count, total = int(found.active.sum()), found.latents
    if not count:
        yield (
            "No latent is active: the posterior has collapsed onto the prior, so there are no axes "
            "to explain. A smaller beta, or a decoder that needs its code, would bring them back."
        )
        return
    which = "the only latent is" if total == 1 else f"{count} of {total} latents are"
    yield f"{which.capitalize()} active ({_list(np.flatnonzero(found.active))})."
    if count == 1:
        yield "With one active latent there is nothing to rotate, so its axis is determined."
    kinds = None if found.polarization is None else found.polarization.kinds
    if kinds is not None and (kinds == "mixed").any():
        mixed = np.flatnonzero(kinds == "mixed")
        yield f"{_latents(mixed)} {_are(mixed)} mixed: used for some examples and not for others."


def _pruned(found: Explanation) -> Iterator[str]:
    if found.matching is None or found.posterior == "none":
        return
    count, factors = int(found.active.sum()), int(found.matching.varies.sum())
    if 0 < count < factors:
        yield (
            f"There are fewer active latents ({count}) than factors that vary ({factors}): the KL "
            "term has pruned too much to keep the factors apart."
        )


def _freedom(found: Explanation) -> Iterator[str]:
    if found.active.sum() < 2:
        return
    if found.reasons.get("free") == NO_DECODER:
        yield "There is no decoder to look at: what follows is of the codes alone."
        return
    if found.posterior == "none":
        yield (
            "A plain autoencoder's objective does not see its axes at all: any invertible map of "
            "the latents does as well, and `align` chooses one."
        )
    elif found.posterior == "full":
        yield (
            "A full posterior covariance turns with the latents, so the objective leaves every "
            "rotation free; `align` chooses one."
        )
    elif found.free is not None:
        for i, j in found.free.undetermined(WARN_ANGLE):
            angle = np.degrees(found.free.angles[i, j])
            how = "any angle" if angle > 44.9 else f"up to {angle:.0f} degrees"
            yield (
                f"Latents {i} and {j} carry nearly equal variance: their axes are not determined "
                f"by this objective (turning them by {how} costs less than "
                f"{found.free.tolerance:g} nats)."
            )


def _orthogonality(found: Explanation) -> Iterator[str]:
    seen = found.orthogonality
    if seen is None or found.active.sum() < 2:
        return
    distance, chance = seen.distance.mean(), seen.random_distance
    numbers = f"distance to orthogonality {distance:.2f}, {chance:.2f} for random axes"
    if distance < 0.25 * chance:
        yield f"The decoder's columns are nearly orthogonal ({numbers})."
    elif distance < 0.75 * chance:
        yield f"The decoder's columns are partly orthogonal ({numbers})."
    else:
        yield f"The decoder's columns are no more orthogonal than random axes ({numbers})."
    if seen.deficient > 0:
        yield (
            f"At {seen.deficient:.0%} of the items the decoder's columns are linearly dependent: "
            "there, some latents do the work of others and their axes mean nothing."
        )


def _factors(found: Explanation, names: Sequence[str]) -> Iterator[str]:
    if found.matching is None or not found.active.any():
        return
    scores = found.matching.information
    for factor, latent in enumerate(found.matching.by_information):
        name = names[factor]
        if not found.matching.varies[factor]:
            continue
        if latent < 0:
            yield f"No latent is left for {name}."
            continue
        share, rank = scores[latent, factor], found.matching.correlation[latent, factor]
        rival = np.delete(scores[:, factor], latent)
        also = ""
        if rival.size and rival.max() > 0.5 * share:
            other = int(np.flatnonzero(scores[:, factor] == rival.max())[0])
            also = f"; latent {other} knows nearly as much" if other != latent else ""
        verb = "encodes" if share > 0.5 else "says most of what is known of"
        tells = f"tells {share:.0%} of its entropy, rank correlation {rank:.2f}"
        yield f"Latent {latent} {verb} {name} ({tells}{also})."


def _directions(found: Explanation) -> Iterator[str]:
    seen = found.directions
    if seen is None or found.active.sum() < 2:
        return
    numbers = f"mean |cosine| {seen.columns:.2f}, {seen.chance:.2f} for random axes"
    if seen.columns - seen.chance > 0.5 * (1 - seen.chance):
        yield f"Latents move along local principal directions of the data ({numbers})."
    else:
        yield f"Latents do not move along local principal directions of the data ({numbers})."


def _polarized(found: Explanation) -> Iterator[str]:
    seen = found.polarization
    if seen is None or not found.active.any():
        return
    error = float(seen.relative_error)
    if error < HOLDS:
        yield f"The polarized regime holds: its KL is off by {error:.1%}."
    else:
        yield (
            f"The polarized regime does not hold: its KL is off by {error:.1%}, so what follows "
            "from it is approximate."
        )


def _loss(found: Explanation) -> Iterator[str]:
    seen = found.split
    if seen is None or seen.stochastic <= 0 or not found.active.any():
        return
    off = seen.linearized / seen.stochastic - 1
    yield (
        f"Noise in the codes costs {seen.stochastic:.3g} nats an item beside {seen.total:.4g} in "
        f"all; the linearized decoder predicts {seen.linearized:.3g} ({off:+.0%})."
    )
    if abs(seen.bias) > 0.1 * seen.stochastic and abs(seen.bias) > 3 * seen.bias_error:
        yield (
            f"Noisy decoding is biased by {seen.bias:.3g} nats, which the split into deterministic "
            "and stochastic parts takes as zero."
        )


def _precision(found: Explanation) -> Iterator[str]:
    seen = found.covariance
    if seen is None or not found.active.any():
        return
    if seen.expected is None:
        yield (
            "The objective holds no fixed weight of the KL: the posterior's variances are those of "
            f"beta {seen.beta:.3g}, at which what follows is taken."
        )
    factor = np.exp(seen.residual)
    yield (
        f"Posterior variances are within a factor of {factor:.2f} of what the decoder's slopes ask "
        "for (median)."
    )
    if len(seen.failing):
        sides = ", ".join(f"{seen.per_latent[j]:.2g} times for latent {j}" for j in seen.failing)
        yield f"They are not so for every latent: {sides}."


def _fits(found: Explanation) -> Iterator[str]:
    seen = found.fits
    if seen is None or seen.zero <= 0 or not found.active.any():
        return
    linear, bent = float(seen.linear / seen.zero), float(seen.nonlinear / seen.zero)
    yield (
        f"Within a posterior a linear map misses {_share(linear)} of what the decoder does, one "
        f"with a nonlinearity {_share(bent)} (fresh noise; {seen.converged:.0%} of the fits "
        "converged)."
    )


def _independence(found: Explanation) -> Iterator[str]:
    seen = found.total_correlation
    if seen is None or found.active.sum() < 2:
        return
    if np.isfinite(seen.gaussian):
        yield (
            f"Codes are {'nearly un' if seen.gaussian < 0.05 else ''}correlated: their total "
            f"correlation is {seen.gaussian:.3g} nats by their covariance."
        )
    else:
        yield "Some latents are copies of others: their total correlation is infinite."


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.001 else "less than 0.1%"


def _list(numbers: Sequence[int] | np.ndarray) -> str:
    words = [str(int(number)) for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _latents(numbers: np.ndarray) -> str:
    return f"Latent {_list(numbers)}" if len(numbers) == 1 else f"Latents {_list(numbers)}"


def _are(numbers: np.ndarray) -> str:
    return "is" if len(numbers) == 1 else "are"
