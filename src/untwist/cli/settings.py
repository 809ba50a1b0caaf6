"""The members of a run by setting: the same hyperparameters, several seeds."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from untwist.cli.tables import format_cell
from untwist.store import Run, read_table

Settings = list[tuple[str, Bool[np.ndarray, " member"]]]


def settings_of(run: Run) -> Settings:
    """Returns each setting's text and which members have it; those that diverged have none.

    The text names the hyperparameters that differ inside the run, and is empty if none does.
    """
    members = read_table(run.require(run.members))
    names = [name for name in run.config["spec"]["vary"] if len(set(members[name])) > 1]
    keys = list(zip(*(members[name] for name in names), strict=True)) or [()] * len(members["seed"])
    running = members["status"] != "diverged"
    settings = []
    for key in dict.fromkeys(keys):
        text = ", ".join(f"{name}={value:g}" for name, value in zip(names, key, strict=True))
        settings.append((text, np.array([other == key for other in keys]) & running))
    return settings


def member_scores(run: Run) -> dict[str, Float[np.ndarray, " member"]]:
    """Returns the run's stored scores by metric, one value a member; not a number where none is."""
    count = len(read_table(run.require(run.members))["seed"])
    table = read_table(run.require(run.scores)) if run.scores.exists() else {"metric": []}
    scores = {metric: np.full(count, np.nan) for metric in dict.fromkeys(table["metric"])}
    for row, metric in enumerate(table["metric"]):
        scores[metric][table["member"][row]] = table["value"][row]
    return scores


def mean_and_spread(values: Float[np.ndarray, " member"]) -> str:
    """Returns the mean ± the standard deviation over members that have a value; - if none has.

    >>> mean_and_spread(np.array([1.0, 3.0, np.nan])), mean_and_spread(np.array([np.nan]))
    ('2 ± 1.4', '-')
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return "-"
    mean = format_cell(known.mean())
    return f"{mean} ± {known.std(ddof=1):.2g}" if len(known) > 1 else mean


def compare_settings(
    run: Run, columns: Mapping[str, Float[np.ndarray, " member"]]
) -> list[list[object]]:
    """Returns one row a setting: the run, the setting, its members, and each column's mean."""
    rows = []
    for text, chosen in settings_of(run):
        cells = [mean_and_spread(values[chosen]) for values in columns.values()]
        rows.append([run.name, text, int(chosen.sum()), *cells])
    return rows
