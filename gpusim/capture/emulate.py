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
from gpusim.capture.access import execute_memory
from gpusim.capture.families import execute_arithmetic
from gpusim.capture.flow import (
    arrive,
    complete_barrier,
    first_lane,
    leave_convergence,
    participants,
    pick,
    push,
    release_converged,
    release_warp_wait,
    retire,
    signed32,
)
from gpusim.capture.jit import compiled
from gpusim.capture.lane_bodies import execute_lanes
from gpusim.sass import system_ops as ops
from gpusim.sass.opcodes import INTEGER_BASE, LANES_BASE, MEMORY_BASE

#: Instructions after which a fragment gives way to another ready one of its warp, at a backward jump.
FRAGMENT_QUANTUM = 256


@compiled
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


@compiled
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


@compiled
def write_predicates(block, row, first, executing):
    """Write block.q to the destination predicates of the executing lanes."""
    for i in range(2):
        slot = first + row[at.Q0 + i]
        block.predicates[slot] = (block.predicates[slot] & ~executing) | (np.int64(block.q[i]) & executing)


@compiled
def log_run(log, warp, first, stop, mask):
    """Append the run of instructions ``first`` to ``stop - 1``."""
    if stop > first:
        n = log.used[at.USED_RUNS]
        log.used[at.USED_RUNS] = n + 1
        log.run_warp[n] = warp
        log.run_first[n] = first
        log.run_count[n] = stop - first
        log.run_mask[n] = np.uint32(mask)


@compiled
def room(log):
    """Whether one more instruction of any kind can be logged."""
    return (
        log.used[at.USED_RUNS] + 40 < log.run_warp.shape[0]
        and log.used[at.USED_ACCESSES] + 2 < log.access_warp.shape[0]
        and log.used[at.USED_SCATTERED] + 2 < log.scattered.shape[0]
    )


