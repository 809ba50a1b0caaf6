"""Training curves: parts of the loss over steps, one line a setting, a band over its seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from untwist.store import replacing

Curve = tuple[np.ndarray, np.ndarray]
"""Steps, and values [member, step]."""


def training_curves(
    panels: Mapping[str, Mapping[str, Curve]], path: Path, *, logarithmic: Sequence[str] = ()
) -> None:
    """Writes a PNG with one panel a part: the mean over seeds, and the range from least to most.

    Args:
        panels: For each part of the loss, the curve of each setting.
        path: The file to write; what it held before is replaced in one step.
        logarithmic: The parts drawn on a logarithmic axis.
    """
    figure = Figure(figsize=(4.2 * len(panels), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (part, curves) in zip(axes, panels.items(), strict=True):
        _draw_panel(axis, curves)
        axis.set(title=part, xlabel="step")
        if part in logarithmic:
            axis.set_yscale("log")
    axes[0].set_ylabel("nats an image")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _draw_panel(axis: Axes, curves: Mapping[str, Curve]) -> None:
    """One line and one band a setting."""
    for name, (steps, values) in curves.items():
        (line,) = axis.plot(steps, values.mean(axis=0), label=name, linewidth=1.5)
        low, high = values.min(axis=0), values.max(axis=0)
        axis.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axis.spines[["top", "right"]].set_visible(False)
