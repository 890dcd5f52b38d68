"""Responses that an SM has been promised: a binary heap of one int64 each, earliest first.

Mental model: key = arrival tick << TAG_BITS | tag. The tag names the request, and the request knows the
rest, so an entry is one number; ties break by tag, whatever the order of delivery was.
``heap`` is int64[sms, capacity]; the count lives in ``heads[sm, count]``.
"""

from __future__ import annotations

from gpusim.model.compiled import inner

TAG_BITS = 16
TAG_MASK = (1 << TAG_BITS) - 1


@inner
def push(heap, sm, heads, count, key):
    """Add a key."""
    i = heads[sm, count]
    heads[sm, count] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if heap[sm, parent] <= key:
            break
        heap[sm, i] = heap[sm, parent]
        i = parent
    heap[sm, i] = key


@inner
def pop(heap, sm, heads, count):
    """Remove and return the least key; the heap must not be empty."""
    top = heap[sm, 0]
    n = heads[sm, count] - 1
    heads[sm, count] = n
    key = heap[sm, n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and heap[sm, child + 1] < heap[sm, child]:
            child += 1
        if heap[sm, child] >= key:
            break
        heap[sm, i] = heap[sm, child]
        i = child
    if n > 0:
        heap[sm, i] = key
    return top
