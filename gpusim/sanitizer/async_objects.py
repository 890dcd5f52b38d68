"""mbarriers as the asynchronous check follows them: who arrives, what is expected, which phase is over, and what is
wrong with it.

Mental model: arrivals and bytes are counted once more, with their signs, beside the emulator's own count. A phase that
ends hands the clocks of all who arrived in it to those who wait for it. PTX ISA, "mbarrier": tx-count is in [-(2^20 -
1), 2^20 - 1].
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import acquire, release, tell
from gpusim.sanitizer.async_copies import arrive_copied
from gpusim.sanitizer.async_shared import granule_of
from gpusim.sanitizer.async_tables import (
    ADDRESS,
    ARRIVE_COPIED,
    BYTES_RANGE,
    BYTES_TOO_MANY,
    CAME,
    CODE_BITS,
    COUNT,
    COUNT_RANGE,
    DONE_ROWS,
    EXPECT_AGENT,
    EXPECT_CODE,
    INIT_AGENT,
    INIT_CODE,
    INIT_STEP,
    LIVE,
    MISSING,
    NO_OBJECT,
    OBJECT_AGAIN,
    OBJECT_HERE,
    OBJECT_UNSEEN,
    PENDING,
    PENDING_ROWS,
    PHASE,
    PHASES,
    ROLE,
    SHARED_BASE,
    TOO_MANY,
    TOUCHED,
)  # fmt: skip
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1
_MOST_BYTES = (1 << 20) - 1


@inner
def object_at(m, s, address):
    """Number of the mbarrier at a cluster's shared address; -1: none is known there."""
    rank, granule = granule_of(m, address)
    return m.shared[s, rank, granule, OBJECT_HERE + (address >> 3 & 1)] - 1 if rank >= 0 else np.int64(-1)


@inner
def _place(m, address):
    return (address & _OFFSET) - m.facts[SHARED_BASE]


@apart
def initialise(m, s, agent, code, address, value, high):
    """mbarrier.init: the word that is stored has 2 ** 20 less the threads to come in bits 1 to 20; anything else is no
    mbarrier."""
    count = (1 << 20) - (value >> 1 & 0xFFFFF)
    rank, granule = granule_of(m, address)
    if rank < 0 or high >> 11 & 0xFFFFF != value >> 1 & 0xFFFFF:
        return
    none = np.int64(-1)
    if count == 1 << 20:  # none, or more than there can be
        tell(m, s, COUNT_RANGE, agent, code, none, none, _place(m, address), np.int64(0), np.int64(0))
    held = object_at(m, s, address)
    if held >= 0 and m.objects[s, held, LIVE]:
        o, step = m.objects[s, held], m.clock[s, agent, agent]
        if o[INIT_AGENT] == agent and o[INIT_CODE] == code and o[INIT_STEP] == step and not o[TOUCHED]:
            return  # another lane of the same instruction
        tell(m, s, OBJECT_AGAIN, agent, code, o[INIT_AGENT], o[INIT_CODE], _place(m, address), o[PHASE], o[PENDING])
    if held < 0:
        held = m.object_count[s]
        if held == m.objects.shape[1]:
            return
        m.object_count[s] = held + 1
        m.shared[s, rank, granule, OBJECT_HERE + (address >> 3 & 1)] = held + 1
    o = m.objects[s, held]
    o[ADDRESS], o[COUNT], o[MISSING], o[PENDING], o[LIVE], o[TOUCHED], o[CAME] = address, count, count, 0, 1, 0, 0
    o[INIT_AGENT], o[INIT_STEP], o[INIT_CODE] = agent, m.clock[s, agent, agent], code
    m.clock[s, m.facts[PENDING_ROWS] + held, :] = 0


@inner
def invalidate(m, s, address):
    """mbarrier.inval: the memory may be used for anything."""
    held = object_at(m, s, address)
    if held >= 0:
        m.objects[s, held, LIVE] = 0
        rank, granule = granule_of(m, address)
        m.shared[s, rank, granule, OBJECT_HERE + (address >> 3 & 1)] = 0


