"""How far the waiting of blocks and the bytes of memory overlap in attention.

Mental model: blocks that wait for their own loads leave memory idle at times, and memory that is late makes blocks wait
longer, so that where both take about as long the whole takes longer than either; far apart it takes as long as the
longer one.
"""

from __future__ import annotations


def overlapped(memory: float, latency: float, power: float) -> float:
    """Of two times the root of order ``power`` of the sum of their powers, or the longer one where ``power`` is 0 (any
    unit, both the same)."""
    longer = max(memory, latency)
    if power <= 0.0 or longer <= 0.0:
        return longer
    shorter = max(0.0, min(memory, latency))
    return longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power)
