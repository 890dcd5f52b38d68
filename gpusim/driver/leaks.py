"""Device memory that a program has allocated and not freed when it ends: what memcheck's ``--leak-check full`` reports.

Mental model: an allocation that is still there once the program has ended is a leak. Libraries that free late are asked
to do so first: objects that nobody names any more are collected, and Numba frees what it has queued to be freed. What
lives on for another reason, an array that a module's variable names to the end or one in a pool, is reported: nothing
frees it on a GPU either before the process ends.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any

from gpusim.driver.memory import DEVICE, MANAGED, Memory


def leaks_of(memory: Memory) -> list[dict[str, Any]]:
    """A row for each place that allocated what is left in ``memory``: how many allocations and bytes, the first of
    their addresses, and where the program asked for them."""
    gc.collect()
    if memory.left((DEVICE, MANAGED)):
        _free_what_is_queued()
    rows: dict[str, dict[str, Any]] = {}
    for block in memory.left((DEVICE, MANAGED)):
        allocation = block.allocation
        row = rows.setdefault(
            allocation.label,
            {"leaked_bytes": 0, "allocations": 0, "address": f"0x{allocation.base:x}", "what": allocation.label},
        )
        row["leaked_bytes"] += allocation.size
        row["allocations"] += 1
    return list(rows.values())


def _free_what_is_queued() -> None:
    """Numba frees memory some time after its owner is gone: let it do so now, if the program uses it."""
    driver = sys.modules.get("numba.cuda.cudadrv.driver")
    for waiting in gc.get_objects() if driver is not None else ():
        # Of its type, since a weak reference to what is gone does not tell its class.
        if issubclass(type(waiting), getattr(driver, "_PendingDeallocs", ())):
            with contextlib.suppress(Exception):  # a context that a failed launch has broken frees nothing any more
                waiting.clear()
