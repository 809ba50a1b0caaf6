"""Linear support vector machines on one coordinate, all levels of all factors at once.

`sklearn.svm.LinearSVC(C=0.01, class_weight="balanced")` on a single code is a problem in two
unknowns. On sorted codes the items inside the margin are a prefix or a suffix, so prefix sums give
the gradient and the Hessian in logarithmic time, and Newton's method the exact optimum.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

ITERATIONS = 60
TOLERANCE = 1e-10


@dataclass(frozen=True)
class _Sums:
    """Prefix sums of 1, x and x^2 over sorted codes, and over each level's own items."""

    ordered: Float[ndarray, " item"]
    everything: Float[ndarray, "3 prefix"]
    keys: Int[ndarray, " entry"]
    own: Float[ndarray, "3 boundary"]
    first: Int[ndarray, " class"]
    last: Int[ndarray, " class"]

    def beyond(
        self, threshold: Float[ndarray, " class"], below: Bool[ndarray, " class"]
    ) -> tuple[Float[ndarray, "3 class"], Float[ndarray, "3 class"]]:
        """Sums over each level's own items, and over all items, on one side of a threshold."""
        rank = np.searchsorted(self.ordered, threshold)
        items = len(self.ordered)
        position = np.searchsorted(self.keys, np.arange(len(rank)) * (items + 1) + rank)
        own = self.own[:, position] - self.own[:, self.first]
        whole = self.own[:, self.last] - self.own[:, self.first]
        total = self.everything[:, rank]
        return (
            np.where(below, own, whole - own),
            np.where(below, total, self.everything[:, -1:] - total),
        )


def _powers(values: Float[ndarray, " entry"]) -> Float[ndarray, "3 prefix"]:
    sums = np.zeros((3, len(values) + 1))
    for power in range(3):
        np.cumsum(values**power, out=sums[power, 1:])
    return sums


def _sums(
    column: Float[ndarray, " item"], levels: Int[ndarray, "item factor"], sizes: tuple[int, ...]
) -> _Sums:
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    ranks, keys, offset = [], [], 0
    for level, size in zip(levels[order].T, sizes, strict=True):
        by_level = np.argsort(level.astype(np.int16), kind="stable")
        ranks.append(by_level)
        keys.append((level[by_level] + offset) * (len(column) + 1) + by_level)
        offset += size
    flat = np.concatenate(keys)
    edges = np.searchsorted(flat, np.arange(offset + 1) * (len(column) + 1))
    values = ordered[np.concatenate(ranks)]
    return _Sums(ordered, _powers(ordered), flat, _powers(values), edges[:-1], edges[1:])


def _quadratic(
    sums: _Sums,
    line: Float[ndarray, "2 class"],
    positive: Float[ndarray, " class"],
    negative: Float[ndarray, " class"],
) -> tuple[Float[ndarray, " class"], Float[ndarray, "2 class"], Float[ndarray, "3 class"]]:
    """Objective, gradient and Hessian (xx, x1, 11) at the lines w x + b."""
    slope, shift = line
    safe = np.where(np.abs(slope) < 1e-300, 1e-300, slope)
    with np.errstate(over="ignore"):
        own, _ = sums.beyond((1 - shift) / safe, safe > 0)
        own_low, all_low = sums.beyond((-1 - shift) / safe, safe < 0)
    other = all_low - own_low
    (n, s, q), (m, t, r) = own, other
    gradient = line + 2 * np.stack(
        [
            negative * (t + slope * r + shift * t) - positive * (s - slope * q - shift * s),
            negative * (m + slope * t + shift * m) - positive * (n - slope * s - shift * n),
        ]
    )
    inside = n - 2 * (slope * s + shift * n) + slope**2 * q + 2 * slope * shift * s + shift**2 * n
    outside = m + 2 * (slope * t + shift * m) + slope**2 * r + 2 * slope * shift * t + shift**2 * m
    value = 0.5 * (line**2).sum(0) + positive * inside + negative * outside
    weighted = 2 * (positive * np.stack([q, s, n]) + negative * np.stack([r, t, m]))
    return value, gradient, weighted + np.array([[1.0], [0.0], [1.0]])


def _newton(
    sums: _Sums, positive: Float[ndarray, " class"], negative: Float[ndarray, " class"]
) -> Float[ndarray, "2 class"]:
    line = np.zeros((2, len(positive)))
    value, gradient, hessian = _quadratic(sums, line, positive, negative)
    floor = TOLERANCE * np.sqrt((gradient**2).sum(0))
    size = np.ones(len(positive))
    for _ in range(ITERATIONS):
        active = np.sqrt((gradient**2).sum(0)) > floor
        if not active.any():
            break
        xx, x1, one = hessian
        determinant = xx * one - x1**2
        step = np.stack([one * gradient[0] - x1 * gradient[1], xx * gradient[1] - x1 * gradient[0]])
        proposal = line - np.where(active, size, 0.0) * step / determinant
        tried = _quadratic(sums, proposal, positive, negative)
        # Near the optimum the values differ by rounding only, which must not reject a step.
        better = active & (tried[0] <= value + 1e-12 * np.abs(value))
        size = np.where(active & ~better, size / 2, 1.0)
        line = np.where(better, proposal, line)
        value, gradient, hessian = (
            np.where(better, new, old)
            for new, old in zip(tried, (value, gradient, hessian), strict=True)
        )
    return line


def line_accuracy(
    column: Float[ndarray, " item"],
    levels: Int[ndarray, "item factor"],
    test_column: Float[ndarray, " test"],
    test_levels: Int[ndarray, "test factor"],
    sizes: tuple[int, ...],
    penalty: float,
) -> Float[ndarray, " factor"]:
    """Returns, for each factor, the test accuracy of one-against-rest lines on one code.

    Every level costs `penalty` * items / (levels * its items) an error, its rivals `penalty`; with
    two levels both are balanced, as LIBLINEAR has it.
    """
    sums = _sums(column, levels, sizes)
    counts = sums.last - sums.first
    held = np.maximum(counts, 1)
    present = np.add.reduceat(counts > 0, np.cumsum((0, *sizes[:-1])))
    balanced = penalty * len(column) / (np.repeat(present, sizes) * held)
    rival = np.full(len(held), penalty)
    offset = 0
    for size in sizes:
        if size == 2:
            rival[offset : offset + 2] = balanced[offset : offset + 2][::-1]
        offset += size
    slope, shift = _newton(sums, balanced, rival)
    shift = np.where(counts > 0, shift, -np.inf)
    accuracy, offset = np.zeros(len(sizes)), 0
    for factor, size in enumerate(sizes):
        own = slice(offset, offset + size)
        decision = np.multiply.outer(slope[own], test_column) + shift[own, None]
        accuracy[factor] = (decision.argmax(0) == test_levels[:, factor]).mean()
        offset += size
    return accuracy
