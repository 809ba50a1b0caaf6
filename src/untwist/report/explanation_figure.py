"""The figure of an explanation, drawn from what `untwist explain` stored in a run."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from untwist.report.sheet import save_figure
from untwist.store import Run, read_arrays
from untwist.types import InputError

Arrays = Mapping[str, np.ndarray]


def explanation_figure(run: Run, path: Path, *, members: Mapping[int, str]) -> None:
    """Writes a PNG with one row a member: orthogonality, precision, traversals, free angles.

    Args:
        run: A run that was explained.
        path: The file to write; what it held before is replaced in one step.
        members: The members to show, with the words to print beside them.
    """
    stored = run.path / "explanation.safetensors"
    if not stored.exists():
        raise InputError(f"{run.path} has no {stored.name}: run `untwist explain` on it first")
    arrays = read_arrays(stored)
    figure = Figure(figsize=(15, 3.1 * len(members)), layout="constrained")
    panels = figure.subplots(len(members), len(_PANELS), squeeze=False)
    for row, (member, words) in zip(panels, members.items(), strict=True):
        prefix = f"member.{member}."
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        if not own:
            raise InputError(f"{stored} has no member {member}: explain it first")
        for axis, draw in zip(row, _PANELS, strict=True):
            axis.tick_params(labelsize=7)
            draw(axis, own)
        label = f"member {member}" + (f"\n{words}" if words else "")
        row[0].set_ylabel(f"{label}\n\n{row[0].get_ylabel()}", fontsize=8)
    save_figure(figure, path)


def _draw_distance(axis: Axes, own: Arrays) -> None:
    """Distances to orthogonality over items, and that of random axes."""
    if _absent(axis, own, "distance", "distance to orthogonality"):
        return
    chance = own["random_distance"].item()
    top = max(float(own["distance"].max()), chance, 0.1) * 1.1
    axis.hist(own["distance"], bins=30, range=(0, top), color="C0")
    axis.axvline(chance, color="0.3", linestyle="--", label="random axes")
    axis.set_xlabel("0: the columns are orthogonal", fontsize=8)
    axis.set_ylabel("items", fontsize=8)
    axis.legend(fontsize=7, frameon=False)


def _draw_cosine(axis: Axes, own: Arrays) -> None:
    """Mean |cosine| of pairs of columns of the active latents."""
    if _absent(axis, own, "cosine", "mean |cosine| of columns"):
        return
    axis.imshow(own["cosine"], vmin=0, vmax=1, cmap="viridis")
    active = np.flatnonzero(own["active"])
    axis.set_xticks(range(len(active)), labels=list(map(str, active)))
    axis.set_yticks(range(len(active)), labels=list(map(str, active)))
    axis.set_xlabel("latent", fontsize=8)
    for i, line in enumerate(own["cosine"]):
        for j, value in enumerate(line):
            color = "white" if value < 0.6 else "black"
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=color)


def _draw_precision(axis: Axes, own: Arrays) -> None:
    """Posterior variances beside those that the decoder's slopes ask for."""
    if _absent(axis, own, "predicted_variance", "posterior variance"):
        return
    predicted, variance = own["predicted_variance"], own["variance"]
    for latent in range(variance.shape[1]):
        axis.loglog(predicted[:, latent], variance[:, latent], ".", ms=2, label=str(latent))
    span = [min(predicted.min(), variance.min()), max(predicted.max(), variance.max())]
    axis.loglog(span, span, color="0.3", linewidth=0.8)
    axis.set_xlabel("1 / (1 + [D'A²D] / beta)", fontsize=8)
    axis.set_ylabel("sigma²", fontsize=8)
    axis.legend(fontsize=6, frameon=False, title="latent", title_fontsize=6, markerscale=3)


def _draw_profiles(axis: Axes, own: Arrays) -> None:
    """How fast the output moves along a traversal of each active latent."""
    active = np.flatnonzero(own["active"])
    if not len(active) or _absent(axis, own, f"profile.{active[0]}.length", "traversals"):
        axis.set_title("speed along traversals", fontsize=9)
        return
    axis.set_title("speed along traversals", fontsize=9)
    for latent in active:
        line = own[f"profile.{latent}.positions"], own[f"profile.{latent}.length"]
        axis.plot(*line, color=f"C{latent % 10}", linewidth=1.2, label=str(latent))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("value of the latent", fontsize=8)
    axis.set_ylabel("length of its column", fontsize=8)
    axis.legend(fontsize=6, frameon=False, title="latent", title_fontsize=6)


def _draw_free(axis: Axes, own: Arrays) -> None:
    """By how much pairs of latents may turn."""
    if _absent(axis, own, "free_angles", "free angle in degrees"):
        return
    active = np.flatnonzero(own["active"])
    axis.imshow(own["free_angles"], vmin=0, vmax=45, cmap="magma")
    axis.set_xticks(range(len(active)), labels=list(map(str, active)))
    axis.set_yticks(range(len(active)), labels=list(map(str, active)))
    axis.set_xlabel("latent", fontsize=8)
    for i, line in enumerate(own["free_angles"]):
        for j, value in enumerate(line):
            if i != j:
                color = "white" if value < 30 else "black"
                axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=6, color=color)


def _absent(axis: Axes, own: Arrays, name: str, title: str) -> bool:
    """Titles a panel; says so in it where there is nothing to draw."""
    axis.set_title(title, fontsize=9)
    if name in own and own[name].size:
        return False
    axis.text(0.5, 0.5, "does not apply", ha="center", va="center", fontsize=8, color="0.5")
    axis.set_xticks([])
    axis.set_yticks([])
    return True


_PANELS = (_draw_distance, _draw_cosine, _draw_precision, _draw_profiles, _draw_free)