@compiled
def run_warp(code, block, log, warp, global_warp):
    """Run the ready fragments of ``warp`` until none is left or the warp has had its turn.

    Returns DONE (nothing of this warp can run now), PREEMPTED (its turn is over), or why it stopped.
    """
    matrix, registers, predicates = code.matrix, block.registers, block.predicates
    own_base = np.int64(code.shape[at.S_OWN_BASE]) + np.int64(warp) * code.shape[at.S_OWN_STRIDE]
    first = np.int64(warp) * at.PREDICATE_SLOTS
    x, y, z, w, q = block.x, block.y, block.z, block.w, block.q
    xf, yf, zf, wf = block.xf, block.yf, block.zf, block.wf
    executed = block.where[at.W_EXECUTED]
    turn_end = executed + code.shape[at.S_QUANTUM]
    size = matrix.shape[0]

    chosen = pick(block, warp)
    if chosen < 0:
        return at.DONE
    pc, mask = np.int64(block.pc[warp, chosen]), block.mask[warp, chosen]
    run_start = pc
    fragment_end = executed + FRAGMENT_QUANTUM

    while True:
        if pc >= size:
            block.where[at.W_EXECUTED] = executed
            block.fault[at.FAULT_INDEX] = pc - 1
            block.fault[at.FAULT_WARP] = warp
            return at.BAD_TARGET
        row = matrix[pc]
        op = row[at.OP]
        executing = mask & (predicates[first + row[at.GUARD]] ^ np.int64(row[at.GUARD_FLIP]))

        # ---- arithmetic and lane-crossing ----------------------------------------------------
        if op >= LANES_BASE:
            executed += 1
            if row[at.SCOPE] == at.UNIFORM and executing != 0:
                executing = np.int64(at.FULL)
            if executing != 0:
                read_source(registers, row, at.A, own_base, x)
                read_source(registers, row, at.B, own_base, y)
                read_source(registers, row, at.C, own_base, z)
                in0 = (predicates[first + row[at.P0]] ^ np.int64(row[at.P0_FLIP])) & at.FULL
                if op >= INTEGER_BASE:
                    in1 = (predicates[first + row[at.P1]] ^ np.int64(row[at.P1_FLIP])) & at.FULL
                    in2 = (predicates[first + row[at.P2]] ^ np.int64(row[at.P2_FLIP])) & at.FULL
                    q[0] = np.uint32(in2)
                    execute_arithmetic(
                        op,
                        row[at.F0],
                        row[at.F1],
                        row[at.F2],
                        row[at.F3],
                        np.uint32(in0),
                        np.uint32(in1),
                        x,
                        y,
                        z,
                        w,
                        xf,
                        yf,
                        zf,
                        wf,
                        q,
                    )
                else:
                    block.where[at.W_EXECUTED] = executed
                    execute_lanes(code, block, warp, op, row[at.F0], row[at.F1], in0, executing, mask)
                    if row[at.SCOPE] == at.WARP_WIDE:
                        executing = np.int64(at.FULL)
                write_back(registers, row, own_base, w, executing)
                if row[at.PREDICATES_OUT]:
                    write_predicates(block, row, first, executing)
            pc += 1
            continue

        # ---- memory ----------------------------------------------------------------------------
        if op >= MEMORY_BASE:
            if not room(log):
                log_run(log, global_warp, run_start, pc, mask)
                push(block, warp, pc, mask, at.READY, 0)
                block.where[at.W_EXECUTED] = executed
                return at.LOG_FULL
            executed += 1
            if row[at.SCOPE] == at.UNIFORM and executing != 0:
                executing = np.int64(at.FULL)
            read_source(registers, row, at.A, own_base, x)
            read_source(registers, row, at.B, own_base, y)
            status = execute_memory(code, block, log, pc, warp, own_base, global_warp, executing)
            if status != at.DONE:
                block.where[at.W_EXECUTED] = executed
                return status
            if row[at.D_WORDS] and executing != 0:
                write_back(registers, row, own_base, w, executing)
            pc += 1
            continue

        # ---- control flow ----------------------------------------------------------------------
        executed += 1
        if op == ops.NOP:
            pc += 1
            continue
        read_source(registers, row, at.A, own_base, x)
        resume = True  # the fragment goes on at pc with mask
        if op == ops.BRANCH or op == ops.BRANCH_DIVERGENT:
            taken = executing & predicates_in(predicates, first, row)
            if op == ops.BRANCH_DIVERGENT:
                required = np.int64(x[0, first_lane(mask) & 31]) & block.live[warp]
                taken = executing if required & ~mask else np.int64(0)
            if taken == 0:
                pc += 1
                continue
            target = np.int64(row[at.TARGET])
            log_run(log, global_warp, run_start, pc + 1, mask)
            if taken != mask:
                # The lanes that fall through go on first; the others wait for their turn.
                push(block, warp, target, taken, at.READY, 0)
                mask &= ~taken
                pc += 1
            else:
                pc = target
            run_start = pc
            if target < 0:
                block.where[at.W_EXECUTED] = executed
                return bad_target(block, warp, row, np.int64(-1), np.int64(row[at.TARGET]))
        elif op == ops.BRANCH_INDEXED:
            if executing == 0:
                pc += 1
                continue
            log_run(log, global_warp, run_start, pc + 1, mask)
            stay = mask & ~executing
            if stay:
                push(block, warp, pc + 1, stay, at.READY, 0)
            status = at.DONE
            while executing:
                low = first_lane(executing)
                address = (np.int64(x[0, low]) & at.FULL) | (np.int64(x[1, low]) << 32)
                same = np.int64(0)
                for lane in range(at.LANES):
                    if (executing >> lane) & 1 and x[0, lane] == x[0, low] and x[1, lane] == x[1, low]:
                        same |= np.int64(1) << lane
                executing &= ~same
                goal = address + np.int64(row[at.TARGET])
                slot = goal >> 4
                found = np.int64(-1)
                if goal >= 0 and goal & 15 == 0 and slot < code.index_of.shape[0]:
                    found = np.int64(code.index_of[slot])
                if found < 0:
                    block.fault[at.FAULT_INDEX], block.fault[at.FAULT_WARP] = pc, warp
                    block.fault[at.FAULT_LANE], block.fault[at.FAULT_ADDRESS] = low, goal
                    block.where[at.W_EXECUTED] = executed
                    return at.BAD_TARGET
                if executing == 0 and not stay:
                    pc, mask = found, same
                else:
                    push(block, warp, found, same, at.READY, 0)
                    if executing == 0:
                        resume = False
            run_start = pc
        elif op == ops.EXIT:
            leaving = executing & predicates_in(predicates, first, row)
            if leaving == 0:
                pc += 1
                continue
            log_run(log, global_warp, run_start, pc + 1, mask)
            mask &= ~leaving
            pc += 1
            run_start = pc
            retire(code, block, warp, own_base, leaving)
            resume = mask != 0
        elif op == ops.CONVERGE_SET:
            start = own_base + row[at.CONVERGENCE]
            value = signed32(mask)
            for lane in range(at.LANES):
                if (mask >> lane) & 1:
                    registers[start + lane] = value
            pc += 1
            continue
        elif op == ops.CONVERGE_WAIT:
            if executing == 0:
                pc += 1
                continue
            wanted = participants(block, own_base, np.int64(row[at.CONVERGENCE]), executing) & block.live[warp]
            if executing == mask and wanted & ~mask == 0:
                pc += 1
                continue
            log_run(log, global_warp, run_start, pc + 1, mask)
            if executing != mask:
                push(block, warp, pc + 1, mask & ~executing, at.READY, 0)
            push(block, warp, pc, executing, at.AT_CONVERGENCE, np.int64(row[at.CONVERGENCE]))
            release_converged(block, warp, own_base)
            resume = False
        elif op == ops.CONVERGE_LEAVE:
            leaving = executing & predicates_in(predicates, first, row)
            if leaving:
                leave_convergence(block, warp, own_base, np.int64(row[at.CONVERGENCE]), leaving)
            pc += 1
            continue
        elif op == ops.CONVERGE_READ:
            start = own_base + row[at.CONVERGENCE]
            for lane in range(at.LANES):
                w[0, lane] = registers[start + lane]
                if row[at.F0] and (executing >> lane) & 1:
                    registers[start + lane] = 0
            write_back(registers, row, own_base, w, executing)
            pc += 1
            continue
        elif op == ops.CONVERGE_WRITE:
            start = own_base + row[at.CONVERGENCE]
            for lane in range(at.LANES):
                if (executing >> lane) & 1:
                    registers[start + lane] = x[0, lane]
            pc += 1
            continue
        elif op == ops.WARP_WAIT:
            if executing == 0:
                pc += 1
                continue
            wanted = np.int64(x[0, first_lane(executing)]) & at.FULL
            if executing == mask and wanted & block.live[warp] & ~mask == 0:
                pc += 1
                continue
            log_run(log, global_warp, run_start, pc + 1, mask)
            if executing != mask:
                push(block, warp, pc + 1, mask & ~executing, at.READY, 0)
            push(block, warp, pc, executing, at.AT_WARP_WAIT, wanted)
            release_warp_wait(block, warp)
            resume = False
        elif op == ops.BARRIER_WAIT or op == ops.BARRIER_ARRIVE:
            if executing == 0:
                pc += 1
                continue
            read_source(registers, row, at.B, own_base, y)
            low = first_lane(executing)
            barrier = np.int64(x[0, low]) & 15
            threads = np.int64(y[0, low]) if row[at.F0] else np.int64(0)
            vote = predicates_in(predicates, first, row)
            arrive(code, block, warp, executing, barrier, threads, row[at.F1], vote)
            if op == ops.BARRIER_ARRIVE:
                complete_barrier(code, block, barrier)
                pc += 1
                continue
            log_run(log, global_warp, run_start, pc + 1, mask)
            if executing != mask:
                push(block, warp, pc + 1, mask & ~executing, at.READY, 0)
            push(block, warp, pc, executing, at.AT_BARRIER, barrier)
            complete_barrier(code, block, barrier)
            resume = False
        elif op == ops.GIVE_WAY:
            pc += 1
            if executing == 0 or block.ready[warp] == 0:
                continue
            log_run(log, global_warp, run_start, pc, mask)
            push(block, warp, pc, mask, at.READY, 0)
            resume = False
        else:
            if executing == 0:
                pc += 1
                continue
            block.fault[at.FAULT_INDEX], block.fault[at.FAULT_WARP] = pc, warp
            block.fault[at.FAULT_LANE] = first_lane(executing)
            block.fault[at.FAULT_ADDRESS] = row[at.F0]
            block.where[at.W_EXECUTED] = executed
            return at.EXTERNAL_CALL if op == ops.EXTERNAL else at.TRAPPED

        # ---- control flow has turned: limits, other fragments, other warps -----------------------
        if resume:
            if executed < turn_end and (executed < fragment_end or block.ready[warp] == 0) and room(log):
                continue
            push(block, warp, pc, mask, at.READY, 0)
        block.where[at.W_EXECUTED] = executed
        if executed >= code.shape[at.S_LIMIT]:
            return at.LIMIT
        if not room(log):
            return at.LOG_FULL
        if executed >= turn_end:
            return at.PREEMPTED
        chosen = pick(block, warp)
        if chosen < 0:
            return at.DONE
        pc, mask = np.int64(block.pc[warp, chosen]), block.mask[warp, chosen]
        run_start = pc
        fragment_end = executed + FRAGMENT_QUANTUM


