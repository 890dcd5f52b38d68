"""Which warps run next: those that stand at the same instruction, in lockstep; groups and blocks in turn.

Mental model: a block's groups take turns. In its turn each warp of a group may execute a quantum of
instructions. Of the warps that can run, those at the lowest instruction go first, all that stand
there in lockstep, until they diverge or reach the instruction where others wait: then both go on as one. A warp whose
other lanes wait at that lowest instruction goes before them, with the lanes that it holds, and so catches up. (Running
the lowest program counter first makes threads meet again behind branches and loops; Collange, "Stack-less
SIMT reconvergence at low cost", 2011.) After something whose order shows, such as an atomic that returns a
value, warps run one by one in their order until the next block barrier, as they do with lockstep switched off.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.convergence import pick, release_crossed_waits, release_mixed
from gpusim.emulator.events import events_full
from gpusim.emulator.interpreter import run_lockstep
from gpusim.emulator.polling import end_polling
from gpusim.emulator.tensor_memory import end_tensor_memory
from gpusim.emulator.work_taking import is_taken
from gpusim.isa import warp as at
from gpusim.isa.jit import compiled, inner

#: Instructions after which a fragment gives way to another ready one of its warp, at a jump.
FRAGMENT_QUANTUM = 256
_NEVER = 1 << 62


@inner
def start_block(state, registers, linear):
    """Load block number ``linear``: cleared registers, all warps ready at instruction 0."""
    state.linear = linear
    state.block_index[0] = linear % state.grid_dim[0]
    state.block_index[1] = (linear // state.grid_dim[0]) % state.grid_dim[1]
    state.block_index[2] = linear // (state.grid_dim[0] * state.grid_dim[1])
    state.started = 1
    state.cluster_rank = 0
    if state.cluster_size > 1:
        for axis in range(2, -1, -1):
            state.cluster_rank = state.cluster_rank * state.cluster_dim[axis] + (
                state.block_index[axis] % state.cluster_dim[axis]
            )
    else:
        state.peer_block[0] = linear
    state.next_group = 0
    state.in_quantum = 0
    state.one_by_one = 0
    state.at_barrier = 0
    state.free_registers = 0
    groups = (state.warps + at.GROUP_WARPS - 1) // at.GROUP_WARPS
    lanes = np.uint64(min(state.warps, np.int64(at.GROUP_WARPS)) * at.LANES)
    end = np.uint64(state.own_base + groups * state.own_stride)
    start = np.uint64(state.own_base)
    while start < end:
        for lane in range(lanes):
            registers[start + lane] = 0
        start += np.uint64(at.ROW)
    for slot in range(groups * at.PREDICATE_SLOTS):
        number = slot % at.PREDICATE_SLOTS
        value = at.FULL if number == at.TRUE_PREDICATE or number == at.TRUE_UNIFORM_PREDICATE else 0
        for i in range(at.GROUP_WARPS):
            state.predicates[slot * at.GROUP_WARPS + i] = value
    state.alive = state.warps
    for warp in range(state.warps):
        for f in range(state.fragments[warp]):
            state.fragment[warp, f] = at.FREE
        state.fragments[warp] = 1
        state.live[warp] = state.exists[warp]
        state.cluster_arrived[warp] = 0
        state.held_registers[warp] = state.thread_registers
        state.held[warp] = 0
        end_polling(state, warp)  # lanes that ended while others of their warp polled
        state.probe[warp] = state.clock_ahead[warp] = state.clock_wait[warp] = state.poll_lanes[warp] = 0
        state.pc[warp, 0] = 0
        state.mask[warp, 0] = state.exists[warp]
        state.fragment[warp, 0] = at.READY
        state.stamp[warp, 0] = 0
        state.ready[warp] = 1
        state.result[warp] = 0
    if state.arrivals:
        state.arrivals = 0
        for barrier in range(at.ALL_BARRIERS):
            state.turn[barrier] = state.again[barrier] = 0
            for warp in range(state.warps):
                state.arrived[barrier, warp] = 0
                state.vote[barrier, warp] = 0


@inner
def ready_warp(state, warp):
    """Whether ``warp`` can go on in this quantum; the fragment that does is then held."""
    if state.held[warp]:
        return state.quantum_spent[warp] == 0
    if state.ready[warp] == 0 or state.quantum_left[warp] <= 0:
        return False
    chosen = pick(state, warp)
    state.held[warp], state.quantum_spent[warp] = 1, 0
    state.held_pc[warp] = state.pc[warp, chosen]
    state.held_first[warp] = state.pc[warp, chosen]
    state.held_mask[warp] = state.mask[warp, chosen]
    state.held_left[warp] = FRAGMENT_QUANTUM
    return True


@inner
def lowest_ready(state, warp):
    """The lowest instruction at which ``warp`` could go on: that of the fragment it holds, or of another ready one."""
    lowest = state.held_pc[warp]
    if state.ready[warp] > 0:
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] == at.READY:
                lowest = min(lowest, np.int64(state.pc[warp, f]))
    return lowest


@inner
def gather(state, first, last):
    """Choose the warps of a group, ``first`` to ``last - 1``, that run next in lockstep; sets state.active and span.

    Those go first that could go on at the lowest instruction, be it with a fragment that has to wait for the one that
    they hold: lanes that have left a loop have their turn while the warps still in it wait, and do not fall behind
    them.

    Returns (its first warp or -1 for none, warps from its first to its last, the lowest instruction behind theirs
    at which others of the group wait).
    """
    chosen, lowest, meet = np.int64(-1), np.int64(_NEVER), np.int64(_NEVER)
    together = state.lockstep != 0 and state.one_by_one == 0
    least, behind = np.int64(_NEVER), False
    for warp in range(first, last):
        if ready_warp(state, warp):
            pc = state.held_pc[warp]
            if not together:
                if chosen < 0:
                    chosen, lowest = np.int64(warp), pc
                continue
            low = lowest_ready(state, warp)
            # Among those that could go on equally low, one that holds a higher fragment must finish with that first.
            if low < least or (low == least and ((pc > low and not behind) or (behind == (pc > low) and pc < lowest))):
                least, behind, chosen, lowest = low, pc > low, np.int64(warp), pc
    if together:
        for warp in range(first, last):
            if state.held[warp] and state.quantum_spent[warp] == 0 and lowest < state.held_pc[warp] < meet:
                meet = state.held_pc[warp]
            if warp < chosen and state.held[warp] and state.quantum_spent[warp] == 0 and state.held_pc[warp] == lowest:
                chosen = np.int64(warp)
    if chosen < 0:
        return np.int64(-1), np.int64(0), meet
    end = chosen + 1
    if together:
        for warp in range(chosen + 1, last):
            if state.held[warp] and state.quantum_spent[warp] == 0 and state.held_pc[warp] == lowest:
                end = np.int64(warp + 1)
    for i in range(at.GROUP_WARPS):
        warp = chosen + i
        state.active[i], state.span[i] = 0, 0
        if warp < end:
            state.span[i] = at.FULL
            if state.held[warp] and state.quantum_spent[warp] == 0 and state.held_pc[warp] == lowest:
                state.active[i] = state.held_mask[warp]
    return chosen, end - chosen, meet


@inner
def run_group(state, machine, group, chunk_warp):
    """Give the warps of ``group`` their quantum, or what is left of it.

    Returns DONE (nothing of the group can run now, or its quantum is used up), or why it stopped.
    """
    first = group * at.GROUP_WARPS
    last = min(first + at.GROUP_WARPS, state.warps)
    if not state.in_quantum:
        state.in_quantum = 1
        for warp in range(first, last):
            state.quantum_left[warp] = state.quantum
            state.quantum_spent[warp] = 0
    while True:
        chosen, count, meet = gather(state, first, last)
        if chosen < 0:
            state.in_quantum = 0
            return np.int64(at.DONE)
        state.gathered += 1
        status = run_lockstep(state, machine, chosen, count, meet, chunk_warp)
        if status != at.SPLIT:
            return status
        if state.executed >= state.limit:
            return np.int64(at.LIMIT)


@inner
def outcome_of(state):
    """What a block is whose warps cannot run: DONE, GRID_WAIT, CLUSTER_WAIT or DEADLOCK."""
    stuck, outcome = False, np.int64(at.DEADLOCK)
    for warp in range(state.warps):
        if state.live[warp]:
            stuck = True
            for f in range(state.fragments[warp]):
                if state.fragment[warp, f] == at.AT_GRID:
                    return np.int64(at.GRID_WAIT)
                if state.fragment[warp, f] == at.AT_CLUSTER:
                    outcome = np.int64(at.CLUSTER_WAIT)
    return outcome if stuck else np.int64(at.DONE)


@inner
def filled(state, machine):
    """Whether the log is so full that it had better be emptied between two blocks."""
    return (
        4 * state.used[at.RUNS] > 3 * machine.runs.shape[0]
        or 4 * state.used[at.ACCESSES] > 3 * machine.accesses.shape[0]
        or 4 * state.used[at.SCATTERED_ROWS] > 3 * machine.scattered.shape[0]
        or 4 * state.used[at.SYNCS] > 3 * machine.syncs.shape[0]
        or events_full(state)
        or 4 * state.used[at.SIGNALS] > 3 * machine.signals.shape[0]
    )


@compiled
def run_blocks(states, slot, machine, first_block, next_block, end_block):
    """Run blocks ``next_block`` to ``end_block - 1`` one after another in ``states[slot]``.

    Groups of a block run in turn until none can go on. Returns (status, the block to go on with): DONE, or
    PREEMPTED when a block's slice of instructions is used up, GRID_WAIT or CLUSTER_WAIT when it waits for other blocks
    (all leave a started block behind: call again with the returned number), LOG_FULL or PAUSED (with a started block or
    between two), HOST_CALL, DEADLOCK when warps are left and none can run, or the reason why one stopped.
    """
    state = states[slot]
    groups = (state.warps + at.GROUP_WARPS - 1) // at.GROUP_WARPS
    linear = next_block
    while linear < end_block:
        if not state.started:
            if state.work_host and is_taken(state, linear):
                linear += 1
                continue
            start_block(state, machine.registers, linear)
            state.slice_end = 0
        chunk_warp = (linear - first_block) * state.warps
        if state.slice_end == 0:
            state.slice_end = state.executed + state.slice
        elif state.executed >= state.slice_end:  # the log was full before the end of the slice was seen
            state.slice_end, state.only_polled = 0, 0
            return np.int64(at.PREEMPTED), linear
        idle, polling = np.int64(0), np.int64(0)
        while idle < groups:
            before, runs_before, accesses_before = state.executed, state.used[at.RUNS], state.used[at.ACCESSES]
            status = run_group(state, machine, state.next_group, chunk_warp)
            if status != at.DONE:
                return status, linear
            if state.alive == 0:
                break
            idle = idle + 1 if state.executed == before else np.int64(0)
            state.next_group = state.next_group + 1 if state.next_group + 1 < groups else 0
            # What was executed and left nothing in the log was rounds of polling loops.
            if idle == 0 and state.used[at.RUNS] == runs_before and state.used[at.ACCESSES] == accesses_before:
                polling += 1
            elif idle == 0:
                polling = np.int64(0)
            if polling and polling + idle >= groups:
                state.slice_end, state.only_polled = 0, 1
                return np.int64(at.PREEMPTED), linear
            if state.executed >= state.slice_end and idle == 0:
                state.slice_end, state.only_polled = 0, 0
                return np.int64(at.PREEMPTED), linear
            if state.executed >= state.pause_end and idle == 0:
                return np.int64(at.PAUSED), linear
        status = outcome_of(state) if state.alive else np.int64(at.DONE)
        if status == at.DEADLOCK and release_crossed_waits(state, machine.syncs, chunk_warp):
            continue
        if status == at.DEADLOCK and release_mixed(state, machine.registers):
            continue
        if status != at.DONE:
            state.slice_end = 0
            return status, linear
        if state.tensor_host:
            end_tensor_memory(state)
        state.started = 0
        linear += 1
        if linear < end_block:
            if filled(state, machine):
                return np.int64(at.LOG_FULL), linear
            if state.executed >= state.pause_end:
                return np.int64(at.PAUSED), linear
    return np.int64(at.DONE), linear
