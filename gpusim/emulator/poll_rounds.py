"""Rounds of polling as they were executed: loops with several loads, ways out, or addresses that change.

Mental model: at the end of a round, what the warp has logged since the loop's head is the round. If it stored nothing
and went to the same places as the round before, it only repeated that and leaves the log. When the warp leaves the loop
and some word that it looked at in its last round has been written by others, that round is what it waited in: it is
marked, to be made again until all that it polls has been written. If nothing was written, the loop has given up by
itself, after so many rounds: then they belong into the log.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.control_flow import log_run
from gpusim.emulator.polling import (
    GOES_ON,
    WAITS,
    alone,
    copy_access,
    decide,
    end_polling,
    forget_round,
    go_round,
    is_sleep,
    log_path,
    mark_runs,
    only_mine,
    same_place,
    wait_for_lanes,
)
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.isa.number_ranges import LANES_BASE
from gpusim.trace.record import SCATTERED

_SCATTERED = int(SCATTERED)
#: Runs and accesses of the longest round, and rows of the log that are kept free for what a decision logs.
LONGEST_ROUND, DECISION_ROWS = 48, 128


@inner
def _begins(state, runs, global_warp, head):
    """Row of ``runs`` in which the warp last came to ``head``, if all behind it are its own; -1: not known."""
    row = state.used[at.RUNS] - 1
    while row >= 0 and row >= state.used[at.RUNS] - LONGEST_ROUND and runs[row, at.RUN_WARP] == global_warp:
        first = np.int64(runs[row, at.RUN_FIRST])
        if first <= head < first + np.int64(runs[row, at.RUN_COUNT] & at.RUN_LENGTH):
            return row
        row -= 1
    return np.int64(-1)


@inner
def _only_reads(matrix, runs, head, begin, end):
    """Accesses of the round in the runs ``begin`` to ``end - 1``, from ``head`` on; -1: it does more than to look."""
    accesses = np.int64(0)
    for row in range(begin, end):
        first = np.int64(runs[row, at.RUN_FIRST])
        stop = first + np.int64(runs[row, at.RUN_COUNT] & at.RUN_LENGTH)
        for pc in range(head if row == begin else first, stop):
            op = matrix[pc, at.OP]
            quiet = (
                op >= LANES_BASE or op == ops.LOAD or op == ops.ATOMIC or op == ops.NOP or op == ops.CONVERGE_SET
                or op == ops.CONVERGE_WAIT or op == ops.CONVERGE_LEAVE or op == ops.WARP_WAIT or op == ops.GIVE_WAY
                or op == ops.BRANCH or op == ops.BRANCH_DIVERGENT or op == ops.EXIT or op == ops.CONSTANT_LOAD
            )  # fmt: skip
            if not quiet:
                return np.int64(-1)
            accesses += matrix[pc, at.RECORDS]
    return accesses


@inner
def _adds(matrix, runs, head, begin, end):
    """Whether the round has an atomic that takes no lock: whoever added 1 has not waited for those who added before."""
    for row in range(begin, end):
        first = np.int64(runs[row, at.RUN_FIRST])
        stop = first + np.int64(runs[row, at.RUN_COUNT] & at.RUN_LENGTH)
        for pc in range(head if row == begin else first, stop):
            how = matrix[pc, at.F0]
            if matrix[pc, at.OP] == ops.ATOMIC and how != ops.CAS and how != ops.CAST and how != ops.EXCH:
                return True
    return False


@inner
def _copy_signals(state, signals, first, end, by):
    """Append the signals ``first`` to ``end - 1`` for accesses ``by`` rows further on."""
    for i in range(first, end):
        g = state.used[at.SIGNALS]
        state.used[at.SIGNALS] = g + 1
        for column in range(signals.shape[1]):
            signals[g, column] = signals[i, column]
        signals[g, at.SIGNAL_ACCESS] += by


@inner
def _copy_round(state, runs, accesses, scattered, head, begin, end, access, count):
    """Append the round in the runs ``begin`` to ``end - 1``, with its ``count`` accesses from ``access`` on."""
    for row in range(begin, end):
        first = np.int64(runs[row, at.RUN_FIRST])
        stop = first + np.int64(runs[row, at.RUN_COUNT] & at.RUN_LENGTH)
        log_run(
            state, runs, runs[row, at.RUN_WARP], head if row == begin else first, stop, runs[row, at.RUN_MASK]
        )  # fmt: skip
    for i in range(count):
        copy_access(accesses, scattered, state.used, access + i)


@inner
def _has_room(state, runs, accesses, scattered, signals, wanted):
    return (
        state.used[at.RUNS] + wanted < runs.shape[0]
        and state.used[at.ACCESSES] + wanted < accesses.shape[0]
        and state.used[at.SCATTERED_ROWS] + wanted < scattered.shape[0]
        and state.used[at.SIGNALS] + wanted < signals.shape[0]
    )


@inner
def decide_round(
    state, matrix, polls, runs, accesses, scattered, signals, decision, warp, global_warp, pc, mask, jumping
):
    """As :func:`gpusim.emulator.polling.decide`, for a loop of which the round is what was executed."""
    loop, head = np.int64(polls[decision, at.POLL_LOOP]), np.int64(polls[decision, at.POLL_HEAD])
    stays = jumping if polls[decision, at.POLL_STAYS] else mask & ~jumping
    if (stays == mask and not polls[decision, at.POLL_BACK]) or (stays == 0 and not polls[decision, at.POLL_LEAVES]):
        return GOES_ON
    opened = (
        state.poll_loop[warp] == loop + 1 and state.poll_mask[warp] == mask
        and only_mine(
            state, runs, accesses, signals, warp, global_warp, mask, state.poll_mark[warp, at.SIGNALS]
        )
    )  # fmt: skip
    rounds = state.poll_rounds[warp]
    log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
    state.held_first[warp] = pc + 1
    state.poll_lanes[warp] &= ~mask
    if stays and stays != mask:
        end_polling(state, warp)
        return GOES_ON
    begin, end = _begins(state, runs, global_warp, head), state.used[at.RUNS]
    count = _only_reads(matrix, runs, head, begin, end) if begin >= 0 else np.int64(-1)
    first = state.used[at.ACCESSES] - count
    known = 0 < count <= LONGEST_ROUND and first >= 0
    if known:
        for i in range(first, state.used[at.ACCESSES]):
            # An access of other lanes of the warp, which have left the loop, is none of the round.
            known &= accesses[i, at.ACCESS_WARP] == global_warp and accesses[i, at.ACCESS_PATTERN] & mask != 0
    if not known:
        end_polling(state, warp)
        return GOES_ON
    noted, wrote, polled = state.used[at.SIGNALS], False, False
    while noted > 0 and signals[noted - 1, at.SIGNAL_ACCESS] >= first:
        noted -= 1
        wrote |= signals[noted, at.SIGNAL_POLLS] == 0
        polled |= signals[noted, at.SIGNAL_POLLS] != 0
    before = state.poll_access[warp]
    same = opened and state.poll_epoch[warp] == state.epoch and state.poll_accesses[warp] == count
    if same:
        for i in range(count):
            same &= same_place(accesses, scattered, before + i, first + i)
    if stays:
        if wrote or not alone(state, warp, mask):
            end_polling(state, warp)
            return wait_for_lanes(state, warp, mask, not wrote)
        state.poll_watch[warp] = -2
        if same:
            forget_round(state, warp)
            state.used[at.SIGNALS] = state.poll_mark[warp, at.SIGNALS]
            state.poll_rounds[warp] = rounds + 1
        else:
            state.used[at.SIGNALS] = noted
            state.poll_access[warp], state.poll_accesses[warp] = first, count
            state.poll_mask[warp], state.poll_epoch[warp] = mask, state.epoch
            state.poll_rounds[warp] = 0
        go_round(state, warp, loop)
        return WAITS
    end_polling(state, warp)
    signalled = state.used[at.SIGNALS]
    polled &= not wrote or not _adds(matrix, runs, head, begin, end)
    if polled:
        for i in range(noted, signalled):
            signals[i, at.SIGNAL_POLLS] = min(1, signals[i, at.SIGNAL_POLLS])
    if polled and same:
        # What the first round did not see, the last one did: the first is the one that waits, the last is made again
        # till then.
        _copy_signals(state, signals, noted, signalled, np.int64(0))
        for i in range(noted, signalled):
            signals[i, at.SIGNAL_ACCESS] += before - first
        for i in range(count):
            if is_sleep(
                accesses, first + i
            ):  # as long as the first one, not as the one that happened to be the last here
                accesses[first + i, at.ACCESS_ADDRESS] = accesses[before + i, at.ACCESS_ADDRESS]
        mark_runs(runs, state.poll_mark[warp, at.RUNS], end)
    elif polled:
        copied = state.used[at.RUNS]
        by = state.used[at.ACCESSES] - first
        _copy_round(state, runs, accesses, scattered, head, begin, end, first, count)
        mark_runs(runs, copied, state.used[at.RUNS])
        _copy_signals(state, signals, noted, signalled, by)
    elif same:
        while rounds > 0 and _has_room(state, runs, accesses, scattered, signals, LONGEST_ROUND):
            _copy_round(state, runs, accesses, scattered, head, begin, end, first, count)
            rounds -= 1
    return GOES_ON


@inner
def give_up(
    state, matrix, registers, polls, runs, accesses, scattered, signals, decision, warp, global_warp, pc, mask, jumping
):
    """The warp's lanes come to a branch at which a loop ends whose round is known, although nobody has written: the
    rounds that left the log belong into it."""
    stays = jumping if polls[decision, at.POLL_STAYS] else mask & ~jumping
    if state.poll_loop[warp] != np.int64(polls[decision, at.POLL_LOOP]) + 1 or stays:
        return
    made, access, rounds = state.poll_decision[warp] - 1, state.poll_access[warp], state.poll_rounds[warp]
    known = state.poll_epoch[warp] == state.epoch
    log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
    state.held_first[warp] = pc + 1
    while known and rounds > 0 and _has_room(state, runs, accesses, scattered, signals, DECISION_ROWS):
        log_path(
            state, matrix, registers, polls, runs, accesses, scattered, made, access, warp, global_warp, mask,
            np.int64(at.POLL_SLEEPS),
        )  # fmt: skip
        rounds -= 1
    end_polling(state, warp)


@inner
def take_lock(state, polls, runs, accesses, scattered, matrix, signals, decision, warp, global_warp, pc, mask, jumping):
    """The warp's lanes ``mask`` come to an instruction behind an atomic that may have taken a lock, and what looked at
    its result. If it did, and the lock was another's before, the atomic waited for that: it is made again until then.
    What else stands in its loop, the work of who holds the lock even, is no part of the waiting."""
    access, first_signal = state.poll_last[warp], state.poll_needs[warp]
    begin = np.int64(polls[decision, at.POLL_HEAD])
    count = np.int64(0)
    for i in range(begin, pc):
        count += matrix[i, at.RECORDS]
    end, signalled = state.used[at.ACCESSES], state.used[at.SIGNALS]
    if access < 0 or access != end - count or state.held_first[warp] > begin:
        return
    for i in range(access, end):
        if accesses[i, at.ACCESS_WARP] != global_warp:
            return
    polled, wrote = False, False
    for i in range(first_signal, signalled):
        polled |= signals[i, at.SIGNAL_POLLS] != 0 and signals[i, at.SIGNAL_ACCESS] == access
        wrote |= signals[i, at.SIGNAL_POLLS] == 0 and signals[i, at.SIGNAL_ACCESS] == access
    # A load before the loop takes nothing: it has waited if all lanes pass the loop by.
    lock = polls[decision, at.POLL_BACK]
    leaving = mask & ~jumping if polls[decision, at.POLL_STAYS] else jumping
    if not polled or (not wrote if lock else leaving != mask):
        return
    # A branch that all lanes pass is part of the round: it may be all that waits for what the load has found.
    behind = pc + 1 if not lock and polls[decision, at.POLL_STAYS] else pc
    log_run(state, runs, global_warp, state.held_first[warp], behind, mask)
    state.held_first[warp] = behind
    log_run(state, runs, global_warp, begin, behind, mask)
    mark_runs(runs, state.used[at.RUNS] - 1, state.used[at.RUNS])
    for i in range(count):
        copy_access(accesses, scattered, state.used, access + i)
    for i in range(first_signal, signalled):
        signals[i, at.SIGNAL_POLLS] = min(1, signals[i, at.SIGNAL_POLLS])
    _copy_signals(state, signals, first_signal, signalled, count)


@inner
def decision_at(polls, pc):
    """Row of ``polls`` with the decision at ``pc``, which there is."""
    decision = np.int64(polls.shape[0]) - 1
    while polls[decision, at.POLL_AT] != pc:
        decision -= 1
    return decision


@seldom
def decide_polling(
    state, matrix, registers, polls, runs, accesses, scattered, words, signals, history, warp, global_warp, pc, mask,
    jumping,
):  # fmt: skip
    """As :func:`gpusim.emulator.polling.decide`, at a decision of any kind."""
    decision = decision_at(polls, pc)
    kind, fate = polls[decision, at.POLL_KIND], np.int64(GOES_ON)
    if kind == at.POLL_EXACT:
        fate = np.int64(
            decide(
                state, matrix, registers, polls, runs, accesses, scattered, words, signals, history, decision, warp, global_warp, pc, mask,
                jumping,
            )
        )  # fmt: skip
    elif kind == at.POLL_ROUND:
        fate = np.int64(
            decide_round(
                state, matrix, polls, runs, accesses, scattered, signals, decision, warp, global_warp, pc, mask, jumping
            )
        )
    elif kind == at.POLL_SWAPPED:
        take_lock(
            state, polls, runs, accesses, scattered, matrix, signals, decision, warp, global_warp, pc, mask, jumping
        )
    else:
        give_up(
            state, matrix, registers, polls, runs, accesses, scattered, signals, decision, warp, global_warp, pc, mask,
            jumping,
        )  # fmt: skip
    return fate
