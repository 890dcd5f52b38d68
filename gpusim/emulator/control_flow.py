"""Control-flow instructions: where a fragment of a warp goes next.

Mental model: :func:`execute_control_flow` executes one control-flow instruction for the fragment (pc, mask) and answers
with what becomes of it: it FALLS_THROUGH to the next instruction, it has JUMPED (its run so far is logged), or it is
GONE (it waits, or has ended, and the interpreter must pick another one). Other fragments that arise go into the warp's
table.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.convergence import (
    AGAIN,
    all_participants,
    arrive,
    complete_barrier,
    leave_convergence,
    log_sync,
    push,
    ready_lanes,
    release_registers,
    release_warp_wait,
    release_without,
    retire,
    spins,
    wait_converged,
)
from gpusim.emulator.events import note
from gpusim.isa import event_table as table
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.isa.lane_masks import count_lanes, first_lane, first_predicate, signed32
from gpusim.trace.layout import BARRIER_ADDRESS, BARRIER_THREADS_SHIFT, MAX_SLEEP_NS, SLEEP_ADDRESS

FALLS_THROUGH, JUMPED, GONE, STOPPED = range(4)
#: Where a driver function leaves its result, see :mod:`gpusim.isa.binary.externals`.
RESULT_REGISTER = 4
#: What ``vprintf`` answers once its buffer is full: "an internal error occurred" (CUDA C++ Programming Guide,
#: "Formatted Output", which does not say what a full buffer gives).
DROPPED = -2


@inner
def log_run(state, runs, warp, first, stop, mask):
    """Append the run of instructions ``first`` to ``stop - 1``."""
    if stop > first:
        n = state.used[at.RUNS]
        state.used[at.RUNS] = n + 1
        runs[n, at.RUN_WARP] = warp
        runs[n, at.RUN_FIRST] = first
        runs[n, at.RUN_COUNT] = stop - first
        runs[n, at.RUN_MASK] = mask


@inner
def log_sleep(state, accesses, registers, warp, global_warp, x, mask, executing):
    """Record for how many ns the warp's lanes ``executing`` sleep, whose registers begin at ``x``: the longest."""
    asked = np.int64(0)
    for lane in range(at.LANES):
        if (executing >> lane) & 1:
            asked = max(asked, np.int64(registers[x + lane]) & np.int64(0xFFFFFFFF))
    asked = min(asked, np.int64(MAX_SLEEP_NS))
    if state.poll_sleep[warp] == 0:
        state.poll_sleep[warp] = SLEEP_ADDRESS + asked
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    accesses[n, at.ACCESS_WARP] = global_warp
    accesses[n, at.ACCESS_ADDRESS] = SLEEP_ADDRESS + asked
    accesses[n, at.ACCESS_PATTERN] = mask


@inner
def _barrier_operands(row, registers, x, y, executing):
    """(number as it stands in the instruction, threads that meet or 0 for all) of a barrier of the block."""
    low = first_lane(executing)
    number = np.int64(registers[x + low])
    threads = np.int64(registers[y + low]) if row[at.F0] else np.int64(0)
    if row[at.F0] == ops.COUNT_PACKED:
        number, threads = number & 0xFFFF, (threads >> 16) & 0xFFFF
    return number, threads


@inner
def log_barrier(state, accesses, row, registers, global_warp, x, y, executing):
    """Record at which barrier the warp's lanes ``executing`` arrive, if any, and how many threads meet there."""
    number = threads = np.int64(0)
    if executing:
        number, threads = _barrier_operands(row, registers, x, y, executing)
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    accesses[n, at.ACCESS_WARP] = global_warp
    accesses[n, at.ACCESS_ADDRESS] = BARRIER_ADDRESS + (number & 15 | threads << BARRIER_THREADS_SHIFT)
    accesses[n, at.ACCESS_PATTERN] = executing


@inner
def stop(state, warp, pc, lane, address):
    """Note an instruction that ends the emulation."""
    state.fault_warp, state.fault_index, state.fault_lane, state.fault_address = warp, pc, lane, address


