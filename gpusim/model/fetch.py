"""Instruction fetch: L0 cache and stream buffer of a sub-core, L1 cache of the SM, and what lies behind.

Mental model: a warp's instruction buffer runs ``buffer_entries`` instructions ahead of its issue, so a new line of code
is asked for that many instructions before its first one can issue, and at once where the path jumps. A line that the L0
lacks comes from the stream buffer, which has asked for the lines behind the last miss, or from the SM's L1, whose port
gives one line each ``l1_interval_cycles``; what the L1 lacks takes ``l1_miss_cycles`` more or less as an L2 hit does. All
of it is known when the line is asked for, so nothing here needs an event. Source: Huerta et al., MICRO 2025, sections
5.2 and 7.3. Fetch itself is not limited: a sub-core fetches an instruction a cycle, and issues no more.

The port serves misses before what streams ask for: a stream takes the cycles that are left, a miss pushes back what
streams still wait for, and a stream that is aimed elsewhere gives up its turns to come (Jouppi, ISCA 1990: a buffer is
flushed when the miss is not at its head). Without that, warps that are far apart would fill the port with lines that
nobody wants, and a cache that answers faster would let them drift apart further.

``streams`` is int64[sub-cores, columns].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.compiled import inner
from gpusim.model.line_cache import arrival, install
from gpusim.model.messages import NEVER
from gpusim.model.prefetch import prefetch
from gpusim.model.sm_tables import CODE_PORT_FREE, CODE_STREAM_FREE
from gpusim.model.timing import CODE_L0_MISS, CODE_L1_INTERVAL, CODE_L1_MISS, CODE_LINES
from gpusim.state_tables import Table

STREAM_TABLE = Table(__name__, "streams", "a sub-core", "Its stream buffer of code lines.")
STREAM_FIRST = STREAM_TABLE.column("index", "line of code that the first entry holds")
STREAM_COUNT = STREAM_TABLE.column("count", "entries in use")
STREAM_ARRIVALS = STREAM_TABLE.column(
    "cycle", "at which each line comes, by line number modulo the entries; then at which the port gives it", span=0
)
#: Cycles that the stream buffer keeps of an entry.
STREAM_CYCLES = 2


class CodeState(NamedTuple):
    """Where a group's code lies: see ``line_cache`` for the caches."""

    l0: np.ndarray  # one a sub-core
    l1: np.ndarray  # one an SM
    streams: np.ndarray


@inner
def _from_l1(code, timing, sm, line, start, now):
    """Cycle at which a line asked for in cycle ``now``, whose turn at the L1's port is ``start``, comes to the sub-core."""
    there = arrival(code.l1, sm, line, now)
    from_behind = start + timing[CODE_L1_MISS]
    if there == NEVER:
        install(code.l1, sm, line, from_behind - timing[CODE_L0_MISS], now)
        return from_behind
    return min(max(start, there) + timing[CODE_L0_MISS], from_behind)


@inner
def _miss(code, sms, timing, sm, line, now):
    """Cycle at which a line comes that a warp waits for."""
    start = max(now, sms[sm, CODE_PORT_FREE])
    sms[sm, CODE_PORT_FREE] = start + timing[CODE_L1_INTERVAL]
    sms[sm, CODE_STREAM_FREE] += timing[CODE_L1_INTERVAL]
    return _from_l1(code, timing, sm, line, start, now)


@inner
def fetch(code, sms, timing, sm, sub, line, now):
    """Cycle from which the sub-core has ``line``, asked for in cycle ``now``."""
    prefetch(code.l0, (sub, (line + 1) % code.l0.shape[1], 0, 0))  # the line that comes next, more often than not
    there = arrival(code.l0, sub, line, now)
    if there != NEVER:
        return there
    stream = code.streams[sub]
    entries = (stream.shape[0] - STREAM_ARRIVALS) // STREAM_CYCLES
    starts = STREAM_ARRIVALS + entries
    first, count = stream[STREAM_FIRST], stream[STREAM_COUNT]
    kept = max(0, first + count - line - 1) if line >= first else 0
    waiting = 0  # turns at the port that the stream gives up
    for i in range(first, first + count - kept):
        if stream[starts + i % entries] > now:
            waiting += 1
    sms[sm, CODE_STREAM_FREE] -= waiting * timing[CODE_L1_INTERVAL]
    if first <= line < first + count and stream[starts + line % entries] <= now:
        ready = max(now, stream[STREAM_ARRIVALS + line % entries])
    else:
        ready = _miss(code, sms, timing, sm, line, now)
    first, count = line + 1, kept
    while count < entries and first + count < timing[CODE_LINES]:
        following = first + count
        start = max(now, sms[sm, CODE_PORT_FREE], sms[sm, CODE_STREAM_FREE])
        sms[sm, CODE_STREAM_FREE] = start + timing[CODE_L1_INTERVAL]
        stream[starts + following % entries] = start
        stream[STREAM_ARRIVALS + following % entries] = _from_l1(code, timing, sm, following, start, now)
        count += 1
    stream[STREAM_FIRST], stream[STREAM_COUNT] = first, count
    install(code.l0, sub, line, ready, now)
    return ready
