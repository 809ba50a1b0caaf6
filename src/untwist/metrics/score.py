"""All metrics of a model or a population in one table."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Int
from joblib import cpu_count
from numpy import ndarray
from threadpoolctl import threadpool_limits

from untwist.factors import FactorSpace
from untwist.metrics.catalog import METRICS, POPULATION_METRICS, Draw
from untwist.metrics.draws import generator
from untwist.metrics.members import half, whole_draws
from untwist.metrics.record import NotApplicable, Score
from untwist.metrics.sample import RawCodes, RawFactors
from untwist.metrics.sampler import Sampler
from untwist.metrics.table import Outcome, ScoreTable, outcome_row
from untwist.metrics.udr import udr
from untwist.types import InputError, RandomKey, nearest


def metric_names() -> tuple[str, ...]:
    """Returns the names of all metrics, in the order of a table."""
    return (*METRICS, *POPULATION_METRICS)


def _chosen(metrics: str | Iterable[str]) -> tuple[str, ...]:
    """The names asked for, each once; `all` and `fast` stand for theirs."""
    slow = {name for name, metric in METRICS.items() if metric.slow}
    sets = {"all": metric_names(), "fast": tuple(n for n in metric_names() if n not in slow)}
    names: dict[str, None] = {}
    for name in (metrics,) if isinstance(metrics, str) else metrics:
        if name not in sets and name not in metric_names():
            raise nearest("metric", name, (*metric_names(), *sets))
        names |= dict.fromkeys(sets.get(name, (name,)))
    if not names:
        raise InputError("name at least one metric, or 'all'")
    return tuple(names)


def _attempt(run: Callable[[], Score], again: bool) -> Outcome:
    """The score or the reason why there is none; a repeat on too few items has one too."""
    try:
        return run()
    except NotApplicable as reason:
        return str(reason)
    except InputError as reason:
        if not again:
            raise
        return str(reason)


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
        for number, rows in enumerate((slice(None), *halves)):
            try:
                outcomes.append(list(udr(array[:, rows], relation=relation, kl=kl)))
            except InputError as reason:
                if not (number or isinstance(reason, NotApplicable)):
                    raise
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
        metrics: `all`; `fast`, which leaves out the reference's tree-based DCI; or names, these
            two among them.
        key: of all draws.
        repeats: draws for the standard errors; 0 for none. The slow metrics of `all` are not
            repeated: name them to have them so.
        variances: posterior variances, of the shape of the codes; or, for a full posterior, its
            covariances, with one axis more.
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
    if repeats < 0 or repeats == 1 or repeats != int(repeats):
        raise InputError(f"repeats must be 0, or 2 and more for a deviation, but got {repeats}")
    keys = jax.random.split(key, int(repeats) + 1)
    members = whole_draws(
        codes, (factors, space), (variances, losses), sampler, key=keys[0], reference=reference
    )
    items = len(np.asarray(members[0].codes))
    rng = generator(keys[0])
    halves = [np.sort(rng.permutation(items)[: items // 2]) for _ in keys[1:]]
    draws = [
        (whole, [half(whole, rows, k) for rows, k in zip(halves, keys[1:], strict=True)])
        for whole in members
    ]
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
    share = math.sqrt((items // 2) / (items - items // 2))
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cpu_count()) as pool:
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
        again = draw is not whole
        found[name] = _attempt(lambda metric=metric, used=used: metric.run(used), again)
    return found
