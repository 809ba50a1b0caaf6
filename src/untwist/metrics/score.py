"""All metrics of a model or a population in one table."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Int
from numpy import ndarray
from threadpoolctl import threadpool_limits

from untwist.factors import FactorSpace
from untwist.metrics.catalog import METRICS, POPULATION_METRICS, Draw
from untwist.metrics.draws import generator
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors, checked_codes, sample
from untwist.metrics.sampler import Sampler, grid_rows
from untwist.metrics.table import Outcome, ScoreTable, outcome_row
from untwist.metrics.udr import udr
from untwist.types import InputError, RandomKey, nearest


def metric_names() -> tuple[str, ...]:
    """Returns the names of all metrics, in the order of a table."""
    return (*METRICS, *POPULATION_METRICS)


def _chosen(metrics: str | Iterable[str]) -> tuple[str, ...]:
    if metrics == "all":
        return metric_names()
    if metrics == "fast":
        slow = {name for name, metric in METRICS.items() if metric.slow}
        return tuple(name for name in metric_names() if name not in slow)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        if name not in metric_names():
            raise nearest("metric", name, (*metric_names(), "all", "fast"))
    if not names:
        raise InputError("name at least one metric, or 'all'")
    return names


def _attempt(run: Callable[[], Score]) -> Outcome:
    try:
        return run()
    except NotApplicable as reason:
        return str(reason)


def _members(codes: RawCodes) -> list[RawCodes]:
    array = np.asarray(codes)
    stacked: list[RawCodes] = [*array] if array.ndim == 3 else [array]
    if not stacked:
        raise InputError("the population has no members: give codes of at least one")
    for position, member in enumerate(stacked):
        try:
            checked_codes(member)
        except InputError as error:
            if array.ndim == 3:
                raise InputError(f"member {position}: {error}") from None
            raise
    return stacked


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


def _checked_labels(
    members: list[RawCodes], factors: RawFactors | None, space: FactorSpace | None
) -> None:
    if (factors is None) != (space is None):
        raise InputError("give factors together with their space, or neither")
    if factors is None or space is None:
        return
    for member in members:
        try:
            sample(member, factors, space)
        except NotApplicable:
            continue


def _stacked(what: str, values: RawCodes | None, members: int, stacked: bool) -> list:
    """A value a member of an optional input that is stacked as the codes are."""
    if values is None:
        return [None] * members
    array = np.asarray(values)
    if not stacked:
        return [array]
    if len(array) != members:
        raise InputError(f"{what} must have one entry a member, {members}, but got {len(array)}")
    return list(array)


def _half(draw: Draw, rows: Int[ndarray, " row"], key: RandomKey) -> Draw:
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


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Names that share work, together; the slow first, so that they do not finish last."""
    found: dict[str, list[str]] = {}
    for name in names:
        if name in METRICS:
            found.setdefault(METRICS[name].group, []).append(name)
    return sorted(found.values(), key=lambda group: not METRICS[group[0]].slow)


def _population(
    names: Sequence[str], codes: RawCodes, draws: Sequence[tuple[Draw, Sequence[Draw]]], halves
) -> dict[str, list[tuple[Outcome, list[Outcome]]]]:
    """The outcomes of the scores that compare members, by name and member."""
    kl = None
    if all(whole.posterior is not None for whole, _ in draws):
        kl = np.array([METRICS["kl_to_prior"].run(whole).per_latent for whole, _ in draws])
    array = np.asarray(codes) if np.ndim(codes) == 3 else np.asarray(codes)[None]
    results = {}
    for name, relation in POPULATION_METRICS.items():
        if name not in names:
            continue
        outcomes: list[list[Outcome]] = []
        for rows in (slice(None), *halves):
            try:
                outcomes.append(list(udr(array[:, rows], relation=relation, kl=kl)))
            except NotApplicable as reason:
                outcomes.append([str(reason)] * len(array))
        results[name] = [(found[0], list(found[1:])) for found in zip(*outcomes, strict=True)]
    return results


