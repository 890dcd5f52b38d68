"""Accesses to shared memory, granule by granule: what they meet that is not ordered before them.

Mental model: a granule remembers the bulk load that fills it, bulk copies, warp groups' products and tcgen05 work that
read it, and of every warp of its block the last ordinary read and write. The *generic proxy* is ordinary loads and
stores, the *asynchronous proxy* bulk copies and tensor cores; what the one has written the other sees behind a proxy
fence only. PTX ISA, "Memory Consistency Model" (proxies), "Async proxy".
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import code_in, mark, tell
from gpusim.sanitizer.async_tables import (
    BLOCKS,
    CODE_BITS,
    COPY_READ,
    FAR_READ,
    FAR_WRITE,
    FENCED,
    GRANULE_BITS,
    GRANULES,
    GROUPS,
    INIT_AGENT,
    INIT_CODE,
    LOAD_AGENT,
    LOAD_CODE,
    LOAD_OBJECT,
    LOAD_OVER_LOAD,
    LOAD_OVER_READ,
    LOAD_OVER_WRITE,
    LOAD_PHASE,
    OBJECT_HERE,
    OBJECT_OVERWRITTEN,
    OVER_COPY,
    OVER_PRODUCT,
    OVER_TENSOR,
    PHASE,
    PHASES,
    PRODUCT_DONE,
    PRODUCT_READ,
    READ_COLUMNS,
    READ_OUT,
    READ_SLOTS,
    READ_UNFILLED,
    SHARED_BASE,
    SHARED_BYTES,
    TENSOR_DONE,
    TENSOR_READ,
    UNFENCED,
    UNORDERED,
    WARPS,
    WRITE_UNFILLED,
    WRONG_PARITY,
)  # fmt: skip
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1


@inner
def granule_of(m, address):
    """(rank, granule) of a cluster's shared address; (-1, 0) for one outside what the kernel has: the system's, or out
    of bounds."""
    rank, offset = address >> RANK_SHIFT, (address & _OFFSET) - m.facts[SHARED_BASE]
    if rank < 0 or rank >= m.facts[BLOCKS] or offset < 0 or offset >= m.facts[SHARED_BYTES]:
        return np.int64(-1), np.int64(0)
    return np.int64(rank), np.int64((address & _OFFSET) >> GRANULE_BITS) - (m.facts[SHARED_BASE] >> GRANULE_BITS)


@inner
def _place(m, granule):
    """Shared address of a granule, from the kernel's first byte on."""
    return (granule + (m.facts[SHARED_BASE] >> GRANULE_BITS) << GRANULE_BITS) - m.facts[SHARED_BASE]


@inner
def _unfilled(m, s, agent, g):
    """Whether a bulk load into granule ``g`` is not known to ``agent`` to be complete."""
    held = g[LOAD_OBJECT]
    return held > 0 and m.clock[s, agent, m.facts[PHASES] + held - 1] <= g[LOAD_PHASE]


@inner
def _tell_unfilled(m, s, what, agent, code, g, place):
    """Tell that ``agent`` uses at ``code`` what is being filled: it has not waited, or its wait ended at once while
    that phase went on."""
    waited = m.waits[s, agent, g[LOAD_OBJECT] - 1]
    if waited >> CODE_BITS == g[LOAD_PHASE] + 1:
        tell(m, s, WRONG_PARITY, agent, code, agent, code_in(waited), place, g[LOAD_OBJECT] - 1, g[LOAD_PHASE])
        return
    tell(m, s, what, agent, code, g[LOAD_AGENT], g[LOAD_CODE], place, g[LOAD_OBJECT] - 1, g[LOAD_PHASE])


