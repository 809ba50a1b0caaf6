"""Sheets of samples: many images at once, images along factors, clouds of points."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from untwist.store import replacing
from untwist.types import InputError

TILE = 0.6
"""Inches a tile of a sheet."""

SEAM = 0.5
"""The gray between tiles."""


def contact_sheet(
    images: Float[np.ndarray, "item height width channel"],
    path: Path,
    *,
    columns: int | None = None,
    title: str = "",
) -> None:
    """Writes a PNG of images in [0, 1] side by side, in reading order.

    Args:
        images: Gray or color images.
        path: The file to write; what it held before is replaced in one step.
        columns: Images a row; as many as rows by default.
        title: What to print above.
    """
    columns = columns or math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    filled = np.full((rows * columns, *images.shape[1:]), SEAM, np.float32)
    filled[: len(images)] = images
    grid = filled.reshape(rows, columns, *images.shape[1:])
    _draw_grid(grid, path, names=[], title=title)


def traversal_sheet(
    images: Sequence[Float[np.ndarray, "_ height width channel"]],
    path: Path,
    *,
    names: Sequence[str],
    title: str = "",
) -> None:
    """Writes a PNG with one row for each factor, in which only that factor changes.

    Args:
        images: For each factor, images in [0, 1]; rows may differ in length.
        path: The file to write; what it held before is replaced in one step.
        names: The factors, printed to the left of their rows.
        title: What to print above.
    """
    longest = max(len(row) for row in images)
    grid = np.full((len(images), longest, *images[0].shape[1:]), SEAM, np.float32)
    for row, steps in zip(grid, images, strict=True):
        row[: len(steps)] = steps
    _draw_grid(grid, path, names=names, title=title)


def scatter_sheet(
    points: Float[np.ndarray, "item axis"],
    factors: Float[np.ndarray, "item factor"],
    path: Path,
    *,
    names: Sequence[str],
    title: str = "",
) -> None:
    """Writes a PNG of the first two coordinates, once for each factor and colored by it.

    Args:
        points: At least one coordinate a point; one alone is drawn against the factor.
        factors: The values that color the points.
        path: The file to write; what it held before is replaced in one step.
        names: The factors, printed above their panels.
        title: What to print above.
    """
    figure = Figure(figsize=(3.2 * len(names), 3.4), layout="constrained")
    figure.suptitle(title, fontsize=10)
    for column, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), column + 1)
        values = factors[:, column]
        height = points[:, 1] if points.shape[1] > 1 else values
        axes.scatter(points[:, 0], height, c=values, s=2, linewidths=0, cmap="viridis")
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.set_aspect("equal", adjustable="datalim")
    save_figure(figure, path)


def save_figure(figure: Figure, path: Path, *, cut: Literal["tight"] | None = None) -> None:
    """Writes a figure as PNG, the same figure to the same bytes; it replaces `path` in one step.

    Args:
        figure: What to write.
        path: The file.
        cut: "tight" to write as much as is drawn, so that no name is cut; else its own size.
    """
    FigureCanvasAgg(figure)
    metadata = {"Software": "untwist"}
    with replacing(path) as scratch:
        figure.savefig(scratch, format="png", dpi=120, metadata=metadata, bbox_inches=cut)


def _draw_grid(
    grid: Float[np.ndarray, "row column height width channel"],
    path: Path,
    *,
    names: Sequence[str],
    title: str,
) -> None:
    """Draws a grid of images with a thin seam between them and names beside the rows."""
    rows, columns, height, width, channels = grid.shape
    if channels not in (1, 3):
        raise InputError(f"a sheet needs gray or color images, but got {channels} channels")
    seam = max(1, height // 32)
    padded = np.pad(
        grid, ((0, 0), (0, 0), (seam, 0), (seam, 0), (0, 0)), constant_values=np.float32(SEAM)
    )
    sheet = padded.transpose(0, 2, 1, 3, 4).reshape(rows * (height + seam), -1, channels)
    size = (TILE * columns * width / height, TILE * rows)
    figure = Figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(sheet.repeat(3 // channels, -1), vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(title, fontsize=9)
    _label_rows(axes, names, height + seam)
    save_figure(figure, path, cut="tight")


def _label_rows(axes: Axes, names: Sequence[str], step: int) -> None:
    """Writes names at the middles of the rows and removes every other mark."""
    axes.set_xticks([])
    axes.set_yticks([step * (row + 0.5) for row in range(len(names))], labels=list(names))
    axes.tick_params(length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)
