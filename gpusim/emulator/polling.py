"""Warps that poll: rounds that only repeat leave the log, and what ends the polling is noted in it.

Mental model: when a polling loop ends, the log gets the load that saw the change with the count that it saw (a
*signal*), and one round of the loop, marked: "go round until the word has been written so often". What the emulator
went round itself is taken out, so the log does not depend on whose turn came when; a warp that has to go on polling
gives way, and its block sleeps until a word that it polls is written. A warp that then finds its word changed more than
once asks which change would have let it go: it looks at what the word held before, in the middle first, until it knows.
So nobody is taken to wait for more than what let it go, and the time that this takes hardly grows with how many write.
A count and not a value: whoever waits for the last of many arrivals waits for all of them, in whatever order they come.

Which instructions matter is known before the launch (:mod:`gpusim.emulator.poll_loops`): polling loads, strong stores,
atomics, and plain stores by one lane, as flags are set.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.control_flow import log_run, log_sleep
from gpusim.emulator.foresight import foresee_sleeps, own_decision
from gpusim.emulator.poll_words import date_back, is_kept, last_own_change
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.trace.layout import SLEEP_ADDRESS
from gpusim.trace.record import SCATTERED

_SCATTERED = int(SCATTERED)
#: What becomes of a warp at a decision: it goes on, or round again, after others or at once, or after others of its
#: lanes.
GOES_ON, WAITS, LOOKS_AGAIN, LANES_WAIT = range(4)
#: What a clock goes on by from one look to the next, in instructions: about those of a round.
_ROUND_TICKS = 16


@inner
def mark_runs(runs, first, end):
    """The runs ``first`` to ``end - 1`` are one round of polling."""
    runs[first, at.RUN_COUNT] = (runs[first, at.RUN_COUNT] & at.RUN_LENGTH) | ((end - first) << at.RUN_POLL_SHIFT)


@inner
def mark_round(state, warp):
    """What is logged from now on is a round of the warp's polling loop."""
    for part in range(5):
        state.poll_mark[warp, part] = state.used[part]
    state.poll_mark[warp, 5] = state.epoch


@seldom
def begin_round(state, warp):
    """A warp goes on that gave way while it polled: others may have logged since."""
    if state.poll_loop[warp] and state.poll_left[warp]:
        state.poll_left[warp] = 0
        mark_round(state, warp)


@inner
def only_mine(state, runs, accesses, signals, warp, global_warp, mask, looked):
    """Whether all that was logged since the round began is of the warp's lanes ``mask``, still there, and wrote nothing
    in the signals before row ``looked``. Else it has to stay: whoever leaves the loop earlier than other lanes of the
    warp, as in a lock that each lane takes, works and writes between two of their rounds."""
    if state.poll_mark[warp, 5] != state.epoch:
        return False
    for i in range(state.poll_mark[warp, at.RUNS], state.used[at.RUNS]):
        if runs[i, at.RUN_WARP] != global_warp or runs[i, at.RUN_MASK] & ~mask:
            return False
    for i in range(state.poll_mark[warp, at.ACCESSES], state.used[at.ACCESSES]):
        if accesses[i, at.ACCESS_WARP] != global_warp:
            return False
    wrote = False
    for i in range(state.poll_mark[warp, at.SIGNALS], looked):
        wrote |= signals[i, at.SIGNAL_POLLS] == 0
    return not wrote


@inner
def alone(state, warp, mask):
    """Whether the warp's other lanes, if any, wait for the lanes ``mask`` to come to them."""
    for f in range(state.fragments[warp]):
        status = state.fragment[warp, f]
        awaits = status == at.AT_CONVERGENCE or (status == at.AT_WARP_WAIT and state.wait[warp, f] & mask)
        if status != at.FREE and not awaits:
            return False
    return True


@inner
def is_sleep(accesses, row):
    """Whether the record is of a NANOSLEEP, which rounds that are alike may make longer and longer."""
    scatters = accesses[row, at.ACCESS_PATTERN] >> 32 == _SCATTERED
    return not scatters and accesses[row, at.ACCESS_ADDRESS] >= SLEEP_ADDRESS


