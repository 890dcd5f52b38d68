"""Whole numbers as few bytes: seven bits a byte, small magnitudes first (LEB128 of the zigzag value).

Mental model: a column of differences is mostly zeros and small numbers of either sign. Zigzag folds the
sign into the lowest bit (0, -1, 1, -2 become 0, 1, 2, 3), and each byte carries seven bits and a flag for
"more follows", as Protocol Buffers store ``sint64``. A column of n numbers takes n bytes or more, which is
what bounds a reader's allocation by the bytes that it was given.
"""

from __future__ import annotations

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.trace.compiled import compiled

#: Bytes of the longest number: 64 bits, seven a byte.
LONGEST_BYTES = 10
_LOW57 = (1 << 57) - 1
_LOW63 = (1 << 63) - 1


@compiled
def _pack(values, out):
    """Write ``values`` int64[n] to ``out`` uint8[10 n]; returns the bytes written."""
    n = 0
    for i in range(values.shape[0]):
        value = values[i]
        folded = (value << 1) ^ (value >> 63)
        while folded & ~0x7F:
            out[n] = (folded & 0x7F) | 0x80
            n += 1
            folded = (folded >> 7) & _LOW57
        out[n] = folded
        n += 1
    return n


@compiled
def _unpack(data, values):
    """Read ``values.shape[0]`` numbers from ``data`` uint8[m]; returns the bytes read, or -1 when they end
    early or a number is longer than 64 bits."""
    n = 0
    for i in range(values.shape[0]):
        folded = np.int64(0)
        shift = 0
        while True:
            if n >= data.shape[0] or shift > 63:
                return -1
            byte = np.int64(data[n])
            n += 1
            if shift == 63 and byte > 1:
                return -1
            folded |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        values[i] = ((folded >> 1) & _LOW63) ^ -(folded & 1)
    return n


def pack(values: np.ndarray) -> bytes:
    """The bytes of ``values`` int64[n]."""
    values = np.ascontiguousarray(values, np.int64)
    out = np.empty(LONGEST_BYTES * len(values), np.uint8)
    return out[: _pack(values, out)].tobytes()


def unpack(data: np.ndarray, count: int, name: str) -> np.ndarray:
    """int64[count] from exactly the bytes ``data`` uint8[m]; ``name`` is for the TraceFormatError of a
    column that holds something else."""
    if count > len(data):
        raise TraceFormatError(f"column {name} has {len(data)} bytes for {count} numbers")
    values = np.empty(count, np.int64)
    if _unpack(data, values) != len(data):
        raise TraceFormatError(f"column {name} does not hold {count} numbers in {len(data)} bytes")
    return values
