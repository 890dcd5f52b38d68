"""A binary heap of (time, order, node) rows: what a part still has to do, earliest first.

Mental model: ``heap`` is int64[capacity, 3]; rows 0 .. size - 1 are a heap by (time, order), so equal
times come out in the order given when they were pushed, never by accident of layout. The caller keeps
``size`` and grows the array; both functions return the new size.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.compiled import compiled

TIME, ORDER, NODE = 0, 1, 2


@compiled
def push(heap: np.ndarray, size: int, time: int, order: int, node: int) -> int:
    """Add a row; ``heap`` must have room for it."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        above = heap[parent, TIME]
        if above < time or (above == time and heap[parent, ORDER] < order):
            break
        heap[child, TIME] = above
        heap[child, ORDER] = heap[parent, ORDER]
        heap[child, NODE] = heap[parent, NODE]
        child = parent
    heap[child, TIME] = time
    heap[child, ORDER] = order
    heap[child, NODE] = node
    return size + 1


@compiled
def pop(heap: np.ndarray, size: int) -> int:
    """Drop row 0 (read it before)."""
    size -= 1
    time, order, node = heap[size, TIME], heap[size, ORDER], heap[size, NODE]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            heap[right, TIME] < heap[child, TIME]
            or (
                heap[right, TIME] == heap[child, TIME]
                and heap[right, ORDER] < heap[child, ORDER]
            )
        ):
            child = right
        if time < heap[child, TIME] or (time == heap[child, TIME] and order < heap[child, ORDER]):
            break
        heap[hole, TIME] = heap[child, TIME]
        heap[hole, ORDER] = heap[child, ORDER]
        heap[hole, NODE] = heap[child, NODE]
        hole = child
    heap[hole, TIME] = time
    heap[hole, ORDER] = order
    heap[hole, NODE] = node
    return size