@inner
def same_place(accesses, scattered, one, other):
    if is_sleep(accesses, one) or is_sleep(accesses, other):
        return is_sleep(accesses, one) and is_sleep(accesses, other)
    if accesses[one, at.ACCESS_PATTERN] != accesses[other, at.ACCESS_PATTERN]:
        return False
    a, b = accesses[one, at.ACCESS_ADDRESS], accesses[other, at.ACCESS_ADDRESS]
    if accesses[one, at.ACCESS_PATTERN] >> 32 != _SCATTERED:
        return a == b
    same = True
    for lane in range(at.LANES):
        same &= scattered[a, lane] == scattered[b, lane]
    return same


@inner
def forget_round(state, warp):
    for part in (at.RUNS, at.ACCESSES, at.SCATTERED_ROWS):
        state.used[part] = state.poll_mark[warp, part]


@inner
def copy_access(accesses, scattered, used, source):
    """Append the access ``source`` once more."""
    n = used[at.ACCESSES]
    used[at.ACCESSES] = n + 1
    for column in range(accesses.shape[1]):
        accesses[n, column] = accesses[source, column]
    if accesses[n, at.ACCESS_PATTERN] >> 32 == _SCATTERED:
        s = used[at.SCATTERED_ROWS]
        used[at.SCATTERED_ROWS] = s + 1
        for lane in range(at.LANES):
            scattered[s, lane] = scattered[accesses[source, at.ACCESS_ADDRESS], lane]
        accesses[n, at.ACCESS_ADDRESS] = s


@inner
def _own_place(state, warp):
    """Where the lanes of the warp's own rows begin among the registers."""
    group = warp // at.GROUP_WARPS
    return state.own_base + group * state.own_stride + (warp - group * at.GROUP_WARPS) * at.LANES


@inner
def log_path(
    state, matrix, registers, polls, runs, accesses, scattered, decision, access, warp, global_warp, mask, number
):
    """Append the way from ``decision`` to the next: its runs, the access ``access`` and, of a NANOSLEEP by a register,
    the time of round ``number`` if that is known, else of the first that was made, or that would be made now. Returns
    the row of the access."""
    loaded = np.int64(0)
    for i in range(polls[decision, at.POLL_COUNT]):
        first = np.int64(polls[decision, at.POLL_PATH + 2 * i])
        end = first + np.int64(polls[decision, at.POLL_PATH + 2 * i + 1])
        log_run(state, runs, global_warp, first, end, mask)
        for pc in range(first, end):
            if matrix[pc, at.RECORDS] == 0:
                continue
            if matrix[pc, at.OP] == ops.GIVE_WAY:
                x = np.int64(matrix[pc, at.A + at.SOURCE_OFFSET])
                x += np.int64(matrix[pc, at.A + at.SOURCE_OWN]) & _own_place(state, warp)
                log_sleep(state, accesses, registers, warp, global_warp, x, mask, mask)
                sleep = state.used[at.ACCESSES] - 1
                accesses[sleep, at.ACCESS_ADDRESS] = state.poll_sleep[warp]
                if number < state.poll_sleeps_known[warp]:
                    accesses[sleep, at.ACCESS_ADDRESS] = SLEEP_ADDRESS + state.poll_sleeps[warp, number]
                    if number + 1 < state.poll_sleeps_known[warp]:
                        accesses[sleep, at.ACCESS_PATTERN] |= np.int64(1) << 32  # another round follows
            else:
                loaded = state.used[at.ACCESSES]
                copy_access(accesses, scattered, state.used, access)
    return loaded


