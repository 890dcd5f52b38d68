"""Arithmetic of a fixed latency issues: it takes its pipe, its operands' ports, and its warp's next place.

Mental model: most instructions change nothing else, so that the way of :func:`gpusim.engine.issue.issue` is cut short for them. An FMA pipe of two halves keeps a port a half.
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.compiled import inlined
from gpusim.model.register_file import PORTS, allocate
from gpusim.model.residency import BRANCHED, ISSUED, LEFT, PC, STALL_END
from gpusim.model.scheduler import FREE, PORT, sleep
from gpusim.model.sm_tables import HELD_FROM, HOLD, LAST_WARP
from gpusim.model.timing import WARPS_PER_SUB_CORE
from gpusim.model.write_back import write_beside


@inlined
def take_half(ports, sub, which, interval, now):
    """Keep a half of the FMA pipe: the light one for FP32 if it is free, so that integers find the heavy one."""
    light = ports[sub, op.LITE_PORT, FREE]
    if which == op.HEAVY_HALF:
        ports[sub, op.HEAVY_PORT, FREE] = now + interval
    elif light <= now:
        light = now + 2 * interval
        ports[sub, op.LITE_PORT, FREE] = light
    else:
        ports[sub, op.HEAVY_PORT, FREE] = now + 2 * interval
    ports[sub, op.FMA_PORT, FREE] = max(now + 1, min(light, ports[sub, op.HEAVY_PORT, FREE]))


@inlined
def issue_plain(state, sub, warp, pc, now):
    """The rest of :func:`issue` for a PLAIN instruction that is not its run's last: whatever the warp waited for before lies behind ``now``, so that its next
    instruction can issue when the stall count has elapsed."""
    program, timing, subs, resident, front = state.program, state.timing, state.subs, state.resident, state.front
    warps, slots = resident.warps, resident.slots
    first = sub * timing[WARPS_PER_SUB_CORE]
    if program[pc, op.HALF_PIPE]:
        take_half(resident.ports, sub, program[pc, op.HALF_PIPE], program[pc, op.INTERVAL], now)
    else:
        resident.ports[sub, program[pc, op.PORT], FREE] = now + program[pc, op.INTERVAL]
    if program[pc, op.WRITE_TICKS]:
        write_beside(subs, sub, program[pc, op.WRITE_TICKS], now)
    if front.operands[pc, PORTS]:
        clear = allocate(front.registers, front.operands, sub, warp - first, pc, now)
        if clear > now + 1:
            subs[sub, HOLD] = clear
            subs[sub, HELD_FROM] = now + 1
    subs[sub, LAST_WARP] = -1 if program[pc, op.YIELD] else warp
    stall_end = now + program[pc, op.STALL]
    warps[warp, ISSUED] = now
    warps[warp, LEFT] -= 1
    warps[warp, PC] = pc + 1
    warps[warp, BRANCHED] = 0
    warps[warp, STALL_END] = stall_end
    slots[warp, PORT] = program[pc + 1, op.PORT]
    sleep(slots, resident.sets, sub, first, warp, stall_end)
