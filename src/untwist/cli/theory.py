"""`untwist theory`: list, check, curve, predict."""

import csv
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from untwist.cli.matrix_file import read_matrix
from untwist.report import theory_curves
from untwist.store import replacing
from untwist.theory import (
    CHECKS,
    UNCHECKED,
    Check,
    Prediction,
    disentangling_curve,
    linear_beta_vae,
    paper_mixing,
    statements,
)
from untwist.theory import check as run_check
from untwist.theory import predict as predict_axes
from untwist.types import InputError, nearest

SHOWN = ("beta", "elbo", "mie", "tie", "tie_free", "reconstruction", "kl", "log_likelihood")


def list_(paper: tyro.conf.Positional[str] = "") -> None:
    """List the results of the papers, checked or not.

    Example: untwist theory list bhowal2024

    Args:
        paper: Only this paper; all when empty.
    """
    papers = dict.fromkeys(entry.paper for entry in statements().values())
    if paper and paper not in papers:
        raise nearest("paper", paper, papers)
    rows = [
        (name, entry.kind, entry.where, entry.statement, UNCHECKED.get(name, "checked"))
        for name, entry in statements().items()
        if not paper or entry.paper == paper
    ]
    _print(("id", "kind", "where", "statement", "status"), rows)


def check(identifier: tyro.conf.Positional[str] = "", *, seed: int = 0) -> int:
    """Run one check, or all: both sides, gap, tolerance, verdict. Exit code 1 if one fails.

    A check draws an instance from the seed, computes the left side by one route and the claimed
    right side by another. The gap is relative where the right side is above one, else absolute.
    `untwist theory list` has the ids.

    Example: untwist theory check rolinek2019/thm2 --seed 3

    Args:
        identifier: paper/result such as rolinek2019/thm2, or a paper; all when empty.
        seed: Decides the random instances.
    """
    chosen = [n for n in CHECKS if identifier in ("", n, n.split("/")[0])]
    if identifier in UNCHECKED:
        raise InputError(f"{identifier} is not checked here: it is {UNCHECKED[identifier]}")
    found = [run_check(name, key=jax.random.key(seed)) for name in chosen or [identifier]]
    if len(found) == 1:
        _print_one(found[0])
    else:
        columns = ("id", "statement", "left", "right", "gap", "tolerance", "verdict", "note")
        _print(columns, [_row(one) for one in found])
    failed = [one.id for one in found if one.verdict == "fails"]
    print(f"{len(found) - len(failed)} of {len(found)} hold", *failed)
    return 1 if failed else 0