@compiled
def predicates_in(predicates, first, row):
    """Lane mask of an instruction's first predicate input."""
    return (predicates[first + row[at.P0]] ^ np.int64(row[at.P0_FLIP])) & at.FULL


@compiled
def bad_target(block, warp, row, lane, goal):
    """Note a direct branch to a place that holds no instruction."""
    block.fault[at.FAULT_WARP], block.fault[at.FAULT_LANE], block.fault[at.FAULT_ADDRESS] = warp, lane, goal
    return at.BAD_TARGET


@compiled
def start_block(code, block, linear):
    """Load block number ``linear`` into ``block``: cleared registers, all warps ready at instruction 0."""
    shape, where = code.shape, block.where
    where[at.W_LINEAR] = linear
    where[at.W_X] = linear % shape[at.S_GRID_X]
    where[at.W_Y] = (linear // shape[at.S_GRID_X]) % shape[at.S_GRID_Y]
    where[at.W_Z] = linear // (shape[at.S_GRID_X] * shape[at.S_GRID_Y])
    where[at.W_STARTED] = 1
    where[at.W_NEXT_WARP] = 0
    where[at.W_AT_BARRIER] = 0
    warps = shape[at.S_WARPS]
    own = np.uint64(shape[at.S_OWN_BASE])
    for i in range(own, np.uint64(block.registers.shape[0])):
        block.registers[i] = 0
    for warp in range(warps):
        first = warp * at.PREDICATE_SLOTS
        for i in range(at.PREDICATE_SLOTS):
            block.predicates[first + i] = 0
        block.predicates[first + at.TRUE_PREDICATE] = at.FULL
        block.predicates[first + at.TRUE_UNIFORM_PREDICATE] = at.FULL
        for f in range(at.LANES):
            block.state[warp, f] = at.FREE
        block.live[warp] = code.live[warp]
        block.pc[warp, 0] = 0
        block.mask[warp, 0] = code.live[warp]
        block.state[warp, 0] = at.READY
        block.stamp[warp, 0] = 0
        block.ready[warp] = 1
        block.result[warp] = 0
    for barrier in range(at.BLOCK_BARRIERS):
        for warp in range(warps):
            block.arrived[barrier, warp] = 0
            block.vote[barrier, warp] = 0
    for i in range(block.shared.shape[0]):
        block.shared[i] = 0
    for i in range(block.local.shape[0]):
        block.local[i] = 0


@compiled
def run_block(code, block, log, first_block):
    """Run the block in ``block`` until it ends or stops; its turn starts with warp W_NEXT_WARP.

    Returns DONE when the block has ended, PREEMPTED when its slice of instructions is used up, DEADLOCK
    when warps are left and none can run, or the reason why one stopped.
    """
    warps, where = code.shape[at.S_WARPS], block.where
    chunk_warp = (where[at.W_LINEAR] - first_block) * warps
    slice_end = where[at.W_EXECUTED] + code.shape[at.S_SLICE]
    idle = np.int64(0)
    while True:
        warp = where[at.W_NEXT_WARP]
        if block.ready[warp] > 0:
            idle = np.int64(0)
            status = run_warp(code, block, log, warp, chunk_warp + warp)
            if status != at.DONE and status != at.PREEMPTED:
                return status
            if where[at.W_EXECUTED] >= slice_end:
                where[at.W_NEXT_WARP] = (warp + 1) % warps
                return at.PREEMPTED
        else:
            idle += 1
            if idle > warps:
                break
        where[at.W_NEXT_WARP] = (warp + 1) % warps
    for warp in range(warps):
        if block.live[warp]:
            return at.DEADLOCK
    where[at.W_STARTED] = 0
    return at.DONE


@compiled
def run_blocks(code, block, log, first_block, next_block, end_block):
    """Run blocks ``next_block`` to ``end_block - 1`` one after another in the one ``block`` state.

    Returns (status, the block to go on with). LOG_FULL and PREEMPTED leave a started block behind: call
    again with the returned number to go on.
    """
    linear = next_block
    while linear < end_block:
        if not block.where[at.W_STARTED]:
            start_block(code, block, linear)
        status = run_block(code, block, log, first_block)
        if status != at.DONE:
            return status, linear
        linear += 1
    return at.DONE, linear
