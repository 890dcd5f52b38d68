"""Hazards between ordinary accesses to shared memory, byte by byte, in kernels whose warps wait for each other by more
than the block's barrier.

Mental model: as :mod:`gpusim.sanitizer.racecheck`, but what orders two warps are the vector clocks of
:mod:`gpusim.sanitizer.async_tables`: barriers of any number and count (``bar.sync``, ``bar.arrive``), those of the
cluster, mbarriers and atomics. Two accesses of different warps to a byte, one of them a write and not both atomic, that
no clock orders are a hazard. A byte remembers its last write and the last reads of two warps that nothing orders
(Flanagan and Freund, "FastTrack", PLDI 2009: a read that is ordered before another one need not be kept). Two writes of
the same value are none: they change no result, and compute-sanitizer shows hazards "that have no impact on program
execution" (severity INFO) only where asked for (Compute Sanitizer User Manual, "Racecheck Severity Levels").
``cp.async`` counts as a write of the issuing warp, made at once: that it waits for it is not looked at, as it is not in
racecheck.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import code_in, mark, tell
from gpusim.sanitizer.async_tables import (
    BLOCKS,
    CODE_BITS,
    GUARDED,
    RACE_READ_WRITE,
    RACE_WRITE_WRITE,
    RACES,
    READ_UNWRITTEN,
    SHARED_BASE,
    TOUCH_READER,
    TOUCH_VALUE,
    TOUCH_WRITER,
    UNWRITTEN_READS,
    WRITTEN,
)
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1
#: Columns of a party: 1 + agent, step and code, whether atomic.
_PARTY = 3


@inner
def _meets(m, s, agent, atomic, b, column):
    """Whether the party at ``column`` of byte ``b`` is another warp whose access nothing orders before ``agent``'s."""
    other = b[column] - 1
    if other < 0 or other == agent or (atomic and b[column + 2]):
        return False
    return b[column + 1] >> CODE_BITS > m.clock[s, agent, other]


@inner
def _tell(m, s, what, agent, code, b, column, place):
    tell(m, s, what, agent, code, b[column] - 1, code_in(b[column + 1]), place, np.int64(0), np.int64(0))


@inner
def _keep(b, column, agent, now, atomic):
    b[column], b[column + 1], b[column + 2] = agent + 1, now, atomic


@inner
def _reader_place(m, s, agent, b):
    """Where a read is kept: in place of one that is ordered before it, of none, or else of the second."""
    for column in (TOUCH_READER, TOUCH_READER + _PARTY):
        other = b[column] - 1
        if other < 0 or b[column + 1] >> CODE_BITS <= m.clock[s, agent, other]:
            return np.int64(column)
    return np.int64(TOUCH_READER + _PARTY)


@apart
def touch(m, s, agent, code, address, size, reads, writes, known, low, high):
    """An ordinary access of ``agent`` to ``size`` bytes at a cluster's shared address; an access tells of one hazard at
    most. ``known``: whether ``low`` and ``high`` are the bytes that it has left there."""
    f, rank, first = m.facts, address >> RANK_SHIFT, (address & _OFFSET) - m.facts[SHARED_BASE]
    if rank < 0 or rank >= f[BLOCKS] or first < 0 or first + size > m.touched.shape[2]:
        return
    now, silent = mark(m, s, agent, code), f[RACES] == 0
    atomic = reads and (writes or m.code[code, GUARDED] != 0)
    unwritten = reads and f[UNWRITTEN_READS] != 0
    for place in range(first, first + size):
        b = m.touched[s, rank, place]
        if unwritten and not b[WRITTEN]:
            tell(m, s, READ_UNWRITTEN, agent, code, np.int64(-1), np.int64(-1), place, size, np.int64(0))
            unwritten = False
        left = np.int64(0)
        if known:
            part = low if place - first < 8 else high
            left = 1 + (part >> 8 * ((place - first) & 7) & 255)
        same = writes and left != 0 and left == b[TOUCH_VALUE]
        if not silent and not same and _meets(m, s, agent, atomic, b, TOUCH_WRITER):
            _tell(m, s, RACE_WRITE_WRITE if writes else RACE_READ_WRITE, agent, code, b, TOUCH_WRITER, place)
            silent = True
        if writes:
            for column in (TOUCH_READER, TOUCH_READER + _PARTY):
                if not silent and _meets(m, s, agent, atomic, b, column):
                    _tell(m, s, RACE_READ_WRITE, agent, code, b, column, place)
                    silent = True
                b[column] = 0
            _keep(b, TOUCH_WRITER, agent, now, atomic)
            b[WRITTEN], b[TOUCH_VALUE] = 1, left
        else:
            _keep(b, _reader_place(m, s, agent, b), agent, now, atomic)


@inner
def written(m, s, address, size):
    """Note that these bytes have been written by something else than an ordinary store."""
    rank, first = address >> RANK_SHIFT, (address & _OFFSET) - m.facts[SHARED_BASE]
    if 0 <= rank < m.facts[BLOCKS]:
        for place in range(max(first, 0), min(first + size, m.touched.shape[2])):
            m.touched[s, rank, place, WRITTEN], m.touched[s, rank, place, TOUCH_VALUE] = 1, 0
