"""Tables of a part that grow with what is under way, and messages that leave it."""

from __future__ import annotations

import numpy as np

from gpusim.state_tables import line_aligned

#: Nodes to begin with.
FIRST_NODES = 4096


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """A copy with ``size`` rows or more, the new ones zero: at least twice as many, so that growing is rare."""
    bigger = line_aligned((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


def copied(messages: np.ndarray, count: int) -> np.ndarray:
    """A copy of the first ``count`` messages. NumPy copies records field by field, which takes ten
    times as long, and lets no other thread run Python meanwhile."""
    as_bytes = np.ndarray(count * messages.dtype.itemsize, np.uint8, messages)
    return np.ndarray(count, messages.dtype, as_bytes.copy())