def score(
    codes: RawCodes,
    factors: RawFactors | None,
    space: FactorSpace | None,
    metrics: str | Iterable[str] = "all",
    *,
    key: RandomKey,
    repeats: int = 4,
    variances: RawCodes | None = None,
    sampler: Sampler | Sequence[Sampler] | None = None,
    losses: RawCodes | None = None,
    reference: bool = False,
) -> ScoreTable:
    """Returns a table of metrics, one row a member and metric.

    A metric that does not apply has a row with the reason. Standard errors come from `repeats`
    random halves of the items, drawn without replacement so that no item repeats (the deviation
    over halves estimates the standard error of the whole), and for interventional metrics from
    fresh draws. Every member gets the same draws, so its row does not depend on its neighbors.

    Args:
        codes: [item, latent], or [member, item, latent] for a population; posterior means, where
            there is a posterior.
        factors: one row an item, the same items for every member, or `None` without labels.
        space: names, sizes and kinds of the factors, or `None` without labels.
        metrics: `all`; `fast`, which leaves out the reference's tree-based DCI; or names.
        key: of all draws.
        repeats: draws for the standard errors; 0 for none. The slow metrics of `all` are not
            repeated: name them to have them so.
        variances: posterior variances, of the shape of the codes.
        sampler: from grid indices to codes, for a population one a member. Not needed where the
            items cover the grid.
        losses: reconstruction losses, [item] or [member, item].
        reference: the exact behavior of the field's reference implementations where it is
            defective or depends on scale, for comparison with published numbers.

    >>> space = FactorSpace(("a", "b"), (2, 2), ("ordinal", "ordinal"))
    >>> factors = np.tile(space.factors(np.arange(4)), (50, 1))
    >>> table = score(factors * 1.0, factors, space, ["mig", "udr_lasso"], key=jax.random.key(0))
    >>> [(row.metric, row.value, row.reason) for row in table.rows]
    [('mig', 1.0, ''),
     ('udr_lasso', None, 'UDR compares the members of a population, but there is one')]
    """
    names = _chosen(metrics)
    if repeats < 0 or repeats == 1:
        raise InputError(f"repeats must be 0, or 2 and more for a deviation, but got {repeats}")
    members = _members(codes)
    _checked_labels(members, factors, space)
    stacked = np.ndim(codes) == 3
    keys = jax.random.split(key, repeats + 1)
    items = len(np.asarray(members[0]))
    rng = generator(keys[0])
    halves = [np.sort(rng.permutation(items)[: items // 2]) for _ in range(repeats)]
    draws = []
    for code, variance, loss, member_sampler in zip(
        members,
        _stacked("variances", variances, len(members), stacked),
        _stacked("losses", losses, len(members), stacked),
        _samplers(members, factors, space, sampler),
        strict=True,
    ):
        whole = Draw(code, keys[0], factors, space, variance, member_sampler, loss, reference)
        again = [_half(whole, rows, k) for rows, k in zip(halves, keys[1:], strict=True)]
        draws.append((whole, again))
    once = {name for name in names if metrics == "all" and name in METRICS and METRICS[name].slow}
    return _table(names, once, draws, codes, halves)


def _table(
    names: Sequence[str],
    once: set[str],
    draws: Sequence[tuple[Draw, Sequence[Draw]]],
    codes: RawCodes,
    halves: Sequence[Int[ndarray, " row"]],
) -> ScoreTable:
    """Runs the work over threads, each on one core, and puts the rows in order."""
    items = len(np.asarray(draws[0][0].codes))
    half = items // 2
    share = math.sqrt(half / (items - half))
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        work = {}
        for member, (whole, again) in enumerate(draws):
            for group in _groups(names):
                repeated = () if set(group) & once else again
                for number, draw in enumerate((whole, *repeated)):
                    work[member, group[0], number] = pool.submit(_group, group, draw, whole)
        shared = _population(names, codes, draws, halves)
        rows = []
        for member, (_, again) in enumerate(draws):
            found: dict[str, tuple[Outcome, list[Outcome]]] = {}
            for group in _groups(names):
                count = 0 if set(group) & once else len(again)
                done = [work[member, group[0], i].result() for i in range(count + 1)]
                for name in group:
                    found[name] = (done[0][name], [other[name] for other in done[1:]])
            found |= {name: outcomes[member] for name, outcomes in shared.items()}
            for name in names:
                first, others = found[name]
                fresh = name in METRICS and METRICS[name].redrawn
                rows.append(outcome_row(member, name, first, others, 1.0 if fresh else share))
    return ScoreTable(tuple(rows))


def _group(group: Sequence[str], draw: Draw, whole: Draw) -> dict[str, Outcome]:
    found = {}
    for name in group:
        metric = METRICS[name]
        used = replace(whole, key=draw.key) if metric.redrawn else draw
        found[name] = _attempt(lambda metric=metric, used=used: metric.run(used))
    return found
