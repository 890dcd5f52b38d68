"""A warp that has issued comes to the next instruction of its run: its code and its constant are asked for, and when it
can issue is worked out.

Mental model: behind most instructions nothing of what a warp may wait for has changed: what it waited for before lies
in the past. Then the stall count, fetch and what the next instruction waits for itself decide (STEP). At the end of a
run, behind fences, branches, barriers, sleeps and looks at the clock all is asked (:func:`gpusim.engine.issue.issue`).
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.compiled import inlined, inner
from gpusim.model.constants import line_ready
from gpusim.model.fetch import fetch
from gpusim.model.residency import (
    BRANCHED,
    CONSTANT_READY,
    FETCHED,
    LEFT,
    LINE_READY,
    PC,
    STALL_END,
    WAIT_REASON,
    earliest_issue,
)
from gpusim.model.scheduler import PORT, sleep
from gpusim.model.stall_reasons import NO_INSTRUCTION
from gpusim.model.timing import DECODE_CYCLES, WARPS_PER_SUB_CORE


@inner
def read_constant(program, warps, constants, timing, sub, warp, pc, cycle):
    """Look the constant operand of the warp's next instruction up, which may issue in ``cycle`` for all else."""
    line = program[pc, op.CONSTANT_LINE]
    if line:
        ready = line_ready(constants, 2 * sub, line, timing, cycle)
        if ready > cycle:
            warps[warp, CONSTANT_READY] = ready


@inner
def ask_for_code(warps, code, sms, timing, sm, sub, warp, wanted, now):
    """The warp's instruction asks for the line of code that its FETCH, ``wanted``, names, and is followed by that
    line's first one if it says so."""
    if wanted > 1:
        there = fetch(code, sms, timing, sm, sub, (wanted >> 1) - 1, now)
        warps[warp, LINE_READY] = there + timing[DECODE_CYCLES]
    if wanted & 1:
        warps[warp, FETCHED] = warps[warp, LINE_READY]


@inlined
def step(state, sm, sub, warp, pc, now):
    """The rest of :func:`issue` for an instruction with a STEP that is not its run's last, of a warp that neither polls
    nor has a fence behind it."""
    program, timing, resident, front = state.program, state.timing, state.resident, state.front
    warps = resident.warps
    ready = now + program[pc, op.STALL]
    warps[warp, LEFT] -= 1
    warps[warp, PC] = pc + 1
    warps[warp, BRANCHED] = 0
    warps[warp, STALL_END] = ready
    resident.slots[warp, PORT] = program[pc + 1, op.PORT]
    if program[pc, op.STEP] & op.ASKS_CODE:
        ask_for_code(warps, front.code, state.sms, timing, sm, sub, warp, program[pc, op.FETCH], now)
        if warps[warp, FETCHED] > ready:
            ready = warps[warp, FETCHED]
            warps[warp, WAIT_REASON] = NO_INSTRUCTION
    if program[pc, op.STEP] & op.ASKS_NEXT:
        if program[pc + 1, op.CONSTANT_LINE]:
            read_constant(program, warps, front.constants, timing, sub, warp, pc + 1, ready)
        ready = earliest_issue(warps, resident.board, program, warp)
    sleep(resident.ready, resident.sets, sub, sub * timing[WARPS_PER_SUB_CORE], warp, ready)
