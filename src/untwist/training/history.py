"""The history of a training: the logged parts of the loss, for every member and log."""

from dataclasses import dataclass, field

import numpy as np

from untwist.training.fit import Snapshot


@dataclass
class History:
    """Logs in the order they came; each entry of `parts` has one array [member, ...] a log."""

    steps: list[int] = field(default_factory=list)
    taken: list[np.ndarray] = field(default_factory=list)
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def last_step(self) -> int:
        """How many steps the last log closed; 0 before the first."""
        return self.steps[-1] if self.steps else 0

    def add(self, snapshot: Snapshot) -> None:
        """Adds one log."""
        self.steps.append(snapshot.step)
        self.taken.append(snapshot.taken)
        for name, part in snapshot.parts.items():
            self.parts.setdefault(name, []).append(part)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns everything as arrays [log, member, ...], to be stored."""
        parts = {f"parts.{name}": np.stack(part) for name, part in self.parts.items()}
        return {"steps": np.array(self.steps), "taken": np.stack(self.taken), **parts}

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> "History":
        """Returns the history that `arrays` stored."""
        parts = {
            name.removeprefix("parts."): list(array)
            for name, array in arrays.items()
            if name.startswith("parts.")
        }
        return cls([int(step) for step in arrays["steps"]], list(arrays["taken"]), parts)

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the table: one row a member and log in which the member took a step."""
        taken = np.stack(self.taken)
        logs, members = np.nonzero(taken)
        columns = {"member": members, "step": np.array(self.steps)[logs]}
        return columns | {name: np.stack(part)[logs, members] for name, part in self.parts.items()}