@inner
def used(m, s, agent, code, address):
    """The mbarrier that ``agent`` uses at instruction ``code``; -1, and a finding, if there is none, and a finding if
    it may not be there yet."""
    held = object_at(m, s, address)
    if held < 0 or not m.objects[s, held, LIVE]:
        if granule_of(m, address)[0] >= 0 and m.object_count[s] < m.objects.shape[1]:
            tell(m, s, NO_OBJECT, agent, code, np.int64(-1), np.int64(-1), _place(m, address), np.int64(0), np.int64(0))
        return np.int64(-1)
    o = m.objects[s, held]
    if o[INIT_AGENT] != agent and m.clock[s, agent, o[INIT_AGENT]] < o[INIT_STEP]:
        tell(
            m, s, OBJECT_UNSEEN, agent, code, o[INIT_AGENT], o[INIT_CODE], _place(m, address), np.int64(0), np.int64(0)
        )
    o[TOUCHED] = 1
    return held


@inner
def complete(m, s, held, agent, code):
    """End the phase of the mbarrier ``held`` if nobody and nothing is missing; ``agent`` at ``code`` has brought it
    about."""
    o, f = m.objects[s, held], m.facts
    if o[MISSING] > 0 or o[PENDING] != 0:
        if o[MISSING] <= 0 and o[PENDING] < 0:
            place, other = _place(m, o[ADDRESS]), np.int64(o[EXPECT_AGENT] - 1)
            tell(m, s, BYTES_TOO_MANY, agent, code, other, o[EXPECT_CODE], place, -o[PENDING], o[PHASE])
        return
    gathered, done = m.clock[s, f[PENDING_ROWS] + held], m.clock[s, f[DONE_ROWS] + held]
    for i in range(len(done)):
        done[i] = max(done[i], gathered[i])
    gathered[:] = 0
    o[PHASE] += 1
    o[MISSING], o[CAME] = o[COUNT], 0


@inner
def count_bytes(m, s, held, agent, code, change):
    """Bytes are expected (``change`` above 0) or arrive (below)."""
    o = m.objects[s, held]
    o[PENDING] += change
    if change > 0:
        o[EXPECT_CODE], o[EXPECT_AGENT] = code, agent + 1
    else:
        o[CAME] -= change
    if abs(o[PENDING]) > _MOST_BYTES:
        tell(m, s, BYTES_RANGE, agent, code, np.int64(-1), np.int64(-1), _place(m, o[ADDRESS]), o[PENDING], o[PHASE])


@apart
def operate(m, s, agent, code, address, operation, value):
    """An instruction on the mbarrier at ``address``: arrive, expect, complete, or a wait that is over. ``value``:
    threads or bytes."""
    held = used(m, s, agent, code, address)
    if held < 0:
        return
    o, f = m.objects[s, held], m.facts
    if operation == ops.PHASE:
        acquire(m, s, agent, f[DONE_ROWS] + held)
        clock = m.clock[s, agent]
        ended = np.int64(o[PHASE] + 1) << CODE_BITS | np.int64(code)
        if clock[f[PHASES] + held] < o[PHASE]:
            clock[f[PHASES] + held] = o[PHASE]
            m.waits[s, agent, held] = -ended
        elif m.waits[s, agent, held] != -ended:  # else another lane of the same wait
            m.waits[s, agent, held] = ended
        return
    if operation == ops.EXPECT or operation == ops.EXPECT_ARRIVE or operation == ops.EXPECT_DROP:
        count_bytes(m, s, held, agent, code, np.int64(value))
    if operation == ops.COMPLETE:
        count_bytes(m, s, held, agent, code, -np.int64(value))
    threads = np.int64(1) if operation == ops.EXPECT_ARRIVE or operation == ops.EXPECT_DROP else np.int64(value)
    if operation == ops.DROP or operation == ops.EXPECT_DROP:
        o[COUNT] -= threads
    if operation != ops.EXPECT and operation != ops.COMPLETE:
        if o[MISSING] < threads:
            place = _place(m, address)
            tell(m, s, TOO_MANY, agent, code, o[INIT_AGENT], o[INIT_CODE], place, o[COUNT], o[PHASE])
        o[MISSING] = max(o[MISSING] - threads, np.int64(0))
        release(m, s, agent, f[PENDING_ROWS] + held)
    if m.code[code, ROLE] == ARRIVE_COPIED:
        arrive_copied(m, s, agent, f[PENDING_ROWS] + held)
    complete(m, s, held, agent, code)
