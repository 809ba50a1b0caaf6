"""Tables on the terminal: what a run's members came to."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from untwist.objectives import ACTIVE_VARIANCE
from untwist.store import Run, read_table


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Prints a table; numbers are aligned and shortened. Into a pipe it is never cut off."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        numeric = all(isinstance(row[index], int | float | np.number) for row in rows)
        table.add_column(name, justify="right" if numeric and rows else "left")
    for row in rows:
        table.add_row(*(format_cell(cell) for cell in row))
    console.print(table, markup=False)


def format_cell(cell: object) -> str:
    """Returns a cell as text: four significant digits, lists in brackets.

    >>> format_cell(0.123456), format_cell([1.0, 2.0]), format_cell(None), format_cell(np.inf)
    ('0.1235', '[1, 2]', '', 'inf')
    """
    if cell is None:
        return ""
    if isinstance(cell, list | tuple | np.ndarray):
        return f"[{', '.join(map(format_cell, cell))}]"
    if isinstance(cell, float | np.floating):
        return "-" if np.isnan(cell) else f"{cell:.4g}"
    return str(cell)


def last_logs(history: Mapping[str, np.ndarray], members: int) -> dict[str, np.ndarray]:
    """Returns each member's last row of the history; not a number for one that has none."""
    last = {int(member): row for row, member in enumerate(history["member"])}
    rows = np.array([last.get(member, -1) for member in range(members)])
    kept = {}
    for name, column in history.items():
        values = column[rows].astype(float)
        values[rows < 0] = np.nan
        kept[name] = values
    return kept


def active_latents(run: Run, logs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns how many latents of each member have a mean posterior variance below 0.8.

    That says something of a diagonal posterior alone: under a full covariance a latent's own
    variance may be large while the latents together say much, so the count is not a number there.
    """
    count = (logs["variance_per_latent"] < ACTIVE_VARIANCE).sum(axis=1).astype(float)
    return count if run.config["spec"]["posterior"] != "full" else np.full_like(count, np.nan)


def print_members(run: Run) -> None:
    """Prints one row a member: what was varied, its status and its last log."""
    members, history = read_table(run.require(run.members)), read_table(run.require(run.history))
    count = len(members["seed"])
    logs = last_logs(history, count)
    varied = [
        name
        for name in members
        if name in ("member", "seed", "status") or len(set(members[name])) > 1
    ]
    parts = [name for name in ("loss", "reconstruction", "kl") if name in logs]
    columns = [*varied, "steps", *parts]
    table = {**members, **{name: logs[name] for name in parts}}
    if "variance_per_latent" in logs:
        columns.append("active latents")
        table["active latents"] = active_latents(run, logs)
    columns = list(dict.fromkeys(columns))
    rows = [[table[name][i] for name in columns] for i in range(count)]
    print_table(columns, rows, title=f"{run.name}: {run.state}")
