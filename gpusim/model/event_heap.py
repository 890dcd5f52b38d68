"""A four-way heap of events: what a part still has to do, earliest first.

Mental model: an event is a *key*, its tick and behind it the order of its birth, and a *node*. The two
are packed into one integer, so that equal ticks come out in order of birth, never by accident of
layout, and one comparison decides. ``heap`` int64[2, capacity] holds keys in row 0 and nodes in row 1;
the first ``size`` columns are the heap; the caller keeps ``size`` and grows the array.
"""

from __future__ import annotations

import numpy as np

from gpusim.model.compiled import compiled, inner

#: Bits of a key that hold the order of birth; above them ticks up to 2**40 (10**10 cycles) fit.
BIRTH_BITS = 22


@inner
def make_key(time: int, birth: int) -> int:
    """The key of an event at tick ``time``, the ``birth``-th one created."""
    return (time << BIRTH_BITS) | (birth & ((1 << BIRTH_BITS) - 1))


@compiled
def time_of(key: int) -> int:
    """The tick of a key."""
    return key >> BIRTH_BITS


@inner
def push(heap: np.ndarray, size: int, key: int, node: int) -> int:
    """Add an event (``heap`` must have room); the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 2
        if heap[0, parent] < key:
            break
        heap[0, child] = heap[0, parent]
        heap[1, child] = heap[1, parent]
        child = parent
    heap[0, child] = key
    heap[1, child] = node
    return size + 1


@inner
def pop(heap: np.ndarray, size: int) -> int:
    """Drop the first event (read entry 0 before); the new size."""
    size -= 1
    key, node = heap[0, size], heap[1, size]
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if heap[0, other] < heap[0, least]:
                least = other
        if key < heap[0, least]:
            break
        heap[0, hole] = heap[0, least]
        heap[1, hole] = heap[1, least]
        hole = least
    heap[0, hole] = key
    heap[1, hole] = node
    return size
