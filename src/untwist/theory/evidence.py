"""What a check finds: two sides, their gap, a tolerance and so a verdict."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Evidence:
    """Two sides of a claim at the entry where they differ most, relative to the right side.

    The gap is relative where the right side is larger than one, else absolute.
    """

    left: float
    right: float
    gap: float
    tolerance: float
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the gap is within the tolerance; never when it is not a number."""
        return self.gap <= self.tolerance


def _worst(left: Any, right: Any, *, one_sided: bool) -> tuple[float, float, float]:
    a, b = np.broadcast_arrays(np.asarray(left, dtype=float), np.asarray(right, dtype=float))
    gaps = (a - b if one_sided else np.abs(a - b)) / np.maximum(1, np.abs(b))
    at = np.unravel_index(np.argmax(gaps), gaps.shape)
    return float(a[at]), float(b[at]), float(np.maximum(gaps[at], 0))


def equal(left: Any, right: Any, tolerance: float = 1e-10, note: str = "") -> Evidence:
    """Returns evidence that two arrays agree.

    >>> equal([1.0, 2.0], [1.0, 2.5]).gap
    0.2
    """
    return Evidence(*_worst(left, right, one_sided=False), tolerance, note)


def at_most(left: Any, right: Any, tolerance: float = 1e-10, note: str = "") -> Evidence:
    """Returns evidence that left never exceeds right; the gap is the worst excess.

    >>> at_most([1.0, 3.0], 2.0).gap
    0.5
    """
    return Evidence(*_worst(left, right, one_sided=True), tolerance, note)


def every(*parts: Evidence, note: str = "") -> Evidence:
    """Returns the weakest part of a claim that has several, with one note for all.

    >>> every(equal(1, 1), equal(1, 3)).right
    3.0
    """
    strains = [p.gap / p.tolerance if p.tolerance else (0.0 if p.holds else np.inf) for p in parts]
    weakest = parts[int(np.argmax(strains))]
    return Evidence(weakest.left, weakest.right, weakest.gap, weakest.tolerance, note)


def order_of(errors: Any) -> float:
    """Returns the order of errors given at steps halved each time: log2 of the last ratio.

    Where there are several errors a step, their norms are compared: one of them may happen to have
    a small leading term.

    >>> order_of([16.0, 1.0])
    4.0
    """
    before, last = (np.linalg.norm(step) for step in errors[-2:])
    return float(np.log2(before / last))
