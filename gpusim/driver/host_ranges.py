"""The program's own memory, as a kernel reaches it on a GPU with PAGEABLE_MEMORY_ACCESS.

Mental model: there the GPU walks the page tables of the host, so that any address of the program is one of the device.
Here a launch takes in what the system has mapped for the program at that time, readable and writable; what lies in the
device's own allocations already stays theirs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gpusim.launch.memory import Allocation

_MAPS = Path("/proc/self/maps")
_LABEL = "pageable host memory"


def host_ranges(taken: Iterable[Allocation]) -> Iterator[tuple[int, np.ndarray, str]]:
    """(address, uint8 view, label) of each range of this process' memory that no allocation of ``taken`` covers."""
    covered = sorted((allocation.base, allocation.end) for allocation in taken)
    for start, end in _mapped():
        for low, high in _without(start, end, covered):
            yield low, np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)), _LABEL


def _mapped() -> list[tuple[int, int]]:
    """Ranges of addresses that can be read and written; those that follow each other are one."""
    found: list[tuple[int, int]] = []
    for line in _MAPS.read_text(errors="replace").splitlines():
        place, access = line.split(" ", 2)[:2]
        start, end = (int(part, 16) for part in place.split("-"))
        if not access.startswith("rw"):
            continue
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def _without(start: int, end: int, covered: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of ``start`` to ``end`` that are not covered."""
    for low, high in covered:
        if high <= start or low >= end:
            continue
        if start < low:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end
