"""The members to score, out of what `score` was given: each with its inputs, all checked."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.catalog import Draw
from untwist.metrics.record import NotApplicable
from untwist.metrics.sample import RawCodes, RawFactors, checked_codes, sample
from untwist.metrics.sampler import Sampler, grid_rows
from untwist.metrics.summaries import checked_losses
from untwist.metrics.unsupervised import checked_covariances
from untwist.types import InputError, RandomKey


def whole_draws(
    codes: RawCodes,
    labels: tuple[RawFactors | None, FactorSpace | None],
    extras: tuple[RawCodes | None, RawCodes | None],
    sampler: Sampler | Sequence[Sampler] | None,
    *,
    key: RandomKey,
    reference: bool,
) -> list[Draw]:
    """Returns each member's inputs, or raises with a sentence that names the member.

    Args:
        codes: of one model or of a population.
        labels: the factors and their space, or two times `None`.
        extras: posterior variances and reconstruction losses, stacked as the codes are.
        sampler: of one model, or one a member.
        key: of every member's draws, the same for all.
        reference: whether to follow the reference implementations.
    """
    factors, space = labels
    if (factors is None) != (space is None):
        raise InputError("give factors together with their space, or neither")
    array = np.asarray(codes)
    stacked = array.ndim == 3
    members: list[RawCodes] = [*array] if stacked else [array]
    if not members:
        raise InputError("the population has no members: give codes of at least one")
    variances, losses = (
        _stacked(what, values, len(members), stacked)
        for what, values in zip(("variances", "losses"), extras, strict=True)
    )
    draws = []
    for position, inputs in enumerate(zip(members, variances, losses, strict=True)):
        member, variance, loss = inputs
        draw = Draw(member, key, factors, space, variance, None, loss, reference)
        with _named(position, stacked):
            _check(draw)
        draws.append(draw)
    samplers = _samplers(members, factors, space, sampler)
    return [replace(d, interventions=s) for d, s in zip(draws, samplers, strict=True)]


def half(draw: Draw, rows: Int[ndarray, " row"], key: RandomKey) -> Draw:
    """Returns a draw of some of the items, with a key of its own."""

    def pick(values: RawCodes | None) -> RawCodes | None:
        return None if values is None else np.asarray(values)[rows]

    return replace(
        draw,
        codes=np.asarray(draw.codes)[rows],
        labels=pick(draw.labels),
        posterior=pick(draw.posterior),
        item_losses=pick(draw.item_losses),
        key=key,
    )


@contextlib.contextmanager
def _named(position: int, stacked: bool) -> Iterator[None]:
    """Says which member of a population a sentence is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"member {position}: {error}" if stacked else str(error)) from None


def _check(draw: Draw) -> None:
    """Raises for what no metric could use, before any metric runs."""
    codes = checked_codes(draw.codes)
    if draw.labels is not None and draw.factor_space is not None:
        try:
            sample(codes, draw.labels, draw.factor_space)
        except NotApplicable:
            pass
    if draw.posterior is not None:
        checked_covariances(draw.posterior, codes)
    if draw.item_losses is not None:
        losses = checked_losses(draw.item_losses)
        if len(losses) != len(codes):
            raise InputError(f"losses must be one an item, {len(codes)}, but got {len(losses)}")


def _stacked(what: str, values: RawCodes | None, members: int, stacked: bool) -> list:
    """A value a member of an optional input that is stacked as the codes are."""
    if values is None:
        return [None] * members
    array = np.asarray(values)
    if not stacked:
        return [array]
    if array.ndim == 0 or len(array) != members:
        raise InputError(
            f"{what} must have one entry a member, {members}, but got shape {array.shape}"
        )
    return list(array)


def _samplers(
    members: list[RawCodes],
    factors: RawFactors | None,
    space: FactorSpace | None,
    sampler: Sampler | Sequence[Sampler] | None,
) -> list[Sampler | None]:
    """A sampler a member: the one given, or one from the items where they cover the grid."""
    if callable(sampler):
        if len(members) > 1:
            raise InputError(
                f"a population of {len(members)} needs a list of samplers, one a member"
            )
        return [sampler]
    if sampler is not None:
        if len(sampler) != len(members):
            raise InputError(
                f"give one sampler for each of {len(members)} members, but got {len(sampler)}"
            )
        return list(sampler)
    if factors is None or space is None or not space.has_grid or len(factors) < space.grid_size:
        return [None] * len(members)
    try:
        rows = grid_rows(factors, space)
    except NotApplicable:
        return [None] * len(members)
    tables = [np.asarray(member)[rows] for member in members]
    return [lambda index, table=table: np.take(table, index, axis=0) for table in tables]