def curve(
    out: tyro.conf.Positional[Path] = Path("theory-curve"),
    *,
    mixing: Path | None = None,
    noise: float = 1.0,
    low: float = 0.05,
    high: float = 20.0,
    points: int = 61,
) -> None:
    """Draw the exact terms of the linear beta-VAE against beta: sikka2019, Figure 1.

    Writes OUT.csv and OUT.png, in nats an item: ELBO, reconstruction, KL, log-likelihood, and the
    inference errors. MIE is against the model's own posterior; TIE against the generator's, by
    index and at the best relabeling of latents. ELBO is best at beta 1; TIE need not be.

    Example: untwist theory curve figure --high 60

    Args:
        out: Where to write, without an ending.
        mixing: The matrix A of x = A s + noise (.npy, .npz or .csv); the paper's if absent.
        noise: Variance of the noise on each pixel.
        low: Smallest beta.
        high: Largest beta.
        points: Number of betas, evenly spaced in their logarithm; one is always among them.
    """
    betas = _grid(low, high, points)
    matrix = paper_mixing() if mixing is None else read_matrix(mixing)
    found = disentangling_curve(matrix, betas, noise=noise)
    columns = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    if not out.parent.is_dir():
        raise InputError(f"there is no directory {out.parent} to write {out.name} into: make it")
    table, image = (out.with_name(out.name + ending) for ending in (".csv", ".png"))
    _write_table(columns, table)
    data = matrix @ matrix.T + noise * np.eye(len(matrix))
    critical = linear_beta_vae(data, matrix.shape[1], variance=noise).critical_beta
    title = f"linear beta-VAE, N = {len(matrix)}, k = {matrix.shape[1]}, noise {noise:g}"
    theory_curves(columns, image, critical=critical, title=title)
    every = max(len(betas) // 12, 1)
    wanted = [i for i, b in enumerate(betas) if i % every == 0 or b == 1]
    _print(SHOWN, [[f"{columns[name][i]:.4f}" for name in SHOWN] for i in wanted], title=title)
    for name, best in (("ELBO", np.argmax(found.elbo)), ("TIE", np.argmin(found.tie_free))):
        print(f"best {name} at beta {betas[best]:.4g}")
    print(f"wrote {table} and {image}")


def _grid(low: float, high: float, points: int) -> np.ndarray:
    """Betas evenly spaced in their logarithm, and one if it lies between them."""
    if not (0 < low < high and np.isfinite(high) and points >= 2):
        raise InputError(
            f"the grid of beta needs 0 < low < high and at least 2 points, but got "
            f"{low}, {high} and {points}"
        )
    betas = np.geomspace(low, high, points)
    return np.unique(np.append(betas, 1.0)) if low <= 1 <= high else betas


def _write_table(columns: Mapping[str, np.ndarray], path: Path) -> None:
    """Columns as CSV, with every digit."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))


def predict(
    data: tyro.conf.Positional[Path],
    *,
    latents: int = 10,
    variance: float = 1.0,
    covariance: bool = False,
    gap: float = 0.05,
    betas: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
) -> None:
    """Predict the axes a linear beta-VAE finds, which survive which beta, which are undetermined.

    A latent on an axis of variance v stays active while beta times the likelihood variance is below
    v. Axes whose variances are equal, as far as the data can tell, are not determined: any rotation
    among them is as good, and a linear VAE will land on any.

    Example: untwist theory predict data.npy --latents 4 --betas 1 4

    Args:
        data: Items as rows, or a covariance with --covariance (.npy, .npz or .csv).
        latents: Latent size; cut to the number of columns.
        variance: Likelihood variance; 0.5 for square error without a factor.
        covariance: Whether the file holds a covariance.
        gap: Relative difference below which eigenvalues count as equal; noise can widen it.
        betas: Where to count surviving latents.
    """
    if not betas or min(betas) <= 0:
        raise InputError(f"give one beta or more, all positive, but got {betas}")
    matrix = read_matrix(data)
    items = None if covariance else len(matrix)
    if items is not None:
        if items < 2:
            raise InputError(
                f"a covariance needs at least two rows of data, but {data} has {items}"
            )
        matrix = np.atleast_2d(np.cov(matrix, rowvar=False, bias=True))
    size = min(latents, len(matrix))
    found = predict_axes(matrix, size, variance=variance, gap=gap, items=items)
    rows = [_axis_row(found, i) for i in range(size)]
    _print(("latent", "variance", "collapses at beta", "axis", "largest entries"), rows)
    _print(("beta", "survive"), [(f"{b:g}", found.survivors(b)) for b in betas])
    for group in found.groups:
        if group[0] < size:
            last = "" if group[-1] < size else " (the cut between kept and lost axes is free too)"
            print(f"axes {group[0]} to {group[-1]} are within {found.gap:.1%}: any rotation{last}")


def _axis_row(found: Prediction, index: int) -> tuple[object, ...]:
    """One latent: variance, collapse, whether its axis is determined, its largest entries."""
    axis = found.axes[:, index]
    main = np.argsort(-np.abs(axis))[:4]
    parts = " ".join(f"{axis[j]:+.2f} x{j}" for j in main if abs(axis[j]) > 0.05)
    state = "determined" if found.determined[index] else "not determined"
    numbers = (f"{v[index]:.4g}" for v in (found.eigenvalues, found.critical_beta))
    return (index, *numbers, state, parts)


def _row(one: Check) -> tuple[str, ...]:
    found = one.evidence
    numbers = (f"{v:.6g}" for v in (found.left, found.right))
    gaps = (f"{v:.1e}" for v in (found.gap, found.tolerance))
    return (one.id, one.statement.statement, *numbers, *gaps, one.verdict, found.note)


def _print_one(one: Check) -> None:
    _, statement, left, right, gap, tolerance, verdict, note = _row(one)
    lines = {
        "id": f"{one.id} ({one.statement.kind}, {one.statement.where})",
        "statement": statement,
        "formula": one.statement.formula,
        "left": left,
        "right": right,
        "gap": gap,
        "tolerance": tolerance,
        "verdict": verdict,
        "note": note,
    }
    for name, text in lines.items():
        if text:
            print(f"{name:<10} {text}")


def _print(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """A table; into a pipe it is never cut off."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    table = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table, markup=False)


COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": list_,
    "check": check,
    "curve": curve,
    "predict": predict,
}