@inner
def _busy(m, s, agent, g, rank, place, code):
    """What is to be overwritten at ``code``: tell of asynchronous reads that may not be over."""
    f, clock = m.facts, m.clock[s, agent]
    for i in range(READ_SLOTS):
        at = COPY_READ + READ_COLUMNS * i
        if g[at] and clock[f[READ_OUT] + g[at] - 1] < g[at + 1]:
            tell(m, s, OVER_COPY, agent, code, g[at] - 1, g[at + 2], place, np.int64(0), np.int64(0))
        at = TENSOR_READ + READ_COLUMNS * i
        if g[at] and clock[f[TENSOR_DONE] + g[at] - 1] < g[at + 1]:
            tell(m, s, OVER_TENSOR, agent, code, g[at] - 1, g[at + 2], place, np.int64(0), np.int64(0))
    for group in range(f[GROUPS]):
        held = g[PRODUCT_READ + group]
        if held and clock[f[PRODUCT_DONE] + rank * f[GROUPS] + group] < held >> CODE_BITS:
            reader = rank * f[WARPS] + 4 * group
            tell(m, s, OVER_PRODUCT, agent, code, reader, code_in(held), place, np.int64(0), np.int64(0))


@apart
def generic(m, s, agent, code, address, size, reads, writes):
    """An ordinary access of ``agent`` to ``size`` bytes at a cluster's shared address."""
    f = m.facts
    rank, first = granule_of(m, address)
    if rank < 0:
        return
    last = min(first + (((address & 15) + size - 1) >> GRANULE_BITS), f[GRANULES] - 1)
    own = agent // f[WARPS] == rank
    warps = PRODUCT_READ + f[GROUPS]
    for granule in range(first, last + 1):
        g, place, now = m.shared[s, rank, granule], _place(m, granule), mark(m, s, agent, code)
        if _unfilled(m, s, agent, g):
            _tell_unfilled(m, s, WRITE_UNFILLED if writes else READ_UNFILLED, agent, code, g, place)
        if reads:
            if own:
                g[warps + agent % f[WARPS]] = now
            else:
                g[FAR_READ], g[FAR_READ + 1] = agent + 1, now
        if writes:
            _busy(m, s, agent, g, rank, place, code)
            if own:
                g[warps + f[WARPS] + agent % f[WARPS]] = now
            else:
                g[FAR_WRITE], g[FAR_WRITE + 1] = agent + 1, now
            if g[OBJECT_HERE] or g[OBJECT_HERE + 1]:
                _over_object(m, s, agent, code, g, address & _OFFSET, size, place)


@apart
def copied(m, s, agent, code, address, size):
    """A ``cp.async`` of ``agent`` writes ``size`` bytes: tell of asynchronous work that still fills or reads them."""
    rank, first = granule_of(m, address)
    if rank < 0:
        return
    last = min(first + (((address & 15) + size - 1) >> GRANULE_BITS), m.facts[GRANULES] - 1)
    for granule in range(first, last + 1):
        g, place = m.shared[s, rank, granule], _place(m, granule)
        if _unfilled(m, s, agent, g):
            _tell_unfilled(m, s, WRITE_UNFILLED, agent, code, g, place)
        _busy(m, s, agent, g, rank, place, code)


@inner
def _over_object(m, s, agent, code, g, offset, size, place):
    """An ordinary store where an mbarrier may stand."""
    start = place + m.facts[SHARED_BASE]
    for half in range(2):
        held = g[OBJECT_HERE + half]
        if held and offset < start + 8 * half + 8 and offset + size > start + 8 * half:
            here = m.objects[s, held - 1]
            tell(
                m,
                s,
                OBJECT_OVERWRITTEN,
                agent,
                code,
                here[INIT_AGENT],
                here[INIT_CODE],
                place + 8 * half,
                held - 1,
                here[PHASE],
            )


@apart
def reads_async(m, s, agent, code, address, size, quiet):
    """The asynchronous proxy reads ``size`` bytes for ``agent``: tell of writes that are not ordered before, or not
    made visible to it. With ``quiet`` stores are not looked at."""
    f = m.facts
    rank, first = granule_of(m, address)
    if rank < 0:
        return
    last = min(first + (((address & 15) + size - 1) >> GRANULE_BITS), f[GRANULES] - 1)
    clock, warps = m.clock[s, agent], PRODUCT_READ + f[GROUPS]
    for granule in range(first, last + 1):
        g = m.shared[s, rank, granule]
        if _unfilled(m, s, agent, g):
            place = _place(m, granule)
            _tell_unfilled(m, s, READ_UNFILLED, agent, code, g, place)
        if quiet:
            continue
        for warp in range(f[WARPS]):
            held = g[warps + f[WARPS] + warp]
            if held:
                _visible(m, s, agent, code, clock, rank * f[WARPS] + warp, held, _place(m, granule))
        if g[FAR_WRITE]:
            _visible(m, s, agent, code, clock, g[FAR_WRITE] - 1, g[FAR_WRITE + 1], _place(m, granule))