@inner
def _log_round(
    state, matrix, registers, polls, runs, accesses, scattered, signals, decision, access, first_signal, warp,
    global_warp, mask,
):  # fmt: skip
    """Append the round of polling that follows ``decision``, whose access is ``access`` with its signals, from
    ``first_signal`` on; of a back-off one for each time that it sleeps."""
    end_signal, way = state.used[at.SIGNALS], np.int64(decision)
    for number in range(max(np.int64(1), state.poll_sleeps_known[warp])):
        begin = state.used[at.RUNS]
        n = log_path(
            state, matrix, registers, polls, runs, accesses, scattered, way, access, warp, global_warp, mask, number
        )  # fmt: skip
        mark_runs(runs, begin, state.used[at.RUNS])
        for i in range(first_signal, end_signal):
            g = state.used[at.SIGNALS]
            state.used[at.SIGNALS] = g + 1
            for column in range(signals.shape[1]):
                signals[g, column] = signals[i, column]
            signals[g, at.SIGNAL_ACCESS] = n
        if number == 0:
            way = own_decision(polls, decision)


@inner
def wait_for_lanes(state, warp, mask, waits):
    """What becomes of the lanes ``mask`` at a decision that is logged: those that go on polling, ``waits``, let others
    of their warp go first, which may hold what they wait for; how often they look meanwhile is no time."""
    if not waits:
        state.poll_lanes[warp] &= ~mask
        return GOES_ON
    state.poll_lanes[warp] |= mask
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] == at.READY and state.mask[warp, f] & ~state.poll_lanes[warp]:
            return LANES_WAIT
    return GOES_ON


@inner
def go_round(state, warp, loop):
    """The warp polls in ``loop`` and will look again."""
    state.poll_loop[warp], state.poll_left[warp] = loop + 1, 1
    # How often it looks until others write is no time: a clock hardly goes on meanwhile.
    state.poll_clock[warp] = state.clock + _ROUND_TICKS


@inner
def seek(state, words, history, warp, leaves, wrote):
    """Whether the warp, which ``leaves`` the loop or goes on polling by what it was shown, must look again before it is
    known which change would have let it go: ``poll_found``."""
    low, high = state.poll_low[warp], state.poll_count[warp]
    if state.probe[warp]:
        low, high = state.probe_low[warp], state.probe_high[warp]
        if leaves:
            high = state.probe[warp]
        else:
            low = state.probe[warp]
    elif not leaves or wrote or state.poll_words[warp] != 1 or state.poll_found[warp]:
        return False
    middle = (low + high) // 2
    if high - low > 1 and is_kept(state, words, history, warp, middle):
        state.probe_low[warp], state.probe_high[warp], state.probe[warp] = low, high, middle
        return True
    state.poll_found[warp] = high
    if state.probe[warp] == 0:
        return False
    state.probe[warp] = 0  # and now at what is there
    return True


@inner
def seek_at_once(state, words, history, warp, again, first):
    """The same of a warp that leaves the loop at its first look: somewhere behind its own last change of the word is
    the one that it waits for; the next one, if it must not go round ``again`` and what it would take for it is the
    ``first``."""
    low, high = last_own_change(state, words, history, warp), state.poll_count[warp]
    middle = (low + high) // 2
    if high - low == 1 or (not again and first and high > low):
        state.poll_found[warp] = low + 1
        return False
    if not again or high <= low or not is_kept(state, words, history, warp, middle):
        return False
    state.probe_low[warp], state.probe_high[warp], state.probe[warp] = low, high, middle
    return True


@inner
def end_polling(state, warp):
    """The warp polls no more, or anew."""
    state.poll_loop[warp] = state.poll_found[warp] = state.poll_rounds[warp] = state.poll_low[warp] = 0
    state.poll_sleep[warp] = state.poll_sleeps_known[warp] = 0


