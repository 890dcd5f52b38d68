"""``cp.async`` (LDGSTS): what uses the shared memory that such a copy still fills.

Mental model: a word of shared memory remembers the last ``cp.async`` into it: the warp that issued it, and its number
among the warp's. It is complete for whoever knows so: the warp itself after ``cp.async.wait_group`` of the copy's group
(or ``wait_all``), others when a barrier has told them what that warp knows, and those who wait for the phase of an
mbarrier at which ``cp.async.mbarrier.arrive`` of that warp arrived. Words of 4 bytes, the smallest copy (PTX ISA,
``cp.async``). compute-sanitizer's racecheck finds the same: the target of a copy "was accessed before the required
commit/wait" (Compute Sanitizer User Manual, "Racecheck support for asynchronous copy").
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import tell
from gpusim.sanitizer.async_tables import (
    BLOCKS,
    COPIED,
    COPY_WORDS,
    LANE_COPIES,
    LANE_GROUPS,
    MOST_GROUPS,
    SHARED_BASE,
)
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1
_WORD_BITS = 2


@inner
def _words(m, address, size):
    """(rank, first word, behind the last one) of a cluster's shared address; (-1, 0, 0) where nothing is followed."""
    rank, first = address >> RANK_SHIFT, (address & _OFFSET) - m.facts[SHARED_BASE]
    if (
        rank < 0
        or rank >= m.facts[BLOCKS]
        or first < 0
        or size <= 0
        or first + size - 1 >> _WORD_BITS >= m.facts[COPY_WORDS]
    ):
        return np.int64(-1), np.int64(0), np.int64(0)
    return np.int64(rank), np.int64(first >> _WORD_BITS), np.int64((first + size - 1 >> _WORD_BITS) + 1)


@apart
def uses_copied(m, s, agent, code, address, size, what):
    """``agent`` uses ``size`` bytes at a cluster's shared address: tell of a copy that it does not know to be complete;
    once an access."""
    rank, first, end = _words(m, address, size)
    if rank < 0:
        return
    for word in range(first, end):
        held = m.copying[s, rank, word]
        if held[0] and m.clock[s, agent, m.facts[COPIED] + held[0] - 1] < held[1]:
            place = np.int64(word << _WORD_BITS)
            tell(m, s, what, agent, code, held[0] - 1, held[2], place, np.int64(0), np.int64(0))
            return


@inner
def begins_copy(m, s, agent, code, address, size):
    """The latest ``cp.async`` of ``agent``, at ``code``, fills these bytes."""
    rank, first, end = _words(m, address, size)
    if rank >= 0:
        for word in range(first, end):
            held = m.copying[s, rank, word]
            held[0], held[1], held[2] = agent + 1, m.agents[s, agent, LANE_COPIES], code


@inner
def forget_copies(m, s, address, size):
    """Something else has filled these bytes, whose order is looked at by itself."""
    rank, first, end = _words(m, address, size)
    if rank >= 0:
        m.copying[s, rank, first:end, 0] = 0


@inner
def close_copies(m, s, agent):
    """cp.async.commit_group."""
    a = m.agents[s, agent]
    m.lane_ends[s, agent, a[LANE_GROUPS] % MOST_GROUPS] = a[LANE_COPIES]
    a[LANE_GROUPS] += 1


@inner
def wait_copies(m, s, agent, level):
    """cp.async.wait_group: all but the last ``level`` groups of ``agent`` are complete."""
    a, clock = m.agents[s, agent], m.clock[s, agent]
    if level < a[LANE_GROUPS] and level < MOST_GROUPS:
        done, at = m.lane_ends[s, agent, (a[LANE_GROUPS] - level - 1) % MOST_GROUPS], m.facts[COPIED] + agent
        clock[at] = max(clock[at], done)


@inner
def arrive_copied(m, s, agent, row):
    """cp.async.mbarrier.arrive: whoever waits for the phase that gathers ``row`` knows of all copies of ``agent`` so
    far."""
    at = m.facts[COPIED] + agent
    m.clock[s, row, at] = max(m.clock[s, row, at], m.agents[s, agent, LANE_COPIES])
