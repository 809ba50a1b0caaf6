"""The figure of the exact curves over beta: four panels, as in sikka2019 Figure 1."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from untwist.store import replacing

PANELS = (
    ("ELBO", {"elbo": "ELBO", "log_likelihood": "log-likelihood"}),
    ("inference error", {"mie": "MIE", "tie": "TIE by index", "tie_free": "TIE, best relabeling"}),
    ("reconstruction", {"reconstruction": "reconstruction"}),
    ("KL to the prior", {"kl": "KL"}),
)


def theory_curves(
    columns: Mapping[str, np.ndarray], path: Path, *, critical: np.ndarray, title: str
) -> None:
    """Writes a PNG of the terms against beta, with a mark where each latent collapses.

    Args:
        columns: The table, by column: `beta` and the terms.
        path: The file to write.
        critical: The betas at which latents collapse.
        title: What the data are.
    """
    figure = Figure(figsize=(15, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}; dashed: beta = 1, dotted: a latent collapses", fontsize=11)
    axes = figure.subplots(1, len(PANELS))
    for axis, (name, lines) in zip(axes, PANELS, strict=True):
        _draw_panel(axis, columns, lines, critical)
        axis.set(title=name, xlabel="beta")
        if len(lines) > 1:
            axis.legend(fontsize=8, framealpha=0.9, edgecolor="none")
    axes[0].set_ylabel("nats an item")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _draw_panel(
    axis: Axes, columns: Mapping[str, np.ndarray], lines: Mapping[str, str], critical: np.ndarray
) -> None:
    """The lines of one panel, beta = 1 dashed, collapses dotted."""
    beta = columns["beta"]
    for column, label in lines.items():
        axis.plot(beta, columns[column], label=label, linewidth=1.5)
    if beta.max() > 10 * beta.min():
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for collapse in critical[(critical > beta.min()) & (critical < beta.max())]:
        axis.axvline(collapse, color="0.5", linestyle=":", linewidth=1)
    if beta.min() <= 1 <= beta.max():
        axis.axvline(1, color="0.2", linestyle="--", linewidth=1)
    axis.spines[["top", "right"]].set_visible(False)