@inner
def decide(
    state, matrix, registers, polls, runs, accesses, scattered, words, signals, history, decision, warp, global_warp, pc,
    mask, jumping,
):  # fmt: skip
    """The warp's lanes ``mask`` come to the ``decision`` at ``pc`` of a loop whose round is known, of which ``jumping``
    take the branch. WAITS if all of them go on polling, and nothing that they did shows: the log is then as it was
    before. Else the run so far is logged. LOOKS_AGAIN: they would leave, and go round to find out since when they might
    have. LANES_WAIT: they go on polling while other lanes of the warp do something else."""
    loop = np.int64(polls[decision, at.POLL_LOOP])
    stays = jumping if polls[decision, at.POLL_STAYS] else mask & ~jumping
    access, needs = state.poll_last[warp], state.poll_needs[warp]
    polled, wrote = False, False
    here = 0 <= access < state.used[at.ACCESSES] and accesses[access, at.ACCESS_WARP] == global_warp
    if here:
        for i in range(needs, state.used[at.SIGNALS]):
            polled |= signals[i, at.SIGNAL_POLLS] != 0 and signals[i, at.SIGNAL_ACCESS] == access
            wrote |= signals[i, at.SIGNAL_POLLS] == 0
    polling = state.poll_loop[warp] == loop + 1 and state.poll_mask[warp] == mask
    opened = polling and here and only_mine(state, runs, accesses, signals, warp, global_warp, mask, needs)
    if not polling:
        end_polling(state, warp)
        foresee_sleeps(state, matrix, registers, polls, decision, warp, mask)
    again = stays == mask and here and not wrote and alone(state, warp, mask)
    if (opened or state.probe[warp]) and seek(state, words, history, warp, stays == 0, wrote):
        if opened:
            forget_round(state, warp)
            state.used[at.SIGNALS] = state.poll_mark[warp, at.SIGNALS]
        go_round(state, warp, loop)
        return LOOKS_AGAIN
    late = polled and not wrote and not polling and stays == 0 and state.poll_words[warp] == 1
    again_at_once = polls[decision, at.POLL_AGAIN] != 0 and alone(state, warp, mask)
    first_does = late and signals[needs, at.SIGNAL_COUNT] < state.poll_count[warp]
    if late and seek_at_once(state, words, history, warp, again_at_once, first_does):
        log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
        state.used[at.SIGNALS] = needs
        state.poll_mask[warp], state.poll_decision[warp] = mask, decision + 1
        state.poll_access[warp], state.poll_epoch[warp] = access, state.epoch
        state.poll_rounds[warp], state.poll_accesses[warp] = 0, 1
        go_round(state, warp, loop)
        return LOOKS_AGAIN
    if again:
        state.poll_found[warp], state.poll_low[warp] = 0, state.poll_count[warp] if state.poll_words[warp] == 1 else 0
        go_round(state, warp, loop)
    else:
        state.poll_loop[warp] = 0
    state.poll_lanes[warp] &= ~mask
    if opened and again:
        forget_round(state, warp)
        state.used[at.SIGNALS] = state.poll_mark[warp, at.SIGNALS]
        state.poll_rounds[warp] += 1
        return WAITS
    if state.poll_found[warp]:
        date_back(state, words, signals, history, warp, needs)
    first = state.poll_access[warp]
    if opened and state.poll_epoch[warp] == state.epoch and same_place(accesses, scattered, first, access):
        # The round that saw the change counts as the first one, which the lanes came with.
        begin = state.poll_mark[warp, at.SIGNALS]
        kept = state.used[at.SIGNALS] - needs
        for i in range(kept):
            for column in range(signals.shape[1]):
                signals[begin + i, column] = signals[needs + i, column]
            signals[begin + i, at.SIGNAL_ACCESS] = first
        forget_round(state, warp)
        state.used[at.SIGNALS] = begin + kept
        state.held_first[warp] = pc + 1
        if polled:
            _log_round(
                state, matrix, registers, polls, runs, accesses, scattered, signals, state.poll_decision[warp] - 1, first,
                begin, warp, global_warp, mask,
            )  # fmt: skip
        end_polling(state, warp)
        return GOES_ON
    log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
    state.held_first[warp] = pc + 1
    if again:
        state.used[at.SIGNALS] = needs
        state.poll_mask[warp], state.poll_decision[warp] = mask, decision + 1
        state.poll_access[warp], state.poll_epoch[warp] = access, state.epoch
        state.poll_rounds[warp], state.poll_accesses[warp] = 0, 1
        return WAITS
    if polled and here:
        _log_round(
            state, matrix, registers, polls, runs, accesses, scattered, signals, decision, access, needs, warp,
            global_warp, mask,
        )  # fmt: skip
    end_polling(state, warp)
    return wait_for_lanes(state, warp, mask, stays == mask and here and not wrote)
