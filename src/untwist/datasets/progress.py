"""A progress bar for what takes long: on a terminal only, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn


@contextmanager
def progress_bar(title: str, total: int, *, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of bytes that were just dealt with."""
    console = Console(stderr=True)
    columns = ("[progress.description]{task.description}", BarColumn(), DownloadColumn())
    hidden = not console.is_terminal
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden)
    with bar:
        task = bar.add_task(title, total=total or None, completed=done)
        yield lambda count: bar.advance(task, count)
