"""Report: figures out of arrays. It computes no result and trains nothing."""

from untwist.report.curves import training_curves
from untwist.report.explanation_figure import explanation_figure
from untwist.report.sheet import contact_sheet, scatter_sheet, traversal_sheet
from untwist.report.theory_curves import theory_curves
from untwist.report.traversal import Traversal, traversal_panels

__all__ = [
    "Traversal",
    "contact_sheet",
    "explanation_figure",
    "scatter_sheet",
    "theory_curves",
    "training_curves",
    "traversal_panels",
    "traversal_sheet",
]
