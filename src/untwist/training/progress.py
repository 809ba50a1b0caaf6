"""The progress of a training: a bar on a terminal, a line now and then in a log file."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from untwist.training.fit import Snapshot

LINE_SECONDS = 30.0


class Progress:
    """Shows members, steps, model-steps a second and the time left, on standard error."""

    def __init__(self, enabled: bool, members: int, steps: int):
        self._console = Console(stderr=True)
        self._enabled, self._members, self._steps = enabled, members, steps
        self._line_at = time.monotonic() + LINE_SECONDS
        self._clock: tuple[int, float] | None = None
        self._said: set[str] = set()
        self._bar = Bar(
            TextColumn(f"{members} member{'s' if members > 1 else ''}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps  {task.fields[speed]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not enabled or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=steps, speed="compiling")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Moves on to this snapshot."""
        if not self._enabled:
            return
        self._say_once(snapshot)
        now = time.monotonic()
        # The first log carries the compilation, so the clock starts after it.
        self._clock = self._clock or (snapshot.step, now)
        steps, seconds = snapshot.step - self._clock[0], now - self._clock[1]
        speed = f"{self._members * steps / seconds:,.0f} model-steps/s" if steps else "measuring"
        self._bar.update(self._task, completed=snapshot.step, speed=speed)
        if not self._console.is_terminal and now >= self._line_at:
            self._line_at = now + LINE_SECONDS
            self._console.print(f"step {snapshot.step:,} of {self._steps:,}, {speed}")

    def _say_once(self, snapshot: Snapshot) -> None:
        """Says what a user should know about how this training runs, and about its members."""
        if snapshot.splits > 1:
            self._say(f"the population is split into {snapshot.splits} parts to fit the device")
        if snapshot.shards > 1:
            self._say(f"the data stream through the device in {snapshot.shards} shards")
        for member in snapshot.members.failed_at.nonzero()[0].tolist():
            if (step := int(snapshot.members.failed_at[member])) >= 0:
                self._say(f"member {member} diverged at step {step} and is frozen")

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._console.print(sentence)
