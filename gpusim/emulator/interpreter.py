"""The interpreter: decoded SASS in, registers, memory and a log of what each warp did out.

Mental model: a loop over the instructions of warps in *lockstep*: those of one group that stand at the same
instruction, often all of them, at worst one. Every step gives a run of arithmetic to :mod:`gpusim.emulator.runs`, or
fetches a row of the code matrix, makes each warp's execution mask from its active mask and the guard, and moves memory
warp by warp or decides where each warp goes next. Warps in lockstep do only what all of them do alike: when they
diverge, or one of them meets anything unusual (an address that is out of bounds, an atomic whose order shows),
lockstep ends *before* that instruction, and :mod:`gpusim.emulator.lockstep` chooses anew. So results, traces and errors
are those of warps run one by one.

Straight-line code touches no bookkeeping: runs are logged, limits and other fragments looked at only where
control flow may change course.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import LOCAL, execute_memory, load_constant
from gpusim.emulator.access_affine import affine_access, scattered_access
from gpusim.emulator.access_cluster import execute_async_store
from gpusim.emulator.access_matrix import execute_matrix_access
from gpusim.emulator.access_tensor import execute_tensor_memory
from gpusim.emulator.access_texture import execute_texture
from gpusim.emulator.bulk_copies import execute_bulk, told_lanes
from gpusim.emulator.clock_loops import SHORTEST_WAIT, longer_wait
from gpusim.emulator.clock_waits import wait_for_time
from gpusim.emulator.control_flow import (
    FALLS_THROUGH,
    GONE,
    JUMPED,
    STOPPED,
    execute_control_flow,
    log_barrier,
    log_run,
    log_sleep,
)
from gpusim.emulator.convergence import push, retire
from gpusim.emulator.events import events_full, note_memory, note_step, watched
from gpusim.emulator.leaving import leave, leave_between, steps_left, whole_groups
from gpusim.emulator.poll_rounds import DECISION_ROWS, decide_polling, decision_at
from gpusim.emulator.poll_words import after_access, before_access, put_back, room_to_poll
from gpusim.emulator.polling import GOES_ON, LANES_WAIT, WAITS, begin_round
from gpusim.emulator.runs import execute_arithmetic, fetch, write_back, write_predicates
from gpusim.emulator.tensor_boxes import MOST_BOXES
from gpusim.emulator.warpgroup_products import execute_product
from gpusim.emulator.work_taking import execute_next_work
from gpusim.isa import event_table as table
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner
from gpusim.isa.number_ranges import MEMORY_BASE

_NEVER = 1 << 62
_X, _Y, _W = at.X_ROW * at.ROW, at.Y_ROW * at.ROW, at.W_ROW * at.ROW


@inner
def room(state, runs, accesses, scattered, syncs):
    """Whether warps in lockstep can log one more instruction of any kind, and each warp of the block its run so far."""
    return (
        state.used[at.RUNS] + at.GROUP_WARPS + at.MAX_WARPS + DECISION_ROWS < runs.shape[0]
        and state.used[at.ACCESSES] + 2 * at.GROUP_WARPS + DECISION_ROWS < accesses.shape[0]
        and state.used[at.SCATTERED_ROWS] + 2 * at.GROUP_WARPS + DECISION_ROWS < scattered.shape[0]
        and not events_full(state)
        and (syncs.shape[0] == 0 or state.used[at.SYNCS] + 2 * at.MAX_WARPS * at.LANES < syncs.shape[0])
    )


@inner
def run_lockstep(state, machine, first_warp, count, meet, chunk_warp):
    """Run warps in lockstep: ``first_warp`` to ``first_warp + count - 1`` of one group where state.active
    is not 0, from where they stand, until they diverge, stop, or reach instruction ``meet``, where others wait.

    Returns SPLIT (the warps' fragments are held, in the table, or have ended), LOG_FULL (held too), or why
    its only warp stopped for good.
    """
    (
        matrix,
        registers,
        index_of,
        pointers,
        allocations,
        hint,
        constants,
        runs,
        accesses,
        scattered,
        syncs,
        polls,
        words,
        signals,
        history,
        touched,
    ) = machine
    group = first_warp // at.GROUP_WARPS
    place = first_warp - group * at.GROUP_WARPS
    base = state.own_base + group * state.own_stride + place * at.LANES
    slots = group * (at.PREDICATE_SLOTS * at.GROUP_WARPS) + place
    lanes = np.uint64(count * at.LANES)
    predicates, active, executing = state.predicates, state.active, state.executing
    size = matrix.shape[0]
    members, leader = np.int64(0), np.int64(0)
    for i in range(count):
        if active[i]:
            members += 1
            leader = first_warp + i
    # Only where warps run in their order may one meet an error or an instruction whose order shows.
    alone = state.lockstep == 0 or state.one_by_one != 0 or state.warps == 1
    pc = state.held_pc[leader]
    if polls.shape[0]:
        begin_round(state, leader)
    steps = np.int64(0)
    most = steps_left(state, first_warp, count)
    whole, active_lost = False, np.int64(0)  # state.executing is state.active; lanes of the span that are not
    # By how much the clock was put forward last in a loop that waits for a time, and in all; whether it was too much
    # once, or a guess.
    forward, waited, too_far, guessed = np.int64(0), np.int64(0), False, False

    while True:
        if pc == meet:
            leave(state, first_warp, count, members, steps, pc, False)
            return np.int64(at.SPLIT)
        if pc >= size:
            state.fault_index, state.fault_warp = pc - 1, leader
            return np.int64(at.BAD_TARGET)
        row = matrix[pc]
        run = np.int64(row[at.ARITHMETIC_RUN])
        if run:
            stop = pc + run
            if pc < meet < stop:
                stop = meet
            state.clock = state.executed + steps + state.time_ahead
            if polls.shape[0] and state.poll_loop[leader]:
                state.clock = state.poll_clock[leader]
            execute_arithmetic(state, matrix, registers, pc, stop, base, slots, first_warp, count)
            steps += stop - pc
            pc, whole = stop, False
            continue
        op = row[at.OP]
        guard, flip = np.int64(row[at.GUARD]), np.int64(row[at.GUARD_FLIP])
        always = flip == 0 and (guard == at.TRUE_PREDICATE or guard == at.TRUE_UNIFORM_PREDICATE)
        if always and whole:
            some, lost = np.int64(1), active_lost
        else:
            some, lost = np.int64(0), np.int64(0)
            first = np.uint64(slots + guard * at.GROUP_WARPS)  # unsigned: no index counts from the end
            for i in range(np.uint64(at.GROUP_WARPS)):
                mask = active[i] & (predicates[first + i] ^ flip)
                executing[i] = mask
                some |= mask
                lost |= state.span[i] & ~mask
            whole, active_lost = always, lost
        steps += 1

        # ---- memory ----------------------------------------------------------------------------
        if op >= MEMORY_BASE:
            # Few kernels have loops that poll: whether anything of them is to be noted is asked once an instruction.
            track, signalled = row[at.ORDERED] & at.TRACKED, np.int64(0)
            look = watched(state, pc)
            full = not room(state, runs, accesses, scattered, syncs)
            full |= (
                op == ops.BULK or op == ops.TENSOR_MEMORY
            ) and state.bulks_used + at.GROUP_WARPS * MOST_BOXES > state.bulks_room
            full |= track != 0 and not room_to_poll(state, words, signals)
            if full or (row[at.ORDERED] & at.ORDER_SHOWS and not alone):
                leave(state, first_warp, count, members, steps - 1, pc, False)
                if full:
                    return np.int64(at.LOG_FULL)
                state.one_by_one = 1
                return np.int64(at.SPLIT)
            x = fetch(registers, row, at.A, base, _X, lanes)
            y = fetch(registers, row, at.B, base, _Y, lanes)
            d = np.int64(row[at.D_OFFSET]) + (np.int64(row[at.D_OWN]) & base)
            through_scratch = op == ops.ATOMIC or ops.MATRIX_LOAD <= op < ops.TEXTURE
            w = np.int64(_W) if through_scratch else d
            uniform = row[at.SCOPE] == at.UNIFORM
            regular = op <= ops.STORE and row[at.SPACE] != LOCAL
            value = d if op == ops.LOAD else x
            fresh = True  # what warps in lockstep have in common is not known yet
            for i in range(count):
                if active[i] == 0:
                    continue
                warp, shift, on = first_warp + i, i * at.LANES, executing[i]
                shown, before = np.int64(0), state.used[at.ACCESSES]
                if op == ops.BULK:
                    on = told_lanes(state, row, registers, base + shift, on)
                elif uniform and op == ops.ATOMIC and on:  # once a warp, or for each block of the cluster that is named
                    on = np.int64(registers[y + shift]) & 0xFFFF if row[at.F3] & ops.EACH_NAMED else on & -on
                if track:
                    signalled = state.used[at.SIGNALS]
                    shown = before_access(
                        state, matrix, registers, allocations, hint, words, signals, history, pc, warp, base + shift,
                        on,
                    )  # fmt: skip
                if regular and executing[i] == at.FULL and (
                    affine_access(
                        state, row, registers, allocations, hint, accesses, pc, base + shift, chunk_warp + warp,
                        value + shift,
                    ) or scattered_access(
                        state, row, registers, allocations, hint, accesses, scattered, pc, base + shift,
                        chunk_warp + warp, value + shift,
                    )
                ):  # fmt: skip
                    if track:
                        after_access(
                            state, row, allocations, hint, words, signals, history, touched, pc, warp, executing[i],
                            shown,
                        )  # fmt: skip
                    if look and shown == 0:
                        note_memory(
                            state, matrix, registers, accesses, scattered, look, pc, warp, base + shift, x + shift,
                            np.int64(0), before,
                        )  # fmt: skip
                    continue
                logged, rows = state.used[at.ACCESSES], state.used[at.SCATTERED_ROWS]
                if op == ops.CONSTANT_LOAD:
                    mask = np.int64(at.FULL) if uniform and executing[i] else executing[i]
                    status = load_constant(
                        state, matrix, registers, constants, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, mask, w + shift,
                    )  # fmt: skip
                elif op == ops.TEXTURE:
                    status = execute_texture(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, executing[i], x + shift, y + shift, d + shift,
                    )  # fmt: skip
                elif op == ops.TENSOR_MEMORY:
                    status = execute_tensor_memory(
                        state, matrix, registers, accesses, scattered, pc, warp, base + shift, chunk_warp + warp, on
                    )
                elif op == ops.BULK:
                    status = execute_bulk(
                        state, matrix, registers, accesses, scattered, pc, warp, base + shift, chunk_warp + warp, on
                    )
                elif op == ops.NEXT_WORK:
                    status = execute_next_work(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, executing[i],
                    )  # fmt: skip
                elif op == ops.ASYNC_STORE:
                    state.q[i, 0] = 0
                    status = execute_async_store(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, executing[i], x + shift, np.int64(_W) + shift, state.q[i],
                    )  # fmt: skip
                elif op == ops.WARPGROUP_PRODUCT:
                    metadata = np.int64(row[at.C + at.SOURCE_OFFSET]) + (np.int64(row[at.C + at.SOURCE_OWN]) & base)
                    status = execute_product(
                        state, matrix, registers, pc, warp, x + shift, y + shift, metadata + shift, d + shift, fresh
                    )
                    fresh = False
                elif op >= ops.MATRIX_LOAD:
                    status = execute_matrix_access(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, executing[i], x + shift, y + shift, w + shift,
                    )  # fmt: skip
                else:
                    state.q[i, 0] = 0
                    status = execute_memory(
                        state, matrix, registers, allocations, hint, accesses, scattered, pc, warp, base + shift,
                        chunk_warp + warp, on, x + shift, y + shift, w + shift, state.q[i],
                    )  # fmt: skip
                if shown:
                    put_back(state, shown)
                if status != at.DONE:
                    if track:
                        state.used[at.SIGNALS] = signalled
                    if alone:  # it stands before the instruction: a listener may let its good lanes make it again
                        leave(state, first_warp, count, members, steps - 1, pc, False)
                        return status
                    for done in range(i):
                        state.outcome[done], state.goal[done] = FALLS_THROUGH, pc + 1
                    if through_scratch:  # matrices: atomics, which alone write predicates as well, run one by one
                        write_back(state, registers, d, row[at.D_WORDS], np.int64(1), np.int64(i))
                    leave_between(state, first_warp, count, members, steps, pc, i)
                    state.used[at.ACCESSES], state.used[at.SCATTERED_ROWS] = logged, rows  # it will be made again
                    state.one_by_one = 1
                    return np.int64(at.SPLIT)
                if track and shown == 0:
                    after_access(state, row, allocations, hint, words, signals, history, touched, pc, warp, on, shown)
                if look and shown == 0 and on:
                    note_memory(
                        state, matrix, registers, accesses, scattered, look, pc, warp, base + shift, x + shift,
                        np.int64(state.q[i, 0]), before,
                    )  # fmt: skip
            if through_scratch and some:
                write_back(state, registers, d, row[at.D_WORDS], lost, count)
                if row[at.PREDICATES_OUT]:
                    write_predicates(state, row, slots)
            pc += 1
            continue

        # ---- control flow ----------------------------------------------------------------------
        if watched(state, pc) == table.WATCH_STEP:
            for i in range(count):
                if executing[i]:
                    note_step(state, matrix, registers, pc, first_warp + i, base + i * at.LANES, executing[i])
        if op == ops.NOP or (op == ops.WARPGROUP_WAIT and whole_groups(state, first_warp, count)):
            pc += 1
            continue
        holds, flip = np.uint64(slots + row[at.P0] * at.GROUP_WARPS), np.int64(row[at.P0_FLIP])
        taken, parted = np.int64(0), np.int64(0)
        for i in range(np.uint64(at.GROUP_WARPS)):
            mask = predicates[holds + i] ^ flip
            state.condition[i] = mask & at.FULL
            taken |= mask & executing[i]
            parted |= active[i] ^ (mask & executing[i])
        logged_so_far = False  # the run that ends here is in the log
        if (
            row[at.ORDERED] & at.DECIDES
            and alone
            and room(state, runs, accesses, scattered, syncs)
            and room_to_poll(state, words, signals)
        ):
            place = leader - first_warp
            jumping = executing[place] & state.condition[place]
            fate = decide_polling(
                state, matrix, registers, polls, runs, accesses, scattered, words, signals, history, leader,
                chunk_warp + leader, pc, active[place], jumping,
            )  # fmt: skip
            if fate != GOES_ON:
                goal = np.int64(row[at.TARGET]) if polls[decision_at(polls, pc), at.POLL_STAYS] else pc + 1
                state.held_first[leader] = goal
                if fate == WAITS and state.impatient == 0:
                    # It would only read the same again: others have their turn first.
                    state.quantum_left[leader], state.held_left[leader] = 0, 0
                elif fate == LANES_WAIT:
                    state.held_left[leader] = 0
                leave(state, first_warp, count, members, steps, goal, True)
                return np.int64(at.SPLIT)
            logged_so_far = True
        if row[at.ORDERED] & at.WAITS_FOR_TIME and state.hurries == 0:
            full = not room(state, runs, accesses, scattered, syncs)
            if full or not alone:
                leave(state, first_warp, count, members, steps - 1, pc, False)
                if full:
                    return np.int64(at.LOG_FULL)
                state.one_by_one = 1
                return np.int64(at.SPLIT)
            if wait_for_time(
                state, matrix, registers, polls, runs, accesses, decision_at(polls, pc), leader, chunk_warp + leader,
                pc, active[leader - first_warp],
            ):  # fmt: skip
                leave(state, first_warp, count, members, steps - 1, pc, False)
                return np.int64(at.SPLIT)
            logged_so_far = True
        if row[at.ORDERED] & at.AWAITS_TIME and state.hurries:
            # Until a lane leaves the loop the clock goes forward, in steps twice as long each; then back and forth in
            # steps half as long, in rounds that all lanes make again, until it is known when that is.
            goal = np.int64(row[at.TARGET])
            if parted == 0 if goal <= pc else taken == 0:
                if goal <= pc:
                    forward, guessed = longer_wait(forward, too_far, guessed, waited, state.last_wait)
                    state.time_ahead, waited = state.time_ahead + forward, waited + forward
            elif forward > SHORTEST_WAIT and room(state, runs, accesses, scattered, syncs):
                forward, too_far, guessed = forward >> 1, True, False
                state.time_ahead, waited = state.time_ahead - forward, waited - forward
                if goal <= pc:
                    for i in range(count):
                        if active[i]:
                            warp = first_warp + i
                            log_run(state, runs, chunk_warp + warp, state.held_first[warp], pc + 1, active[i])
                            state.held_first[warp] = goal
                    pc, whole = goal, False
                else:
                    pc += 1
                continue
            else:
                if waited:
                    state.last_wait = waited
                forward, waited, too_far, guessed = np.int64(0), np.int64(0), False, False
        if row[at.RECORDS] and op == ops.GIVE_WAY:  # a NANOSLEEP by a register
            if not room(state, runs, accesses, scattered, syncs):
                leave(state, first_warp, count, members, steps - 1, pc, False)
                return np.int64(at.LOG_FULL)
            x = fetch(registers, row, at.A, base, _X, lanes)
            for i in range(count):
                if active[i]:
                    log_sleep(
                        state, accesses, registers, first_warp + i, chunk_warp + first_warp + i, x + i * at.LANES,
                        active[i], executing[i],
                    )  # fmt: skip
        leaves = op == ops.BRANCH or op == ops.EXIT
        meets = row[at.RECORDS] != 0 and (op == ops.BARRIER_WAIT or op == ops.BARRIER_ARRIVE)
        if (leaves and taken == 0) or (
            some == 0 and op != ops.CONVERGE_SET and op != ops.BRANCH_DIVERGENT and not meets
        ):
            pc += 1
            continue
        full = (row[at.RECORDS] == 0 or op != ops.GIVE_WAY) and not room(state, runs, accesses, scattered, syncs)
        full |= row[at.ORDERED] & at.DECIDES != 0 and not room_to_poll(state, words, signals)
        full &= not logged_so_far  # or it would be logged again
        if full or (row[at.ORDERED] & at.ORDER_SHOWS and not alone):
            leave(state, first_warp, count, members, steps - 1, pc, False)
            if full:
                return np.int64(at.LOG_FULL)
            state.one_by_one = 1
            return np.int64(at.SPLIT)
        if op == ops.BRANCH and parted == 0 and row[at.TARGET] >= 0:
            goal = np.int64(row[at.TARGET])
            for i in range(count):
                if active[i]:
                    warp = first_warp + i
                    log_run(state, runs, chunk_warp + warp, state.held_first[warp], pc + 1, active[i])
                    state.held_first[warp] = goal
            pc = goal
        elif op == ops.EXIT and parted == 0:
            for i in range(count):
                if active[i]:
                    warp = first_warp + i
                    log_run(state, runs, chunk_warp + warp, state.held_first[warp], pc + 1, active[i])
                    retire(state, registers, warp, base + i * at.LANES, active[i])
                    state.outcome[i] = GONE
            leave_between(state, first_warp, count, members, steps, pc, np.int64(count))
            return np.int64(at.SPLIT)
        elif op == ops.BRANCH and row[at.TARGET] >= 0:
            # As execute_control_flow does it, without a call for each warp: loops whose lanes leave one by one are all
            # this.
            goal, whole = np.int64(row[at.TARGET]), False
            away, staying, parting = np.int64(0), np.int64(0), np.int64(0)  # warps of which all, no or some lanes jump
            for i in range(count):
                if active[i] == 0:
                    continue
                warp, jumping = first_warp + i, executing[i] & state.condition[i]
                state.outcome[i], state.goal[i] = FALLS_THROUGH, pc + 1
                if jumping == 0:
                    staying += 1
                    continue
                log_run(state, runs, chunk_warp + warp, state.held_first[warp], pc + 1, active[i])
                state.outcome[i] = JUMPED
                if jumping == active[i]:
                    state.goal[i] = goal
                    away += 1
                else:  # the lanes that fall through go on first; the others wait
                    push(state, warp, goal, jumping, at.READY, np.int64(0))
                    active[i] &= ~jumping
                    parting += 1
            most = steps_left(state, first_warp, count)
            # Only behind a jump may a warp have to give way: if it is time to, each must be asked for itself.
            if away or (staying and steps >= most):
                leave_between(state, first_warp, count, members, steps, pc, np.int64(count))
                return np.int64(at.SPLIT)
            pc += 1
            for i in range(count):
                if active[i] and state.outcome[i] == JUMPED:
                    state.held_first[first_warp + i] = pc
            if staying:
                continue
        else:
            x = fetch(registers, row, at.A, base, _X, lanes)
            y = fetch(registers, row, at.B, base, _Y, lanes)
            kind, goal, alike, whole = np.int64(-1), np.int64(0), True, False
            for i in range(count):
                if active[i] == 0:
                    continue
                warp, shift = first_warp + i, i * at.LANES
                if meets:
                    log_barrier(
                        state, accesses, row, registers, chunk_warp + warp, x + shift, y + shift, executing[i]
                    )  # fmt: skip
                outcome, next_pc, mask = execute_control_flow(
                    state, registers, row, index_of, pointers, runs, syncs, warp, chunk_warp + warp, base + shift,
                    x + shift, y + shift, state.held_first[warp], pc, active[i], executing[i], state.condition[i],
                )  # fmt: skip
                if outcome == STOPPED:
                    if alone:
                        state.executed += steps
                        state.dispatched += steps
                        state.quantum_left[warp] -= steps
                        return next_pc
                    leave_between(state, first_warp, count, members, steps, pc, i)
                    state.one_by_one = 1
                    return np.int64(at.SPLIT)
                state.outcome[i], state.goal[i] = outcome, next_pc
                if outcome != GONE:
                    active[i] = mask
                if kind < 0:
                    kind, goal = np.int64(outcome), np.int64(next_pc)
                alike &= outcome == kind and next_pc == goal
            if not alike or kind == GONE:
                leave_between(state, first_warp, count, members, steps, pc, np.int64(count))
                return np.int64(at.SPLIT)
            most = steps_left(state, first_warp, count)
            pc = goal
            if kind == FALLS_THROUGH:
                continue
            for i in range(count):
                if active[i]:
                    state.held_first[first_warp + i] = goal
        if steps >= most or pc >= meet:
            leave(state, first_warp, count, members, steps, pc, True)
            return np.int64(at.SPLIT)
