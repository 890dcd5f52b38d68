"""Which addresses of a device belong to another one's memory."""

from __future__ import annotations

import numpy as np

#: (first address, address behind the last, device that owns them), whole lines each.
Windows = tuple[tuple[int, int, int], ...]


def owners(lines: np.ndarray, windows: Windows) -> np.ndarray:
    """The owner of each of ``lines`` uint64[n], -1 for the device's own: int16[n]."""
    found = np.full(len(lines), -1, np.int16)
    for begin, end, owner in windows:
        found[(lines >= np.uint64(begin)) & (lines < np.uint64(end))] = owner
    return found
