"""Arithmetic of a fixed latency issues: it takes its pipe and its operands' ports.

Mental model: most instructions change nothing else of a unit, so that the way of :func:`gpusim.engine.issue.issue` is
cut short for them. An FMA pipe of two halves keeps a port a half.
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.compiled import inlined
from gpusim.model.register_file import PORTS, allocate
from gpusim.model.scheduler import FREE
from gpusim.model.sm_tables import HELD_FROM, HOLD
from gpusim.model.timing import WARPS_PER_SUB_CORE
from gpusim.model.write_back import write_beside


@inlined
def take_half(ports, sub, which, interval, now):
    """Keep halves of the FMA pipe: of one, the light one for FP32 if it is free, so that integers find the heavy
    one."""
    light, heavy = ports[sub, op.LITE_PORT, FREE], ports[sub, op.HEAVY_PORT, FREE]
    if which == op.BOTH_HALVES:
        light = heavy = now + interval
    elif which == op.HEAVY_HALF:
        heavy = now + interval
    elif light <= now:
        light = now + 2 * interval
    else:
        heavy = now + 2 * interval
    ports[sub, op.LITE_PORT, FREE], ports[sub, op.HEAVY_PORT, FREE] = light, heavy
    ports[sub, op.FMA_PORT, FREE] = max(now + 1, min(light, heavy))
    ports[sub, op.BOTH_PORT, FREE] = max(light, heavy)


@inlined
def take_part(ports, sub, takes, port, interval, now):
    """Keep what :data:`gpusim.model.program.TAKES` says beside or in place of the port: a half of the FMA pipe, the
    entrance of all arithmetic."""
    which = takes % op.ENTRANCE
    if which:
        take_half(ports, sub, which, interval, now)
    else:
        ports[sub, port, FREE] = now + interval
    if takes >= op.ENTRANCE:
        free = now + takes // op.ENTRANCE
        for other in op.ARITHMETIC_PORTS:
            ports[sub, other, FREE] = max(ports[sub, other, FREE], free)


@inlined
def read_operands(state, sub, warp, pc, now):
    """Book the instruction's operand reads; the sub-core is held where they take longer than others can wait."""
    subs, front = state.subs, state.front
    if front.operands[pc, PORTS]:
        place = warp - sub * state.timing[WARPS_PER_SUB_CORE]
        clear = allocate(front.registers, front.operands, sub, place, pc, now)
        if clear > now + 1:
            subs[sub, HOLD] = clear
            subs[sub, HELD_FROM] = now + 1


@inlined
def take_pipe(state, sub, pc, now):
    """What a PLAIN instruction takes of its sub-core's pipes."""
    program, ports = state.program, state.resident.ports
    if program[pc, op.TAKES]:
        take_part(ports, sub, program[pc, op.TAKES], program[pc, op.PORT], program[pc, op.INTERVAL], now)
    else:
        ports[sub, program[pc, op.PORT], FREE] = now + program[pc, op.INTERVAL]
    if program[pc, op.WRITE_TICKS]:
        write_beside(state.subs, sub, program[pc, op.WRITE_TICKS], now)
