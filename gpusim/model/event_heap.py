"""A four-way heap of events: what a part still has to do, earliest first.

Mental model: an event is a *key*, its tick and behind it the order of its birth, and a *node*. The two
are packed into one integer, so that equal ticks come out in order of birth, never by accident of
layout, and one comparison decides. ``keys`` int64 and ``nodes`` int64 are parallel arrays whose first
``size`` entries are the heap; the caller keeps ``size`` and grows the arrays.
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
def push(keys: np.ndarray, nodes: np.ndarray, size: int, key: int, node: int) -> int:
    """Add an event (the arrays must have room); the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 2
        if keys[parent] < key:
            break
        keys[child] = keys[parent]
        nodes[child] = nodes[parent]
        child = parent
    keys[child] = key
    nodes[child] = node
    return size + 1


@inner
def pop(keys: np.ndarray, nodes: np.ndarray, size: int) -> int:
    """Drop the first event (read entry 0 before); the new size."""
    size -= 1
    key, node = keys[size], nodes[size]
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if keys[other] < keys[least]:
                least = other
        if key < keys[least]:
            break
        keys[hole] = keys[least]
        nodes[hole] = nodes[least]
        hole = least
    keys[hole] = key
    nodes[hole] = node
    return size
