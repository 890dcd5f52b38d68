"""Arrays that begin at a cache line of the host."""

from __future__ import annotations

import numpy as np

#: Bytes of a cache line, and of the widest load, of today's hosts.
LINE_BYTES = 64


def aligned_zeros(count: int, dtype: np.dtype) -> np.ndarray:
    """``count`` zeros that begin at a line's first byte: what is read in whole lines is then read in as few as there
    are."""
    raw = np.zeros(count * dtype.itemsize + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * dtype.itemsize].view(dtype)
