"""Report: figures out of arrays. It computes no result and trains nothing."""

from untwist.report.sheet import contact_sheet, scatter_sheet, traversal_sheet

__all__ = ["contact_sheet", "scatter_sheet", "traversal_sheet"]
