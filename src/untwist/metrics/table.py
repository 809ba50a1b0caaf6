"""The table that scoring gives: one row a member and metric."""

import json
import math
from dataclasses import asdict, dataclass, fields

import numpy as np

from untwist.metrics.catalog import METRICS, Direction
from untwist.metrics.record import Score
from untwist.types import nearest

# The value, or the reason why there is none.
Outcome = Score | str


@dataclass(frozen=True)
class Row:
    """One metric of one member.

    Attributes:
        member: position in the population; 0 for a single model.
        metric: its name.
        value: the score, or nothing where the metric does not apply. It may be infinite.
        standard_error: of the value over draws of items, or nothing where it was not estimated.
        repeats: how many draws the standard error rests on.
        direction: which way is better.
        estimator: how it was estimated.
        settings: its constants, as JSON.
        reason: why there is no value, or no standard error; empty otherwise.
    """

    member: int
    metric: str
    value: float | None
    standard_error: float | None
    repeats: int
    direction: Direction
    estimator: str
    settings: str
    reason: str


@dataclass(frozen=True)
class ScoreTable:
    """Rows in the order of members, then of metrics."""

    rows: tuple[Row, ...]

    def columns(self) -> dict[str, list]:
        """Returns the table by column, as `pyarrow.table` takes it."""
        return {field.name: [getattr(r, field.name) for r in self.rows] for field in fields(Row)}

    def value(self, metric: str, member: int = 0) -> float | None:
        """Returns one value."""
        for row in self.rows:
            if (row.metric, row.member) == (metric, member):
                return row.value
        raise nearest("metric", metric, {row.metric for row in self.rows})

    def records(self) -> list[dict]:
        """Returns the table by row."""
        return [asdict(row) for row in self.rows]


def _spread(values: list[float], share: float) -> float | None:
    if len(values) < 2 or not all(math.isfinite(value) for value in values):
        return None
    return float(np.std(values, ddof=1) * share)


def outcome_row(
    member: int,
    name: str,
    first: Outcome,
    again: list[Outcome],
    share: float,
) -> Row:
    """Returns the row of an outcome; its error is the deviation over `again`, times `share`."""
    direction: Direction = METRICS[name].direction if name in METRICS else "higher"
    if isinstance(first, str):
        return Row(member, name, None, None, 0, direction, "", "{}", first)
    values = [other.value for other in again if isinstance(other, Score)]
    error = _spread(values, share)
    reasons = [other for other in again if isinstance(other, str)]
    reason = ""
    if error is None and again:
        reason = f"no standard error: {reasons[0] if reasons else 'a draw was infinite'}"
    settings = json.dumps(dict(first.settings), sort_keys=True)
    count = len(values) if error is not None else 0
    return Row(
        member, name, first.value, error, count, direction, first.estimator, settings, reason
    )
