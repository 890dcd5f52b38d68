"""Which lines and sectors of global memory the boxes of bulk copies touch.

Mental model: a box is rows of contiguous bytes, spread along four dimensions; a row touches every 128-byte line between
its first and its last byte, and of each the 32-byte sectors that it has bytes in. Boxes of one shape differ in their
address only, so each shape is laid out once, for all of them.
"""

from __future__ import annotations

import numpy as np

from gpusim.trace.layout import MemoryKind

LINE_BYTES, SECTOR_SHIFT = 128, 5
_READS = (int(MemoryKind.BULK_LOAD), int(MemoryKind.BULK_PREFETCH))
_WRITES = (int(MemoryKind.BULK_STORE), int(MemoryKind.BULK_REDUCTION))


def box_lines(bulks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of BULK records ``bulks`` that touch global memory: (line address int64[n], mask of its sectors uint8[n], record
    int64[n]), each line of each row once, in the records' order."""
    lines, masks, records = [], [], []
    there = np.isin(bulks["kind"], _READS + _WRITES) & (bulks["row_bytes"] > 0)
    shape = np.column_stack([bulks["stride"], bulks["count"].astype(np.int64), bulks["row_bytes"].astype(np.int64)])
    shapes, shape_of = np.unique(shape, axis=0, return_inverse=True)
    for number, (*extent, row_bytes) in enumerate(shapes.tolist()):
        own = np.flatnonzero((shape_of.ravel() == number) & there)
        if not len(own):
            continue
        offsets = np.zeros(1, np.int64)
        for stride, count in zip(extent[:4], extent[4:], strict=True):
            offsets = (offsets[None, :] + stride * np.arange(count)[:, None]).ravel()
        start = (bulks["address"][own].astype(np.int64)[:, None] + offsets).ravel()
        end = start + row_bytes
        record = np.repeat(own, len(offsets))
        for piece in range((row_bytes + 2 * LINE_BYTES - 2) // LINE_BYTES):
            line = (start & -LINE_BYTES) + piece * LINE_BYTES
            touched = line < end
            low = np.maximum(start - line, 0) >> SECTOR_SHIFT
            high = (np.minimum(end - line, LINE_BYTES) - 1) >> SECTOR_SHIFT
            lines.append(line[touched])
            masks.append(((2 << high) - (1 << low))[touched].astype(np.uint8))
            records.append(record[touched])
    if not lines:
        return np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int64)
    record = np.concatenate(records)
    order = np.argsort(record, kind="stable")
    return np.concatenate(lines)[order], np.concatenate(masks)[order], record[order]


def writes(bulks: np.ndarray) -> np.ndarray:
    """Whether each record writes global memory, bool[n]."""
    return np.isin(bulks["kind"], _WRITES)


def reads(bulks: np.ndarray) -> np.ndarray:
    """Whether each record reads global memory, bool[n]: reductions do it too."""
    return np.isin(bulks["kind"], (*_READS, int(MemoryKind.BULK_REDUCTION)))
