"""Constant caches of a sub-core: a line there costs nothing more, one that is not comes ``miss_cycles`` later.

Mental model: two small caches, since operands of fixed-latency instructions and constant loads use different ones
(Huerta et al., MICRO 2025, section 5.4): cache ``2 * sub`` for operands, looked up when the instruction could issue
otherwise, and ``2 * sub + 1`` for loads. A load whose place a register gives serves one address at a time.
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.coalescer import lane_addresses
from gpusim.model.compiled import inner
from gpusim.model.line_cache import arrival, install
from gpusim.model.messages import NEVER
from gpusim.model.residency import ACCESS, MASK
from gpusim.model.timing import CONSTANT_MISS
from gpusim.model.trace_tables import A_MASK, LANES

ALL_LANES = 0xFFFFFFFF
LINE_SHIFT = 6  # gpusim.gpus.consistency asks for 64 bytes a line


@inner
def line_ready(constants, cache, line, timing, now):
    """Cycle >= ``now`` from which the cache has the line."""
    there = arrival(constants, cache, line, now)
    if there == NEVER:
        there = now + timing[CONSTANT_MISS]
        install(constants, cache, line, there, now)
    return max(there, now)


@inner
def indexed_load(constants, program, tables, warps, timing, scratch, sub, warp, pc, now):
    """(addresses that a constant load serves one after another, cycles that it waits for missing lines).

    ``scratch`` int64[5, n]: the first row takes the lanes' addresses.
    """
    cache = 2 * sub + 1
    first = program[pc, op.LOADED_LINE]
    if program[pc, op.RECORDS] == 0:
        return 1, line_ready(constants, cache, first, timing, now) - now if first else 0
    access = warps[warp, ACCESS]
    mask = tables.accesses[access, A_MASK] & warps[warp, MASK]
    addresses = scratch[0]
    lane_addresses(tables.accesses, access, tables.scattered, ALL_LANES, addresses)
    count = 0
    ready = now
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        known = False
        for earlier in range(lane):
            if (mask >> earlier) & 1 and addresses[earlier] == addresses[lane]:
                known = True
                break
        if not known:
            count += 1
            ready = max(ready, line_ready(constants, cache, first + (addresses[lane] >> LINE_SHIFT), timing, now))
    return max(1, count), ready - now
