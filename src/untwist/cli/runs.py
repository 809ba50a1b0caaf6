"""Look at what was trained: list, show, compare, and query with SQL."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tyro

from untwist.cli.settings import compare_settings, member_scores
from untwist.cli.tables import active_latents, last_logs, print_members, print_table
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


def compare(runs: Paths, *, scores: tuple[str, ...] = ()) -> None:
    """Compare runs: mean and standard deviation over seeds of each setting's last log.

    Example: untwist runs compare runs/* --scores mig sap

    Args:
        runs: Run directories.
        scores: Metrics that `untwist score` has stored, to show beside.
    """
    if not runs:
        raise InputError("expected at least one run directory to compare, but got none")
    print_table(*summarize_runs([open_run(path) for path in runs], scores))


def sql(query_: tyro.conf.Positional[str], *, root: Path = ROOT) -> None:
    """Query all runs with SQL.

    The tables are `runs`, `members`, `history`, `scores`, `explanation` and `sentences`.

    Example: untwist runs sql "SELECT run, beta, avg(kl) FROM history JOIN members USING (run,
    member) GROUP BY ALL ORDER BY ALL"

    Args:
        query_: A DuckDB SQL query.
        root: The directory that holds the runs.
    """
    print_table(*query(find_runs(root), query_))


def summarize_runs(
    runs: list[Run], scores: Sequence[str] = ()
) -> tuple[list[str], list[list[object]]]:
    """Returns the columns and rows of a comparison: one row a run and setting, seeds averaged."""
    names, rows = ["reconstruction", "kl", "active latents", *scores], []
    for run in runs:
        found = _last_log(run) | member_scores(run)
        for metric in scores:
            if metric not in found:
                raise InputError(
                    f"{run.path} has no score {metric!r}: store it with "
                    f"`untwist score {run.path} --metrics {metric}`"
                )
        rows += compare_settings(run, {name: found[name] for name in names})
    return ["run", "setting", "members", *names], rows


def _last_log(run: Run) -> dict[str, np.ndarray]:
    """Each member's last reconstruction, KL and active latents; not a number where none is."""
    history = read_table(run.require(run.history))
    logs = last_logs(history, len(read_table(run.require(run.members))["seed"]))
    none = np.full(len(logs["step"]), np.nan)
    active = active_latents(run, logs) if "variance_per_latent" in logs else none
    logged = {name: logs.get(name, none) for name in ("reconstruction", "kl")}
    return logged | {"active latents": active}


COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": list_,
    "show": show,
    "compare": compare,
    "sql": sql,
}