@inner
def execute_control_flow(
    state, registers, row, index_of, pointers, runs, syncs, warp, global_warp, own_base, x, y, run_start, pc, mask,
    executing, condition,
):  # fmt: skip
    """Execute the control-flow instruction ``row`` at ``pc`` for the fragment ``mask``.

    ``executing``: lanes of the fragment whose guard holds; ``condition``: lanes where its predicate operand
    holds; ``x`` and ``y``: where the warp's lanes of the sources begin among the registers. Returns (FALLS_THROUGH |
    JUMPED | GONE, pc, mask), or (STOPPED, status, 0).
    """
    op = row[at.OP]
    if op == ops.CONVERGE_SET:
        start = own_base + row[at.CONVERGENCE]
        value = signed32(mask)
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                registers[start + lane] = value
        return FALLS_THROUGH, pc + 1, mask
    if executing == 0 and op != ops.BRANCH_DIVERGENT:
        return FALLS_THROUGH, pc + 1, mask
    row_of_barrier = np.int64(row[at.CONVERGENCE])

    if op == ops.BRANCH or op == ops.BRANCH_DIVERGENT:
        taken = executing & condition
        if op == ops.BRANCH_DIVERGENT:
            required = np.int64(registers[x + (first_lane(mask) & 31)]) & state.live[warp]
            if row[at.F0] == ops.DIVERGENT_ANY:
                taken = mask if taken != 0 else np.int64(0)
            elif row[at.F0] == ops.DIVERGENT_DIV:  # the guard says who counts as present, not who jumps
                taken = mask if required & ~executing != 0 else np.int64(0)
            else:
                taken = executing if required & ~mask == 0 else np.int64(0)
        if taken == 0:
            return FALLS_THROUGH, pc + 1, mask
        target = np.int64(row[at.TARGET])
        if target < 0:
            stop(state, warp, pc, first_lane(taken), np.int64(-1))
            return STOPPED, np.int64(at.BAD_TARGET), np.int64(0)
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        if taken == mask:
            return JUMPED, target, mask
        # The lanes that fall through go on first; the others wait.
        push(state, warp, target, taken, at.READY, np.int64(0))
        return JUMPED, pc + 1, mask & ~taken

    if op == ops.EXIT:
        leaving = executing & condition
        if leaving == 0:
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        retire(state, registers, warp, own_base, leaving)
        rest = mask & ~leaving
        return (JUMPED, pc + 1, rest) if rest else (GONE, pc, rest)

    if op == ops.CONVERGE_WAIT:
        wanted = all_participants(registers, own_base, row_of_barrier, executing) & state.live[warp]
        if executing == mask and wanted & ~mask == 0:
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        _leave_rest(state, warp, pc, mask & ~executing)
        wait_converged(state, registers, warp, own_base, row_of_barrier, pc, executing)
        return GONE, pc, mask

    if op == ops.BRANCH_INDEXED:
        return _branch_indexed(
            state, registers, row, index_of, pointers, runs, warp, global_warp, x, run_start, pc, mask, executing
        )

    if op == ops.CONVERGE_LEAVE:
        leaving = executing & condition
        if leaving:
            leave_convergence(state, registers, warp, own_base, row_of_barrier, leaving)
        return FALLS_THROUGH, pc + 1, mask

    if op == ops.CONVERGE_READ:
        start = own_base + row[at.CONVERGENCE]
        target = row[at.D_OFFSET] + (row[at.D_OWN] & own_base)
        for lane in range(at.LANES):
            if (executing >> lane) & 1:
                registers[target + lane] = registers[start + lane]
                if row[at.F0]:
                    registers[start + lane] = 0
        return FALLS_THROUGH, pc + 1, mask

    if op == ops.CONVERGE_COPY:
        start, source = own_base + row[at.CONVERGENCE], own_base + np.int64(row[at.TARGET])
        for lane in range(at.LANES):
            if (executing >> lane) & 1:
                registers[start + lane] = registers[source + lane]
                if row[at.F0]:
                    registers[source + lane] = 0
        return FALLS_THROUGH, pc + 1, mask

    if op == ops.CONVERGE_WRITE:
        start = own_base + row[at.CONVERGENCE]
        for lane in range(at.LANES):
            if (executing >> lane) & 1:
                registers[start + lane] = registers[x + lane]
        return FALLS_THROUGH, pc + 1, mask

    if op == ops.WARP_WAIT:
        wanted = np.int64(registers[x + first_lane(executing)]) & at.FULL
        if row[at.F0]:
            same = _alike(registers, x, executing)
            if same != executing:
                # Each set of lanes goes on alone, up to where it waits for the others; these come back to this place.
                log_run(state, runs, global_warp, run_start, pc, mask)
                push(state, warp, pc, mask & ~same, at.READY, np.int64(0))
                return JUMPED, pc, same
        if syncs.shape[0]:
            _log_warp_wait(state, registers, syncs, warp, global_warp, x, pc, executing)
        if executing == mask and wanted & state.live[warp] & ~mask == 0:
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        _leave_rest(state, warp, pc, mask & ~executing)
        # Where all lanes are named there are no others that could join them.
        parted = row[at.F0] == ops.WAIT_EXCLUSIVE or state.live[warp] & ~wanted != 0
        again = np.int64(row[at.F0] != 0 and parted)
        push(state, warp, pc, executing, at.AT_WARP_WAIT, wanted | AGAIN * again)
        release_warp_wait(state, warp)
        return GONE, pc, mask

    if op == ops.BARRIER_WAIT or op == ops.BARRIER_ARRIVE:
        number, threads = _barrier_operands(row, registers, x, y, executing)
        barrier = number & 15
        kind = at.SYNC_BLOCK_WAIT if op == ops.BARRIER_WAIT else at.SYNC_BLOCK_ARRIVE
        waits = np.int64(op == ops.BARRIER_WAIT)
        zero = np.int64(0)
        note(state, table.EVENT_BARRIER, warp, pc, mask, barrier, state.turn[barrier], waits, zero, zero, zero)
        log_sync(
            state, syncs, warp, pc, np.int64(kind), number, threads, mask, executing, state.turn[barrier],
            global_warp - warp,
        )  # fmt: skip
        # The fragment arrives and waits as one, lanes whose guard is off included: hardware counts warps,
        # and the compiler relies on their staying together (uniform registers are the warp's).
        arrive(state, warp, mask, barrier, threads, np.int64(row[at.F1]), condition & executing)
        if op == ops.BARRIER_ARRIVE:
            complete_barrier(state, barrier)
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        push(state, warp, pc, mask, at.AT_BARRIER, barrier)
        complete_barrier(state, barrier)
        return GONE, pc, mask

    if op == ops.CLUSTER_ARRIVE:
        if state.cluster_arrived[warp] & executing:
            stop(state, warp, pc, first_lane(state.cluster_arrived[warp] & executing), np.int64(0))
            return STOPPED, np.int64(at.ARRIVED_TWICE), np.int64(0)
        state.cluster_arrived[warp] |= executing
        zero = np.int64(0)
        note(state, table.EVENT_CLUSTER_ARRIVE, warp, pc, executing, zero, zero, zero, zero, zero, zero)
        return FALLS_THROUGH, pc + 1, mask

    if op == ops.CLUSTER_AWAIT:
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        zero = np.int64(0)
        note(state, table.EVENT_CLUSTER_WAIT, warp, pc, executing, zero, zero, zero, zero, zero, zero)
        if state.cluster_arrived[warp] & executing == 0:  # nobody is missing any more
            return JUMPED, pc + 1, mask
        _leave_rest(state, warp, pc, mask & ~executing)
        push(state, warp, pc, executing, at.AT_CLUSTER, np.int64(0))
        return GONE, pc, mask

    if op == ops.REGISTERS_GIVE or op == ops.REGISTERS_TAKE:
        count = np.int64(row[at.F0])
        if op == ops.REGISTERS_GIVE:
            state.free_registers += max(np.int64(0), state.held_registers[warp] - count) * at.LANES
            state.held_registers[warp] = min(state.held_registers[warp], count)
            release_registers(state)
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        state.predicates[first_predicate(warp) + row[at.Q0] * at.GROUP_WARPS] = at.FULL
        push(state, warp, pc, mask, at.AT_REGISTERS, count)
        release_registers(state)
        return GONE, pc, mask

    if op == ops.WARPGROUP_WAIT:
        # Nobody goes past it before all four warps have issued their products: others may overwrite B as soon as one
        # has.
        group = warp // at.PRODUCT_WARPS
        threads = at.LANES * (min((group + 1) * at.PRODUCT_WARPS, state.warps) - group * at.PRODUCT_WARPS)
        barrier = at.BLOCK_BARRIERS + group
        arrive(state, warp, mask, barrier, np.int64(threads), np.int64(ops.RED_NONE), np.int64(0))
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        push(state, warp, pc, mask, at.AT_BARRIER, barrier)
        complete_barrier(state, barrier)
        return GONE, pc, mask

    if op == ops.GIVE_WAY:
        # Whoever polls looks the same each time; the scheduler lets its other lanes go on if nobody else can.
        if state.poll_loop[warp] == 0 and spins(state, registers, warp, own_base, pc):
            release_without(state, registers, warp, own_base, mask | ready_lanes(state, warp))
        if state.ready[warp] == 0:
            return FALLS_THROUGH, pc + 1, mask
        log_run(state, runs, global_warp, run_start, pc + 1, mask)
        push(state, warp, pc + 1, mask, at.READY, np.int64(0))
        return GONE, pc, mask

    if op == ops.EXTERNAL and row[at.F1] == ops.CALL_HOST:
        # Python serves the call: the lanes stand behind it already when the interpreter stops.
        outcome, target, back = _branch_indexed(
            state, registers, row, index_of, pointers, runs, warp, global_warp, x, run_start, pc, mask, executing
        )
        if outcome != JUMPED:
            return outcome, target, back
        if state.dropping_call == row[at.F0] + 1:  # nothing is left for Python to do
            state.dropped_prints += count_lanes(executing)
            for lane in range(at.LANES):
                if (executing >> lane) & 1:
                    registers[own_base + RESULT_REGISTER * at.ROW + lane] = DROPPED
            return outcome, target, back
        state.held[warp] = 0
        push(state, warp, target, back, at.READY, np.int64(0))
        stop(state, warp, pc, first_lane(executing), executing)
        return STOPPED, np.int64(at.HOST_CALL), np.int64(0)

    if op == ops.EXTERNAL:
        # The handle of the grid is 1; the barrier's result 0 says that all is well. Then it returns.
        value = 1 if row[at.F1] == ops.CALL_GRID_HANDLE else 0
        result = own_base + row[at.D_OFFSET]
        for lane in range(at.LANES):
            if (executing >> lane) & 1:
                registers[result + lane] = value
                if value:
                    registers[result + at.ROW + lane] = 0
        outcome, target, back = _branch_indexed(
            state, registers, row, index_of, pointers, runs, warp, global_warp, x, run_start, pc, mask, executing
        )
        if outcome == JUMPED and value == 0:
            push(state, warp, target, back, at.AT_GRID, np.int64(0))
            return GONE, target, back
        return outcome, target, back

    stop(state, warp, pc, first_lane(executing), np.int64(row[at.F0]))
    return STOPPED, np.int64(at.TRAPPED), np.int64(0)


