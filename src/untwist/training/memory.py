"""How much memory there is, and how many members fit into it."""

import os
from typing import Any

from untwist.types import Device


def free_memory(device: Device) -> int:
    """Returns how many bytes a population may take: most of what the device has to spare."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(0.9 * (stats["bytes_limit"] - stats.get("bytes_in_use", 0)))
    return int(0.7 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def member_bytes(program: Any, members: int, rows_bytes: int) -> int | None:
    """Returns what each member adds to the memory of this program, by the program's own analysis.

    Its arguments, results and everything in between count, but for the rows, which all share; None
    where the backend gives no analysis.
    """
    sizes = program.compiled.memory_analysis()
    if sizes is None:
        return None
    needed = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    needed -= sizes.alias_size_in_bytes
    return max(1, (needed - rows_bytes) // members)


def members_that_fit(program: Any, members: int, rows_bytes: int, memory: int) -> int:
    """Returns how many of the members this program advances would fit."""
    each = member_bytes(program, members, rows_bytes)
    return members if each is None else max(1, min(members, (memory - rows_bytes) // each))
