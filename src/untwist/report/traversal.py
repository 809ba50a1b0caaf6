"""Latent traversals of several models side by side: one row a latent, one panel a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from untwist.store import replacing

TILE = 0.42
"""Inches an image."""


@dataclass(frozen=True)
class Traversal:
    """Decodings while each latent moves, and what to print beside each row.

    Attributes:
        images: In [0, 1].
        labels: One text a latent.
    """

    images: Float[np.ndarray, "latent step height width channel"]
    labels: Sequence[str]


def traversal_panels(models: Mapping[str, Traversal], path: Path, *, title: str = "") -> None:
    """Writes a PNG with one panel a model, two side by side, its latents in rows.

    Args:
        models: The traversal of each model, under its title.
        path: The file to write; what it held before is replaced in one step.
        title: What to print above.
    """
    latents = max(len(model.images) for model in models.values())
    steps = max(model.images.shape[1] for model in models.values())
    columns = min(2, len(models))
    rows = -(-len(models) // columns)
    size = ((steps * TILE + 1.3) * columns, (latents * TILE + 0.5) * rows + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(models) :]:
        axis.set_axis_off()
    for axis, (name, model) in zip(axes, models.items(), strict=False):
        picture = _tile(model.images)
        axis.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        height = picture.shape[0] / len(model.images)
        axis.set_yticks((np.arange(len(model.labels)) + 0.5) * height - 0.5, model.labels)
        axis.set_xticks([])
        axis.tick_params(length=0, labelsize=8)
        axis.spines[:].set_visible(False)
        axis.set_title(name, fontsize=10)
    figure.suptitle(title, fontsize=10)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _tile(images: np.ndarray) -> np.ndarray:
    """The images as one picture with a gray seam around each; one channel stays gray."""
    padded = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 1), (0, 0)), constant_values=0.5)
    latents, steps, height, width, channels = padded.shape
    picture = padded.transpose(0, 2, 1, 3, 4).reshape(latents * height, steps * width, channels)
    return picture[..., 0] if channels == 1 else picture