@inner
def _visible(m, s, agent, code, clock, writer, held, place):
    if held >> CODE_BITS > clock[writer] and writer != agent:
        tell(m, s, UNORDERED, agent, code, writer, code_in(held), place, np.int64(0), np.int64(0))
    elif held >> CODE_BITS > clock[m.facts[FENCED] + writer]:
        tell(m, s, UNFENCED, agent, code, writer, code_in(held), place, np.int64(0), np.int64(0))


@inner
def note_read(m, s, address, size, column, agent, number, code):
    """Note that the asynchronous work ``number`` of ``agent`` reads these bytes; ``column``: COPY_READ or
    TENSOR_READ."""
    rank, first = granule_of(m, address)
    if rank < 0:
        return
    last = min(first + (((address & 15) + size - 1) >> GRANULE_BITS), m.facts[GRANULES] - 1)
    for granule in range(first, last + 1):
        g, at = m.shared[s, rank, granule], np.int64(column)
        if g[at] and g[at] != agent + 1:  # else its last one, which is over no later
            at += READ_COLUMNS
        g[at], g[at + 1], g[at + 2] = agent + 1, number, code


@inner
def note_product(m, s, address, group, number, code):
    """Note that the product ``number`` of a warp group reads the granule at ``address``."""
    rank, granule = granule_of(m, address)
    if rank >= 0:
        m.shared[s, rank, granule, PRODUCT_READ + group] = np.int64(number) << CODE_BITS | np.int64(code)


@apart
def fills(m, s, agent, code, address, size, held, phase, alone):
    """A bulk copy of ``agent`` fills ``size`` bytes and tells phase ``phase`` of the mbarrier ``held``; ``alone``: no
    other copy may do so at the same time, as reductions may."""
    f = m.facts
    rank, first = granule_of(m, address)
    if rank < 0:
        return
    last = min(first + (((address & 15) + size - 1) >> GRANULE_BITS), f[GRANULES] - 1)
    clock, warps, none = m.clock[s, agent], PRODUCT_READ + f[GROUPS], np.int64(0)
    for granule in range(first, last + 1):
        g, place = m.shared[s, rank, granule], _place(m, granule)
        if alone and _unfilled(m, s, agent, g):
            tell(
                m, s, LOAD_OVER_LOAD, agent, code, g[LOAD_AGENT], g[LOAD_CODE], place, g[LOAD_OBJECT] - 1, g[LOAD_PHASE]
            )
        _busy(m, s, agent, g, rank, place, code)
        for warp in range(f[WARPS]):
            other = rank * f[WARPS] + warp
            for column, what in ((warps + warp, LOAD_OVER_READ), (warps + f[WARPS] + warp, LOAD_OVER_WRITE)):
                if g[column]:
                    if g[column] >> CODE_BITS > clock[other] and other != agent:
                        tell(m, s, what, agent, code, other, code_in(g[column]), place, none, none)
                    g[column] = 0
        for column, what in ((FAR_READ, LOAD_OVER_READ), (FAR_WRITE, LOAD_OVER_WRITE)):
            if g[column]:
                other = g[column] - 1
                if g[column + 1] >> CODE_BITS > clock[other] and other != agent:
                    tell(m, s, what, agent, code, other, code_in(g[column + 1]), place, none, none)
                g[column] = 0
        for column in range(COPY_READ, OBJECT_HERE):
            g[column] = 0
        for group in range(f[GROUPS]):
            g[PRODUCT_READ + group] = 0
        g[LOAD_OBJECT], g[LOAD_PHASE], g[LOAD_AGENT], g[LOAD_CODE] = held + 1, phase, agent, code
