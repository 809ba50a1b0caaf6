"""Look at what was trained: list, show, compare, and query with SQL."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tyro

from untwist.cli.tables import active_latents, format_cell, last_logs, print_members, print_table
from untwist.store import Run, find_runs, open_run, query, read_table, toml
from untwist.types import InputError

ROOT = Path("runs")
Paths = tyro.conf.Positional[tuple[Path, ...]]


def list_(root: tyro.conf.Positional[Path] = ROOT) -> None:
    """List the runs below a directory: what they trained, how far they got.

    Args:
        root: The directory that holds the runs.
    """
    rows = []
    for run in find_runs(root):
        spec = run.config["spec"]
        seeds, hyper = len(spec["seeds"]), spec.get("vary", {}).values()
        members = seeds * int(np.prod([len(values) for values in hyper]))
        about = [spec["dataset"], spec["architecture"], spec["objective"], members, spec["steps"]]
        rows.append([str(run.path), run.state, *about, run.config.get("created", "")])
    columns = ["run", "state", "dataset", "architecture", "objective", "members", "steps"]
    print_table([*columns, "created"], rows, title=f"{len(rows)} runs below {root}")


def show(run: tyro.conf.Positional[Path]) -> None:
    """Show one run: its configuration and every member.

    Args:
        run: The run's directory.
    """
    opened = open_run(run)
    print(toml.dump(opened.config))
    if opened.members.exists():
        print_members(opened)
    else:
        print(f"{run} has no checkpoint yet")


def compare(runs: Paths) -> None:
    """Compare runs: mean and standard deviation over seeds of each setting's last log.

    Args:
        runs: Run directories.
    """
    if not runs:
        raise InputError("expected at least one run directory to compare, but got none")
    print_table(*summarize_runs([open_run(path) for path in runs]))


def sql(query_: tyro.conf.Positional[str], *, root: Path = ROOT) -> None:
    """Query all runs with SQL. The tables are `runs`, `members` and `history`.

    Example: untwist runs sql "SELECT run, beta, avg(kl) FROM history JOIN members USING (run,
    member) GROUP BY ALL ORDER BY ALL"

    Args:
        query_: A DuckDB SQL query.
        root: The directory that holds the runs.
    """
    print_table(*query(find_runs(root), query_))


def summarize_runs(runs: list[Run]) -> tuple[list[str], list[list[object]]]:
    """Returns the columns and rows of a comparison: one row a run and setting, seeds averaged."""
    rows = []
    for run in runs:
        members = read_table(run.require(run.members))
        logs = last_logs(read_table(run.require(run.history)), len(members["seed"]))
        settings = [name for name in run.config["spec"]["vary"] if len(set(members[name])) > 1]
        keys = [tuple(members[name][i] for name in settings) for i in range(len(members["seed"]))]
        for key in dict.fromkeys(keys):
            chosen = np.array([k == key for k in keys]) & (members["status"] != "diverged")
            label = ", ".join(f"{n}={v:g}" for n, v in zip(settings, key, strict=True))
            rows.append([run.name, label, int(chosen.sum()), *_spread(run, logs, chosen)])
    columns = ["run", "setting", "members", "reconstruction", "kl", "active latents"]
    return columns, rows


def _spread(run: Run, logs: dict[str, np.ndarray], chosen: np.ndarray) -> list[str]:
    """Mean and standard deviation of the chosen members' reconstruction, KL and active latents."""
    if not chosen.any():
        return ["all diverged", "", ""]
    cells, several = [], chosen.sum() > 1
    none = np.full(len(chosen), np.nan)
    active = active_latents(run, logs) if "variance_per_latent" in logs else none
    for values in (logs.get("reconstruction", none), logs.get("kl", none), active):
        mean, spread = values[chosen].mean(), values[chosen].std(ddof=1) if several else np.nan
        cells.append("-" if np.isnan(mean) else f"{mean:.2f} ± {format_cell(spread)}")
    return cells


COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": list_,
    "show": show,
    "compare": compare,
    "sql": sql,
}
