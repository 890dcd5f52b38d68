"""The interpreter: decoded SASS in, registers, memory and a log of what each warp did out.

Mental model: a loop over the instructions of one warp fragment. Every step fetches a row of the code
matrix, makes the execution mask from the fragment's mask and the guard, and then either copies sources to
scratch, runs a body and writes back under the mask (arithmetic and lane-crossing), moves memory, or decides
where the fragment goes next. Straight-line code touches no bookkeeping: runs are logged, limits and other
fragments looked at only where control flow turns.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.access import execute_memory, load_constant
from gpusim.capture.access_matrix import execute_matrix_access
from gpusim.capture.families import call_family
from gpusim.capture.flow import pick, push, release_crossed_waits, signed32
from gpusim.capture.jit import compiled, inner
from gpusim.capture.lane_bodies import execute_lanes
from gpusim.capture.turns import JUMPED, STOPPED, STRAIGHT, log_run, turn
from gpusim.sass import system_ops as ops
from gpusim.sass.opcodes import DOUBLE_BASE, FLOAT_BASE, HALF_BASE, INTEGER_BASE, LANES_BASE, MEMORY_BASE, TENSOR_BASE

#: Instructions after which a fragment gives way to another ready one of its warp, at a jump.
FRAGMENT_QUANTUM = 256


@inner
def read_source(registers, row, column, own_base, scratch):
    """Copy one source operand to ``scratch`` int32[4, 32], with its sign changes."""
    words = row[column + at.SOURCE_WORDS]
    if words == 0:
        return
    start = np.uint64(row[column + at.SOURCE_OFFSET] + (row[column + at.SOURCE_OWN] & own_base))
    mode = row[column + at.SOURCE_MODE]
    for word in range(words - 1):
        begin = start + np.uint64(word * at.LANES)
        for lane in range(np.uint64(at.LANES)):
            scratch[word, lane] = registers[begin + lane]
    last = words - 1
    start = start + np.uint64(last * at.LANES)
    if mode == at.MODE_PLAIN:
        for lane in range(np.uint64(at.LANES)):
            scratch[last, lane] = registers[start + lane]
        return
    keep, flip = row[column + at.SOURCE_KEEP], row[column + at.SOURCE_FLIP]
    for lane in range(np.uint64(at.LANES)):
        scratch[last, lane] = (registers[start + lane] & keep) ^ flip
    if mode == at.MODE_NEGATE:
        if words == 1:
            for lane in range(at.LANES):
                scratch[0, lane] = signed32(-np.int64(scratch[0, lane]))
        else:
            for lane in range(at.LANES):
                low = np.int64(scratch[0, lane]) & at.FULL
                scratch[1, lane] = signed32(-np.int64(scratch[1, lane]) - (1 if low else 0))
                scratch[0, lane] = signed32(-low)


@inner
def write_back(registers, row, own_base, scratch, executing):
    """Copy ``scratch`` to the destination registers of the executing lanes."""
    start = np.uint64(row[at.D_OFFSET] + (row[at.D_OWN] & own_base))
    words = row[at.D_WORDS]
    if executing == at.FULL:
        for word in range(words):
            begin = start + np.uint64(word * at.LANES)
            for lane in range(np.uint64(at.LANES)):
                registers[begin + lane] = scratch[word, lane]
        return
    for word in range(words):
        begin = start + np.uint64(word * at.LANES)
        for lane in range(np.uint64(at.LANES)):
            if (executing >> np.int64(lane)) & 1:
                registers[begin + lane] = scratch[word, lane]


@inner
def write_predicates(state, row, first, executing):
    """Write state.q to the destination predicates of the executing lanes."""
    for i in range(2):
        slot = first + row[at.Q0 + i]
        state.predicates[slot] = (state.predicates[slot] & ~executing) | (np.int64(state.q[i]) & executing)


@inner
def predicate(state, row, first, column):
    """Lane mask of a predicate operand."""
    return (state.predicates[first + row[column]] ^ np.int64(row[column + 1])) & at.FULL


@inner
def room(state, runs, accesses, scattered):
    """Whether one more instruction of any kind can be logged."""
    return (
        state.used[at.RUNS] + 2 < runs.shape[0]
        and state.used[at.ACCESSES] + 2 < accesses.shape[0]
        and state.used[at.SCATTERED_ROWS] + 2 < scattered.shape[0]
    )


@inner
def start_block(state, registers, linear):
    """Load block number ``linear``: cleared registers, all warps ready at instruction 0."""
    state.linear = linear
    state.block_index[0] = linear % state.grid_dim[0]
    state.block_index[1] = (linear // state.grid_dim[0]) % state.grid_dim[1]
    state.block_index[2] = linear // (state.grid_dim[0] * state.grid_dim[1])
    state.started = 1
    state.next_warp = 0
    state.at_barrier = 0
    for i in range(np.uint64(state.own_base), np.uint64(registers.shape[0])):
        registers[i] = 0
    for warp in range(state.warps):
        first = warp * at.PREDICATE_SLOTS
        for i in range(at.PREDICATE_SLOTS):
            state.predicates[first + i] = 0
        state.predicates[first + at.TRUE_PREDICATE] = at.FULL
        state.predicates[first + at.TRUE_UNIFORM_PREDICATE] = at.FULL
        for f in range(at.LANES):
            state.fragment[warp, f] = at.FREE
        state.live[warp] = state.exists[warp]
        state.pc[warp, 0] = 0
        state.mask[warp, 0] = state.exists[warp]
        state.fragment[warp, 0] = at.READY
        state.stamp[warp, 0] = 0
        state.ready[warp] = 1
        state.result[warp] = 0
    for barrier in range(at.BLOCK_BARRIERS):
        for warp in range(state.warps):
            state.arrived[barrier, warp] = 0
            state.vote[barrier, warp] = 0


@inner
def run_warp(state, machine, warp, global_warp):
    """Run the ready fragments of ``warp`` until none is left or the warp has had its turn.

    Returns DONE (nothing of this warp can run now), PREEMPTED (its turn is over), or why it stopped.
    """
    matrix, registers, index_of, allocations, hint, constants, runs, accesses, scattered = machine
    own_base = state.own_base + warp * state.own_stride
    first = warp * at.PREDICATE_SLOTS
    predicates = state.predicates
    x, y, z, w = state.x, state.y, state.z, state.w
    executed = state.executed
    turn_end = executed + state.quantum
    size = matrix.shape[0]

    chosen = pick(state, warp)
    if chosen < 0:
        return np.int64(at.DONE)
    pc, mask = np.int64(state.pc[warp, chosen]), state.mask[warp, chosen]
    run_start = pc
    fragment_end = executed + FRAGMENT_QUANTUM

    while True:
        if pc >= size:
            state.executed = executed
            state.fault_index, state.fault_warp = pc - 1, warp
            return np.int64(at.BAD_TARGET)
        row = matrix[pc]
        op = row[at.OP]
        executing = mask & (predicates[first + row[at.GUARD]] ^ np.int64(row[at.GUARD_FLIP]))
        executed += 1

        # ---- arithmetic and lane-crossing ----------------------------------------------------
        if op >= LANES_BASE:
            if executing != 0:
                if row[at.SCOPE] == at.UNIFORM:
                    executing = np.int64(at.FULL)
                read_source(registers, row, at.A, own_base, x)
                read_source(registers, row, at.B, own_base, y)
                read_source(registers, row, at.C, own_base, z)
                in0 = predicate(state, row, first, at.P0)
                if op >= INTEGER_BASE:
                    in1 = predicate(state, row, first, at.P1)
                    state.q[0] = np.uint32(predicate(state, row, first, at.P2))
                    if op < FLOAT_BASE:
                        family = state.family[0]
                    elif op < DOUBLE_BASE:
                        family = state.family[1]
                    elif op < HALF_BASE:
                        family = state.family[2]
                    elif op < TENSOR_BASE:
                        family = state.family[3]
                    else:
                        family = state.family[4]
                    call_family(
                        family,
                        op,
                        row[at.F0],
                        row[at.F1],
                        row[at.F2],
                        row[at.F3],
                        np.uint32(in0),
                        np.uint32(in1),
                        state.scratch_host,
                    )
                else:
                    state.executed = executed
                    execute_lanes(state, warp, op, row[at.F0], row[at.F1], in0, executing, mask)
                    if row[at.SCOPE] == at.WARP_WIDE:
                        executing = np.int64(at.FULL)
                write_back(registers, row, own_base, w, executing)
                if row[at.PREDICATES_OUT]:
                    write_predicates(state, row, first, executing)
            pc += 1
            continue

        # ---- memory ----------------------------------------------------------------------------
        if op >= MEMORY_BASE:
            if not room(state, runs, accesses, scattered):
                log_run(state, runs, global_warp, run_start, pc, mask)
                push(state, warp, pc, mask, at.READY, np.int64(0))
                state.executed = executed - 1
                return np.int64(at.LOG_FULL)
            if op == ops.CONSTANT_LOAD:
                if row[at.SCOPE] == at.UNIFORM and executing != 0:
                    executing = np.int64(at.FULL)
                status = load_constant(state, matrix, registers, constants, pc, warp, own_base, executing)
            else:
                read_source(registers, row, at.A, own_base, x)
                read_source(registers, row, at.B, own_base, y)
                if op >= ops.MATRIX_LOAD:
                    status = execute_matrix_access(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, own_base,
                        global_warp, executing,
                    )  # fmt: skip
                else:
                    status = execute_memory(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, own_base,
                        global_warp, executing,
                    )  # fmt: skip
            if status != at.DONE:
                state.executed = executed
                return status
            if executing != 0:
                write_back(registers, row, own_base, w, executing)
                if row[at.PREDICATES_OUT]:
                    write_predicates(state, row, first, executing)
            pc += 1
            continue

        # ---- control flow ----------------------------------------------------------------------
        if op == ops.NOP:
            pc += 1
            continue
        read_source(registers, row, at.A, own_base, x)
        read_source(registers, row, at.B, own_base, y)
        condition = predicate(state, row, first, at.P0)
        state.executed = executed
        outcome, pc, mask = turn(
            state, registers, row, index_of, runs, warp, global_warp, own_base, run_start, pc, mask, executing, condition
        )
        if outcome == STRAIGHT:
            continue
        if outcome == STOPPED:
            return pc
        if outcome == JUMPED:
            run_start = pc
            more = executed < turn_end and (executed < fragment_end or state.ready[warp] == 0)
            if more and room(state, runs, accesses, scattered):
                continue
            push(state, warp, pc, mask, at.READY, np.int64(0))
        if executed >= state.limit:
            return np.int64(at.LIMIT)
        if not room(state, runs, accesses, scattered):
            return np.int64(at.LOG_FULL)
        if executed >= turn_end:
            return np.int64(at.PREEMPTED)
        chosen = pick(state, warp)
        if chosen < 0:
            return np.int64(at.DONE)
        pc, mask = np.int64(state.pc[warp, chosen]), state.mask[warp, chosen]
        run_start = pc
        fragment_end = executed + FRAGMENT_QUANTUM


@inner
def outcome_of(state):
    """What a block is whose warps cannot run: DONE, GRID_WAIT or DEADLOCK."""
    stuck = False
    for warp in range(state.warps):
        if state.live[warp]:
            stuck = True
            for f in range(at.LANES):
                if state.fragment[warp, f] == at.AT_GRID:
                    return np.int64(at.GRID_WAIT)
    return np.int64(at.DEADLOCK) if stuck else np.int64(at.DONE)


@inner
def filled(state, machine):
    """Whether the log is so full that it had better be emptied between two blocks."""
    return (
        4 * state.used[at.RUNS] > 3 * machine.runs.shape[0]
        or 4 * state.used[at.ACCESSES] > 3 * machine.accesses.shape[0]
        or 4 * state.used[at.SCATTERED_ROWS] > 3 * machine.scattered.shape[0]
    )


@compiled
def run_blocks(states, slot, machine, first_block, next_block, end_block):
    """Run blocks ``next_block`` to ``end_block - 1`` one after another in ``states[slot]``.

    Warps of a block run in turn until none can go on. Returns (status, the block to go on with): DONE, or
    PREEMPTED when a block's slice of instructions is used up, GRID_WAIT when it waits for other blocks (both
    leave a started block behind: call again with the returned number), LOG_FULL (with a started block or
    between two), DEADLOCK when warps are left and none can run, or the reason why one stopped.
    """
    state = states[slot]
    warps = state.warps
    linear = next_block
    while linear < end_block:
        if not state.started:
            start_block(state, machine.registers, linear)
            state.slice_end = 0
        chunk_warp = (linear - first_block) * warps
        if state.slice_end == 0:
            state.slice_end = state.executed + state.slice
        elif state.executed >= state.slice_end:  # the log was full before the end of the turn was seen
            state.slice_end = 0
            return np.int64(at.PREEMPTED), linear
        idle = np.int64(0)
        while idle <= warps:
            warp = state.next_warp
            if state.ready[warp] > 0:
                idle = np.int64(0)
                status = run_warp(state, machine, warp, chunk_warp + warp)
                if status != at.DONE and status != at.PREEMPTED:
                    return status, linear
            else:
                idle += 1
            state.next_warp = warp + 1 if warp + 1 < warps else 0
            if state.executed >= state.slice_end and state.ready[warp] > 0:
                state.slice_end = 0
                return np.int64(at.PREEMPTED), linear
        status = outcome_of(state)
        if status == at.DEADLOCK and release_crossed_waits(state):
            continue
        if status != at.DONE:
            state.slice_end = 0
            return status, linear
        state.started = 0
        linear += 1
        if linear < end_block and filled(state, machine):
            return np.int64(at.LOG_FULL), linear
    return np.int64(at.DONE), linear