@inner
def _leave_rest(state, warp, pc, rest):
    """Lanes whose guard is off do not wait: they go on behind the instruction."""
    if rest:
        push(state, warp, pc + 1, rest, at.READY, np.int64(0))


@inner
def _alike(registers, x, lanes):
    """Those of the ``lanes`` that hold at ``x`` what the first of them holds."""
    first, same = registers[x + first_lane(lanes)], np.int64(0)
    for lane in range(at.LANES):
        if (lanes >> lane) & 1 and registers[x + lane] == first:
            same |= np.int64(1) << lane
    return same


@seldom
def _log_warp_wait(state, registers, syncs, warp, global_warp, x, pc, executing):
    """Log lanes ``executing`` at a WARPSYNC, once for each set of lanes that they name."""
    rest = executing
    while rest:
        named, same = registers[x + first_lane(rest)], _alike(registers, x, rest)
        rest &= ~same
        log_sync(
            state, syncs, warp, pc, np.int64(at.SYNC_WARP_WAIT), np.int64(named) & at.FULL, np.int64(0), executing, same,
            np.int64(0), global_warp - warp,
        )  # fmt: skip


@inner
def _branch_indexed(
    state, registers, row, index_of, pointers, runs, warp, global_warp, x, run_start, pc, mask, executing
):
    """A branch to a register pair plus an offset: one fragment for each target that lanes name."""
    through_pointer = row[at.OP] == ops.BRANCH_INDEXED and row[at.F0] == ops.INDEXED_POINTER
    y = x + at.ROW
    low = first_lane(executing)
    rest, first_target, first_mask = executing, np.int64(-1), np.int64(0)
    whole = executing == mask
    for lane in range(low, at.LANES):
        if not (rest >> lane) & 1:
            continue
        same = np.int64(0)
        for other in range(lane, at.LANES):
            alike = registers[x + other] == registers[x + lane] and registers[y + other] == registers[y + lane]
            if (rest >> other) & 1 and alike:
                same |= np.int64(1) << other
        rest &= ~same
        address = (np.int64(registers[x + lane]) & at.FULL) | (np.int64(registers[y + lane]) << 32)
        goal = address + np.int64(row[at.TARGET])
        slot = goal >> 4
        found = np.int64(-1)
        if through_pointer:
            found = _pointed(pointers, goal)
        elif goal >= 0 and goal & 15 == 0 and slot < index_of.shape[0]:
            found = np.int64(index_of[slot])
        if found < 0:
            stop(state, warp, pc, lane, goal)
            return STOPPED, np.int64(at.BAD_POINTER if through_pointer else at.BAD_TARGET), np.int64(0)
        if first_target < 0:
            first_target, first_mask = found, same
        else:
            push(state, warp, found, same, at.READY, np.int64(0))
    log_run(state, runs, global_warp, run_start, pc + 1, mask)
    if not whole:
        push(state, warp, pc + 1, mask & ~executing, at.READY, np.int64(0))
    return JUMPED, first_target, first_mask


@seldom
def _pointed(pointers, held):
    """Where the function that a pointer names begins; -1: it names none."""
    low, high = np.int64(0), np.int64(pointers.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if pointers[middle, 0] < held:
            low = middle + 1
        else:
            high = middle
    if low < pointers.shape[0] and pointers[low, 0] == held:
        return np.int64(pointers[low, 1])
    return np.int64(-1)
