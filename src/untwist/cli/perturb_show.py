"""What `untwist perturb` shows: progress while it learns, and the tables of what it made."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from untwist.store import read_table

Rows = tuple[list[str], list[list[object]]]
LINE_SECONDS = 30.0


def choice_table(path: Path) -> Rows:
    """Returns the members that were chosen, as columns and rows."""
    table = read_table(path / "members.parquet")
    columns = ["member", "seed", "score", "chosen"]
    chosen = np.flatnonzero(table["chosen"] != "")
    order = chosen[np.argsort(-table["score"][chosen], kind="stable")]
    return columns, [[table[column][i] for column in columns] for i in order]


def change_table(path: Path) -> Rows:
    """Returns size and smoothness of the changes, as columns and rows."""
    table = read_table(path / "changes.parquet")
    return list(table), [list(row) for row in zip(*table.values(), strict=True)]


def preservation_table(path: Path) -> Rows:
    """Returns what is left of the factors, as columns and rows."""
    table = read_table(path / "preservation.parquet")
    rows = [list(row) for row in zip(*table.values(), strict=True)]
    columns = ["dataset", "factor", "original", "perturbed", "nearest original found"]
    return columns, rows


@contextmanager
def learning_bar(
    enabled: bool, first: int, rounds: int
) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Yields a function that shows a round and its logs: a bar, or a line every half minute."""
    console = Console(stderr=True)
    text = TextColumn("{task.description}")
    bar = Bar(
        text,
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds  gap {task.fields[gap]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not enabled or not console.is_terminal,
    )
    said = time.monotonic()
    with bar:
        task = bar.add_task("manipulation", total=rounds, completed=first, gap="?")

        def show(number: int, logs: Mapping[str, float]) -> None:
            nonlocal said
            bar.update(task, completed=number, gap=f"{logs['gap']:.4f}")
            if enabled and not console.is_terminal and time.monotonic() - said >= LINE_SECONDS:
                said = time.monotonic()
                console.print(f"round {number:,} of {rounds:,}, gap {logs['gap']:.4f}")

        yield show
