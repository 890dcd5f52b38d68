"""For how long a loop waits that reads the clock until it is late enough: what the trace says in place of the
emulator's rounds.

Mental model: such a loop (:mod:`gpusim.emulator.clock_loops`) compares the clock with what a reading before it gave,
and with what is the same in every round. A round of it computes nothing from what an earlier one left, so it may be
computed for any time: the first at which a lane leaves, counted from that earlier reading, is how long it waits. It is
found by search, with the clock shown as it would be; then the clock is put forward for the warp, and the loop ends. The
log gets one round and, at the branch that decides, the time; the simulated warp goes round until its own clock has come
so far. Loops of other shapes stay as they were emulated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.emulator.control_flow import log_run, log_sleep
from gpusim.emulator.foresight import place_of, run_path
from gpusim.emulator.poll_code import Code
from gpusim.emulator.polling import mark_runs
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.trace.layout import CLOCK_ADDRESS, CLOCK_SLOTS, MAX_CLOCK_WAIT
from gpusim.trace.record import Flag, Program

#: Instructions of the longest loop that is looked at.
_LONGEST = 192
#: Bytes of a clock wait's record, as of any that names no memory.
_RECORD_BYTES = 4


@dataclass(frozen=True)
class TimedLoop:
    """A loop that waits for a time: the branch ``at`` which that is decided; ``stays_taken``: who goes on waiting jumps
    there; ``path`` (first, count) of the instructions from it to itself; the clock is read at ``reads``, and was before
    the loop at one of ``sources``."""

    at: int
    head: int
    stays_taken: bool
    path: tuple[tuple[int, int], ...]
    reads: tuple[int, ...]
    sources: frozenset[int]


def timed_loops(matrix: np.ndarray) -> list[TimedLoop]:
    """The loops of a code matrix int32[n, COLUMNS], whose offsets are counted in whole rows, of which it is known for
    how long they wait."""
    special = matrix[:, at.OP] == ops.SPECIAL
    if not np.isin(matrix[special, at.F0], ops.CLOCKS).any():
        return []
    code = Code(matrix)
    backs = [i for i in np.flatnonzero(matrix[:, at.OP] == ops.BRANCH).tolist() if 0 <= code.target(i) <= i]
    heads = [code.target(i) for i in backs]
    loops = ((head, back) for head, back in zip(heads, backs, strict=True) if heads.count(head) == 1)
    return [loop for head, back in loops if back < head + _LONGEST and (loop := _timed(code, matrix, head, back))]


def _timed(code: Code, matrix: np.ndarray, head: int, back: int) -> TimedLoop | None:
    """The loop ``head`` to ``back`` if it waits for a time, in rounds without other branches that differ in nothing but
    the clock."""
    inside = range(head, back + 1)
    if not all(code.is_harmless(i) for i in inside) or not code.carries_nothing(inside) or code.sleep_changes(inside):
        return None
    leaving = [i for i in inside if code.op(i) == ops.BRANCH and any(s not in inside for s in code.successors(i))]
    branches = {i for i in inside if code.op(i) == ops.BRANCH}
    if len(leaving) != 1 or branches != {leaving[0], back} or (leaving[0] != back and code.is_conditional(back)):
        return None
    decision = leaving[0]
    reads = tuple(i for i in inside if code.reads_clock(i))
    sources = code.clock_sources(decision, head, back)
    in_ns = {bool(matrix[i, at.F1] & ops.CLOCK_NANOSECONDS) for i in (*reads, *sources)}
    if not reads or not sources or len(in_ns) != 1:
        return None
    stays_taken = code.target(decision) in inside
    path = code.path(decision, head, inside, stays_taken)
    return None if path is None else TimedLoop(decision, head, stays_taken, path, reads, sources)


def clock_columns(matrix: np.ndarray) -> np.ndarray:
    """Fill the columns ORDERED, RECORDS and F1 of a code matrix, as :func:`timed_loops` takes it, with what such loops
    ask for. Returns their decisions, int32[d, POLL columns]."""
    slots: dict[frozenset[int], int] = {}
    loops = [loop for loop in timed_loops(matrix) if slots.setdefault(loop.sources, len(slots)) < CLOCK_SLOTS]
    table = np.zeros((len(loops), at.POLL_TABLE.width), np.int32)
    for row, loop in zip(table, loops, strict=True):
        row[at.POLL_AT], row[at.POLL_HEAD], row[at.POLL_LOOP] = loop.at, loop.head, -1 - loop.at
        row[at.POLL_KIND], row[at.POLL_STAYS], row[at.POLL_LEAVES] = at.POLL_TIME, loop.stays_taken, 1
        row[at.POLL_SLOT], row[at.POLL_COUNT] = slots[loop.sources], len(loop.path)
        row[at.POLL_PATH : at.POLL_PATH + 2 * len(loop.path)] = np.ravel(loop.path)
        matrix[loop.at, at.ORDERED] |= at.WAITS_FOR_TIME
        matrix[loop.at, at.RECORDS] = 1
        for source in loop.sources:
            matrix[source, at.F1] |= 1 << (ops.CLOCK_SLOT_SHIFT + slots[loop.sources])
    return table


def mark_clock(program: Program, matrix: np.ndarray, polls: np.ndarray) -> None:
    """Say in ``program`` what :func:`clock_columns` has found: which instructions read the clock, and where it
    decides."""
    code = program.instructions
    for decision in polls[polls[:, at.POLL_KIND] == at.POLL_TIME]:
        branch, slot = int(decision[at.POLL_AT]), int(decision[at.POLL_SLOT])
        path = decision[at.POLL_PATH : at.POLL_PATH + 2 * decision[at.POLL_COUNT]].reshape(-1, 2)
        inside = np.concatenate([np.arange(first, first + count) for first, count in path])
        clocks = (matrix[:, at.OP] == ops.SPECIAL) & np.isin(matrix[:, at.F0], ops.CLOCKS)
        reads = inside[clocks[inside]]
        in_ns = int(matrix[reads[0], at.F1] & ops.CLOCK_NANOSECONDS)
        code["flags"][branch] |= int(Flag.CLOCK_WAIT)
        code["records"][branch], code["access_bytes"][branch] = 1, _RECORD_BYTES
        code["constant_offset"][branch] = 2 * slot + in_ns
        sources = np.flatnonzero(clocks & ((matrix[:, at.F1] >> (ops.CLOCK_SLOT_SHIFT + slot)) & 1 != 0))
        code["flags"][np.concatenate((reads, sources))] |= int(Flag.CLOCK)
        code["constant_offset"][sources] |= 1 << slot


@inner
def _leaving_at(state, matrix, registers, polls, decision, warp, mask, time):
    """The lanes of ``mask`` that would leave the loop if the clock said ``time``; the registers are as if it did."""
    state.clock_shown = time
    run_path(state, matrix, registers, polls, decision, warp, mask)
    state.clock_shown = 0
    row, (_, slots) = matrix[polls[decision, at.POLL_AT]], place_of(state, warp)
    jumping = mask
    for column in (at.GUARD, at.P0):
        jumping &= state.predicates[slots + row[column] * at.GROUP_WARPS] ^ np.int64(row[column + 1])
    return mask & ~jumping if polls[decision, at.POLL_STAYS] else jumping


@inner
def _find_wait(state, matrix, registers, polls, decision, warp, mask, stays):
    """How many ticks behind the reading that it waits from the clock must be for a lane of ``mask`` to leave the loop,
    if no lane does now, which ``stays`` says, or else might have been; -1: no time is enough."""
    since = state.clock_from[warp, np.int64(polls[decision, at.POLL_SLOT])]
    low, high = np.int64(0), np.int64(1)
    if stays:
        low = max(state.clock_read[warp] - since, low)
        high = max(2 * low, high)
    while _leaving_at(state, matrix, registers, polls, decision, warp, mask, since + high) == 0:
        low, high = high, 2 * high
        if high > MAX_CLOCK_WAIT:
            return np.int64(-1)
    while high - low > 1:
        middle = (low + high) >> 1
        if _leaving_at(state, matrix, registers, polls, decision, warp, mask, since + middle):
            high = middle
        else:
            low = middle
    return high


@inner
def _log_wait(state, accesses, global_warp, ticks, mask):
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    accesses[n, at.ACCESS_WARP] = global_warp
    accesses[n, at.ACCESS_ADDRESS] = CLOCK_ADDRESS + ticks
    accesses[n, at.ACCESS_PATTERN] = mask


@seldom
def wait_for_time(state, matrix, registers, polls, runs, accesses, decision, warp, global_warp, pc, mask):
    """The warp's lanes ``mask`` come to the ``decision`` at ``pc`` of a loop that waits for a time. True if that is now
    known, and the registers are as they are when it ends: then they are to come there again. Else it has been logged,
    and they go on."""
    if state.clock_wait[warp] == 0:
        now = state.clock_read[warp]
        stays = _leaving_at(state, matrix, registers, polls, decision, warp, mask, now) == 0
        ticks = _find_wait(state, matrix, registers, polls, decision, warp, mask, stays)
        end = now
        if ticks >= 0:
            end = max(now, state.clock_from[warp, np.int64(polls[decision, at.POLL_SLOT])] + ticks)
        _leaving_at(state, matrix, registers, polls, decision, warp, mask, end)
        state.clock_ahead[warp] += end - now
        state.clock_wait[warp] = 1 + ticks if ticks >= 0 else np.int64(-1)
        return True
    ticks = max(state.clock_wait[warp] - 1, np.int64(0))
    state.clock_wait[warp] = 0
    log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
    state.held_first[warp] = pc + 1
    _log_wait(state, accesses, global_warp, ticks, mask)
    if ticks == 0:
        return False
    begin = state.used[at.RUNS]
    base, _ = place_of(state, warp)
    for i in range(polls[decision, at.POLL_COUNT]):
        first = np.int64(polls[decision, at.POLL_PATH + 2 * i])
        end = first + np.int64(polls[decision, at.POLL_PATH + 2 * i + 1])
        log_run(state, runs, global_warp, first, end, mask)
        for sleep in range(first, end):
            if matrix[sleep, at.RECORDS] and matrix[sleep, at.OP] == ops.GIVE_WAY:
                x = np.int64(matrix[sleep, at.A + at.SOURCE_OFFSET])
                x += np.int64(matrix[sleep, at.A + at.SOURCE_OWN]) & base
                log_sleep(state, accesses, registers, warp, global_warp, x, mask, mask)
    _log_wait(state, accesses, global_warp, ticks, mask)
    mark_runs(runs, begin, state.used[at.RUNS])
    return False
