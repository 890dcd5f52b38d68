"""Instruction fetch: L0 cache and stream buffer of a sub-core, L1 cache of the SM, and what lies behind.

Mental model: a warp's instruction buffer runs ``buffer_entries`` instructions ahead of its issue, so a new line of code
is asked for that many instructions before its first one can issue, and at once where the path jumps. A line that the L0
lacks comes from the stream buffer, which has asked for the lines behind the last miss, or from the SM's L1, whose port
gives one line each ``l1_interval_cycles``; what the L1 lacks takes ``l1_miss_cycles`` more or less as an L2 hit does.
All of it is known when the line is asked for, so nothing here needs an event. Source: Huerta et al., MICRO 2025,
sections 5.2 and 7.3. Fetch itself is not limited: a sub-core fetches an instruction a cycle, and issues no more.

A sub-core has several stream buffers, so that warps that are in different places of straight-line code are each run
ahead of: two warps of one sub-core that run 48 KiB each of different code (24 KiB on an RTX 5090, 12 on a B200)
issue at full rate on an H100 (cicuvc/nvidia-sass-document, probes of two warps on one sub-core), and of one buffer each
would take the other's. A line that no buffer is about to bring aims the one that was used longest ago (Jouppi's
multi-way buffers). A buffer asks the L1 alone: loops that the L1 does not hold lose as much a line whether a line takes
8 cycles to run (RTX 3060) or 18 (H100, B200). Only code that the launch meets for the first time is read ahead from
behind: of 517 lines of cold code an RTX 5090 misses ten (FlashGPU-Sim, docs/rtx5090-instruction-cache.md).

The port serves misses before what streams ask for: a stream takes the cycles that are left, a miss pushes back what
streams still wait for, and a stream that is aimed elsewhere gives up its turns to come (Jouppi, ISCA 1990: a buffer is
flushed when the miss is not at its head). Without that, warps that are far apart would fill the port with lines that
nobody wants, and a cache that answers faster would let them drift apart further.

``streams`` is int64[sub-cores, buffers, columns].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model.compiled import inner
from gpusim.model.line_cache import arrival, install, set_of
from gpusim.model.messages import NEVER
from gpusim.model.prefetch import prefetch
from gpusim.model.sm_tables import CODE_PORT_FREE, CODE_READ, CODE_STREAM_FREE
from gpusim.model.timing import (
    CODE_L0_MISS,
    CODE_L1_INTERVAL,
    CODE_L1_LINES,
    CODE_L1_MISS,
    CODE_L15_HIT,
    CODE_L15_LINES,
    CODE_LINES,
)
from gpusim.model.whole_division import remainder
from gpusim.state_tables import Table

STREAM_TABLE = Table(__name__, "streams", "a stream buffer of a sub-core", "Lines of code that it has asked for.")
STREAM_USED = STREAM_TABLE.column("cycle", "in which it last gave a line or was aimed")
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
    l15: np.ndarray  # one an SM: what its L1 finds in the cache that SMs share
    streams: np.ndarray


@inner
def _from_behind(code, sms, timing, sm, line, start, now):
    """Cycle at which a line comes that the SM's L1 lacks, asked for in cycle ``start``; the L1 keeps those that come
    with it."""
    there, lines = arrival(code.l15, sm, line, now), timing[CODE_L1_LINES]
    ready = start + timing[CODE_L1_MISS]
    if there != NEVER:
        ready = min(max(start, there) + timing[CODE_L15_HIT], ready)
    else:
        lines = timing[CODE_L15_LINES]
        for following in range(line, min(line + lines, timing[CODE_LINES])):
            if arrival(code.l15, sm, following, now) == NEVER:
                install(code.l15, sm, following, ready - timing[CODE_L15_HIT], now)
    sms[sm, CODE_READ] = max(sms[sm, CODE_READ], line + lines)
    for following in range(line, min(line + lines, timing[CODE_LINES])):
        if arrival(code.l15, sm, following, now) != NEVER and arrival(code.l1, sm, following, now) == NEVER:
            install(code.l1, sm, following, ready - timing[CODE_L0_MISS], now)
    return ready


@inner
def _miss(code, sms, timing, sm, line, now):
    """Cycle at which a line comes that a warp waits for."""
    start = max(now, sms[sm, CODE_PORT_FREE])
    sms[sm, CODE_PORT_FREE] = start + timing[CODE_L1_INTERVAL]
    sms[sm, CODE_STREAM_FREE] += timing[CODE_L1_INTERVAL]
    there = arrival(code.l1, sm, line, now)
    if there == NEVER:
        return _from_behind(code, sms, timing, sm, line, start, now)
    return max(start, there) + timing[CODE_L0_MISS]


@inner
def _stream_for(streams, line):
    """The buffer that holds ``line``, else the one used longest ago."""
    chosen = 0
    for i in range(streams.shape[0]):
        if streams[i, STREAM_FIRST] <= line < streams[i, STREAM_FIRST] + streams[i, STREAM_COUNT]:
            return i
        if streams[i, STREAM_USED] < streams[chosen, STREAM_USED]:
            chosen = i
    return chosen


@inner
def fetch(code, sms, timing, sm, sub, line, now):
    """Cycle from which the sub-core has ``line``, asked for in cycle ``now``."""
    prefetch(code.l0, (sub, 0, set_of(code.l0, line + 1), 0))  # the line that comes next, more often than not
    there = arrival(code.l0, sub, line, now)
    if there != NEVER:
        return there
    stream = code.streams[sub, _stream_for(code.streams[sub], line)]
    stream[STREAM_USED] = now
    entries = (stream.shape[0] - STREAM_ARRIVALS) // STREAM_CYCLES
    starts = STREAM_ARRIVALS + entries
    first, count = stream[STREAM_FIRST], stream[STREAM_COUNT]
    kept = max(0, first + count - line - 1) if line >= first else 0
    waiting = 0  # turns at the port that the stream gives up
    for i in range(first, first + count - kept):
        if stream[starts + remainder(i, entries)] > now:
            waiting += 1
    sms[sm, CODE_STREAM_FREE] -= waiting * timing[CODE_L1_INTERVAL]
    if first <= line < first + count and stream[starts + remainder(line, entries)] <= now:
        ready = max(now, stream[STREAM_ARRIVALS + remainder(line, entries)])
    else:
        ready = _miss(code, sms, timing, sm, line, now)
    first, count = line + 1, kept
    while count < entries and first + count < timing[CODE_LINES]:
        following = first + count
        there = arrival(code.l1, sm, following, now)
        if there == NEVER and following < sms[sm, CODE_READ]:
            break
        start = max(now, sms[sm, CODE_PORT_FREE], sms[sm, CODE_STREAM_FREE])
        sms[sm, CODE_STREAM_FREE] = start + timing[CODE_L1_INTERVAL]
        if there == NEVER:
            there = _from_behind(code, sms, timing, sm, following, start, now) - timing[CODE_L0_MISS]
        stream[starts + remainder(following, entries)] = start
        stream[STREAM_ARRIVALS + remainder(following, entries)] = max(start, there) + timing[CODE_L0_MISS]
        count += 1
    stream[STREAM_FIRST], stream[STREAM_COUNT] = first, count
    install(code.l0, sub, line, ready, now)
    return ready
