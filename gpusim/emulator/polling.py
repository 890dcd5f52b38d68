"""Warps that poll: rounds that only repeat leave the log, and what ends the polling is noted in it.

Mental model: words of memory that warps wait for have numbers, and each write that changes one is counted. When a polling
loop ends, the log gets the load that saw the change with the count that it saw (a *signal*), and one round of the loop,
marked: "go round until the word has been written so often". What the emulator went round itself is taken out, so the log does
not depend on whose turn came when; a warp that has to go on polling gives way at once. And before a word that is polled is
written again, all who poll look at it, so that nobody is taken to wait for more than what let it go. Writes are noted with their counts as
well. A count and not a value: whoever waits for the last of many arrivals waits for all of them, in whatever order they come.

Which instructions matter is known before the launch (:mod:`gpusim.emulator.poll_loops`): polling loads, strong stores,
atomics, and plain stores by one lane, as flags are set.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import GENERIC, SHARED, find_allocation
from gpusim.emulator.addresses import lane_addresses
from gpusim.emulator.control_flow import log_run
from gpusim.emulator.pointers import load32
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import allocating, inlined, inner
from gpusim.trace.record import SCATTERED

_SHARED_KEY, _BLOCK_SHIFT = np.int64(1) << 61, 22
#: Most entries of ``signals`` and of ``words`` that one instruction of one warp adds: four words a lane, polled and written.
_MOST_SIGNALS, _MOST_WORDS = 8 * at.LANES, 4 * at.LANES
_NOWHERE = np.int64(0)
#: Times that warps give way before a write while one that polls does not look: lanes of their own warp may be that one.
_MOST_HELD_BACK = 1 << 12
_SCATTERED = int(SCATTERED)


@inlined
def room_to_poll(state, words, signals):
    """Whether warps in lockstep may add as many signals and words as one instruction can."""
    return words.shape[0] == 0 or (
        state.used[at.SIGNALS] + (at.GROUP_WARPS + 1) * _MOST_SIGNALS < signals.shape[0]
        and 2 * (state.words_used + at.GROUP_WARPS * _MOST_WORDS) < words.shape[0]
    )


@inner
def _find(words, key):
    """Row of the word in ``words``, or ~ the row where it belongs."""
    last = words.shape[0] - 1
    mixed = (key ^ (key >> 15)) * np.int64(0x2545F491)
    row = (mixed ^ (mixed >> 21)) & last
    while words[row, at.WORD_KEY]:
        if words[row, at.WORD_KEY] == key:
            return row
        row = (row + 1) & last
    return ~row


@allocating
def rehash(words, larger):
    """Copy all words to ``larger``, which is empty."""
    for i in range(words.shape[0]):
        if words[i, at.WORD_KEY]:
            row = ~_find(larger, words[i, at.WORD_KEY])
            for column in range(words.shape[1]):
                larger[row, column] = words[i, column]


@inner
def _locate(state, allocations, hint, index, space, address):
    """(key, host address) of the 32-bit word at ``address``; key 0 where it is in no memory that others see."""
    window = address >> 32
    if space == SHARED or (space == GENERIC and window == state.shared_window >> 32):
        offset = (address & 0xFFFFFF if space == GENERIC else address) - state.shared_base
        if offset < 0 or offset + 4 > state.shared_bytes:
            return _NOWHERE, _NOWHERE
        return _SHARED_KEY | ((state.linear << _BLOCK_SHIFT) + offset + 1), state.shared_host + offset
    if space == GENERIC and window == state.local_window >> 32:
        return _NOWHERE, _NOWHERE
    found = find_allocation(allocations, hint, index, address, np.int64(4)) if address >= 0 else np.int64(-1)
    if found < 0:
        return _NOWHERE, _NOWHERE
    return (address >> 2) + 1, address - allocations[found, 0] + allocations[found, 2]


@inner
def _insert(state, words, row, key, value):
    """Give the word ``key``, which holds ``value``, row ``row``, with no writes so far."""
    words[row, at.WORD_VALUE] = words[row, at.WORD_FIRST] = value
    words[row, at.WORD_KEY], words[row, at.WORD_INDEX], words[row, at.WORD_COUNT] = key, state.words_used, 0
    words[row, at.WORD_POLLED] = 0
    words[row, at.WORD_SHARED], words[row, at.WORD_WRITER] = 0, -1
    state.words_used += 1


@inner
def _signal(state, words, signals, row, access, polls):
    n = state.used[at.SIGNALS]
    state.used[at.SIGNALS] = n + 1
    writer = words[row, at.WORD_WRITER]
    signals[n, at.SIGNAL_ACCESS], signals[n, at.SIGNAL_WORD] = access, words[row, at.WORD_INDEX]
    signals[n, at.SIGNAL_POLLS], signals[n, at.SIGNAL_COUNT] = polls, words[row, at.WORD_COUNT]
    signals[n, at.SIGNAL_BLOCK], signals[n, at.SIGNAL_WARP] = writer // at.MAX_WARPS, writer % at.MAX_WARPS
    key = words[row, at.WORD_KEY]
    is_shared = key >= _SHARED_KEY
    signals[n, at.SIGNAL_ADDRESS] = (key & ((1 << _BLOCK_SHIFT) - 1)) - 1 if is_shared else (key - 1) << 2


@inner
def note_before(state, matrix, registers, allocations, hint, words, signals, pc, warp, own_base, mask):
    """Before an access that is tracked: keep its addresses, what an atomic finds, and what a poll will see."""
    if words.shape[0] == 0:
        return
    row = matrix[pc]
    lane_addresses(state, matrix, registers, pc, own_base)
    for lane in range(at.LANES):
        state.noted[lane] = state.address[lane]
    polls = row[at.TRACK] & at.TRACK_POLL
    if polls:
        state.poll_last[warp], state.poll_needs[warp] = state.used[at.ACCESSES], state.used[at.SIGNALS]
    if row[at.TRACK] == at.TRACK_ONE_LANE and mask & (mask - 1):
        return
    me, space = state.linear * at.MAX_WARPS + warp, np.int64(row[at.SPACE])
    last = np.int64(-1)
    for lane in range(at.LANES):
        if not (mask >> lane) & 1 or state.noted[lane] == last:
            continue
        last = state.noted[lane]
        for word in range((row[at.BYTES] + 3) >> 2):
            key, host = _locate(state, allocations, hint, pc, space, (last & ~np.int64(3)) + 4 * word)
            if key == 0:
                continue
            found = _find(words, key)
            if found < 0:
                found = ~found
                _insert(state, words, found, key, np.int64(load32(host)))
            if polls:
                words[found, at.WORD_POLLED] = 1
            if polls and words[found, at.WORD_COUNT]:
                if words[found, at.WORD_SHARED] or words[found, at.WORD_WRITER] != me:
                    _signal(state, words, signals, found, state.used[at.ACCESSES], 1)
                    # A word that is no longer what it was: the first change would have let whoever waits go.
                    if row[at.TRACK] & at.TRACK_VALUE and words[found, at.WORD_VALUE] != words[found, at.WORD_FIRST]:
                        signals[state.used[at.SIGNALS] - 1, at.SIGNAL_COUNT] = 1


@inner
def note_writes(state, row, allocations, hint, words, signals, pc, warp, mask):
    """After an access that is tracked: count the words that it has changed."""
    if words.shape[0] == 0 or row[at.OP] == ops.LOAD:
        return
    if row[at.TRACK] == at.TRACK_ONE_LANE and mask & (mask - 1):
        return
    me, space = state.linear * at.MAX_WARPS + warp, np.int64(row[at.SPACE])
    last = np.int64(-1)
    for lane in range(at.LANES):
        if not (mask >> lane) & 1 or state.noted[lane] == last:
            continue
        last = state.noted[lane]
        for word in range((row[at.BYTES] + 3) >> 2):
            key, host = _locate(state, allocations, hint, pc, space, (last & ~np.int64(3)) + 4 * word)
            if key == 0:
                continue
            found, value = _find(words, key), np.int64(load32(host))
            if found < 0:  # it was met before the access
                continue
            if words[found, at.WORD_VALUE] == value:
                continue
            words[found, at.WORD_VALUE] = value
            words[found, at.WORD_COUNT] += 1
            if words[found, at.WORD_WRITER] >= 0 and words[found, at.WORD_WRITER] != me:
                words[found, at.WORD_SHARED] = 1
            words[found, at.WORD_WRITER] = me
            if words[found, at.WORD_POLLED]:
                state.changes += 1
                state.unlooked, state.held_back = state.pollers, 0
                words[found, at.WORD_CHANGED] = state.changes
            _signal(state, words, signals, found, state.used[at.ACCESSES] - 1, 0)


@inner
def must_wait(state, row, allocations, hint, words, pc, mask):
    """Whether the write ``row``, whose addresses are noted, is of a word that a warp polls which has not looked since the last
    change. The warp then gives way."""
    if state.unlooked <= 0 or words.shape[0] == 0 or row[at.OP] == ops.LOAD or row[at.TRACK] & at.TRACK_POLL:
        return False
    if state.held_back > _MOST_HELD_BACK:
        state.unlooked = 0
        return False
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            for word in range((row[at.BYTES] + 3) >> 2):
                address = (state.noted[lane] & ~np.int64(3)) + 4 * word
                key, _ = _locate(state, allocations, hint, pc, np.int64(row[at.SPACE]), address)
                found = _find(words, key) if key else np.int64(-1)
                if found < 0 or words[found, at.WORD_POLLED] == 0:
                    continue
                # Only warps of its own block poll a word of shared memory: the others need not have their turn first.
                if key >= _SHARED_KEY and not _unlooked_here(state, words[found, at.WORD_CHANGED]):
                    continue
                state.held_back += 1
                return True
    return False


@inner
def _unlooked_here(state, change):
    """Whether a warp of the block polls that has not looked since change number ``change``."""
    found = False
    for warp in range(state.warps):
        found |= state.poll_loop[warp] != 0 and state.poll_looked[warp] < change
    return found


@inner
def _mark(state, warp):
    """What is logged from now on is a round of the warp's polling loop."""
    for part in range(5):
        state.poll_mark[warp, part] = state.used[part]
    state.poll_mark[warp, 5] = state.epoch


@inner
def begin_round(state, warp):
    """A warp goes on that gave way while it polled: others may have logged since."""
    if state.poll_loop[warp] and state.poll_left[warp]:
        state.poll_left[warp] = 0
        _mark(state, warp)


@inner
def _only_mine(state, runs, accesses, warp, global_warp):
    """Whether all that was logged since the round began is the warp's, and still there."""
    if state.poll_mark[warp, 5] != state.epoch:
        return False
    for i in range(state.poll_mark[warp, at.RUNS], state.used[at.RUNS]):
        if runs[i, at.RUN_WARP] != global_warp:
            return False
    for i in range(state.poll_mark[warp, at.ACCESSES], state.used[at.ACCESSES]):
        if accesses[i, at.ACCESS_WARP] != global_warp:
            return False
    return True


@inner
def _alone(state, warp, mask):
    """Whether the warp's other lanes, if any, wait for the lanes ``mask`` to come to them."""
    for f in range(state.fragments[warp]):
        status = state.fragment[warp, f]
        awaits = status == at.AT_CONVERGENCE or (status == at.AT_WARP_WAIT and state.wait[warp, f] & mask)
        if status != at.FREE and not awaits:
            return False
    return True


@inner
def _same_place(accesses, scattered, one, other):
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
def _forget_round(state, warp):
    for part in (at.RUNS, at.ACCESSES, at.SCATTERED_ROWS):
        state.used[part] = state.poll_mark[warp, part]


@inner
def _log_round(
    state, polls, runs, accesses, scattered, signals, decision, access, first_signal, warp, global_warp, mask
):
    """Append the round of polling that follows ``decision``: its runs, and the access ``access`` with its signals, from
    ``first_signal`` on."""
    count = np.int64(polls[decision, at.POLL_COUNT])
    for i in range(count):
        first = np.int64(polls[decision, at.POLL_PATH + 2 * i])
        log_run(state, runs, global_warp, first, first + np.int64(polls[decision, at.POLL_PATH + 2 * i + 1]), mask)
    runs[state.used[at.RUNS] - count, at.RUN_POLL] = count
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    for column in range(accesses.shape[1]):
        accesses[n, column] = accesses[access, column]
    if accesses[n, at.ACCESS_PATTERN] >> 32 == _SCATTERED:
        s = state.used[at.SCATTERED_ROWS]
        state.used[at.SCATTERED_ROWS] = s + 1
        for lane in range(at.LANES):
            scattered[s, lane] = scattered[accesses[access, at.ACCESS_ADDRESS], lane]
        accesses[n, at.ACCESS_ADDRESS] = s
    for i in range(first_signal, state.used[at.SIGNALS]):
        g = state.used[at.SIGNALS]
        state.used[at.SIGNALS] = g + 1
        for column in range(signals.shape[1]):
            signals[g, column] = signals[i, column]
        signals[g, at.SIGNAL_ACCESS] = n


@inner
def _go_on(state, warp, loop):
    """The warp polls in ``loop`` and will look again."""
    state.poll_loop[warp], state.poll_left[warp], state.poll_looked[warp] = loop + 1, 1, state.changes
    state.pollers += 1


@inner
def decide(state, polls, runs, accesses, scattered, signals, row, warp, global_warp, pc, mask, jumping):
    """The warp's lanes ``mask`` come to the decision ``row`` at ``pc``, of which ``jumping`` take the branch. True if all of
    them go on polling, and nothing that they did shows: the log is then as it was before. Else the run so far is logged."""
    decision = np.int64(row[at.DECISION]) - 1
    stays = jumping if polls[decision, at.POLL_STAYS] else mask & ~jumping
    access, needs = state.poll_last[warp], state.poll_needs[warp]
    polled, wrote = False, False
    here = 0 <= access < state.used[at.ACCESSES] and accesses[access, at.ACCESS_WARP] == global_warp
    if here:
        for i in range(needs, state.used[at.SIGNALS]):
            polled |= signals[i, at.SIGNAL_POLLS] != 0 and signals[i, at.SIGNAL_ACCESS] == access
            wrote |= signals[i, at.SIGNAL_POLLS] == 0
    opened = (
        state.poll_loop[warp] == np.int64(polls[decision, at.POLL_LOOP]) + 1
        and state.poll_mask[warp] == mask
        and here
        and _only_mine(state, runs, accesses, warp, global_warp)
    )
    if state.poll_loop[warp]:
        state.pollers -= 1
        if state.poll_looked[warp] != state.changes:
            state.unlooked -= 1
    state.poll_loop[warp] = 0
    again = stays == mask and here and not wrote and _alone(state, warp, mask)
    if opened and again:
        _forget_round(state, warp)
        state.used[at.SIGNALS] = state.poll_mark[warp, at.SIGNALS]
        _go_on(state, warp, np.int64(polls[decision, at.POLL_LOOP]))
        return True
    first = state.poll_access[warp]
    if opened and state.poll_epoch[warp] == state.epoch and _same_place(accesses, scattered, first, access):
        # The round that saw the change counts as the first one, which the lanes came with.
        begin = state.poll_mark[warp, at.SIGNALS]
        kept = state.used[at.SIGNALS] - needs
        for i in range(kept):
            for column in range(signals.shape[1]):
                signals[begin + i, column] = signals[needs + i, column]
            signals[begin + i, at.SIGNAL_ACCESS] = first
        _forget_round(state, warp)
        state.used[at.SIGNALS] = begin + kept
        state.held_first[warp] = pc + 1
        if polled:
            _log_round(
                state, polls, runs, accesses, scattered, signals, state.poll_decision[warp] - 1, first, begin, warp,
                global_warp, mask,
            )  # fmt: skip
        return False
    log_run(state, runs, global_warp, state.held_first[warp], pc + 1, mask)
    state.held_first[warp] = pc + 1
    if again:
        state.used[at.SIGNALS] = needs
        _go_on(state, warp, np.int64(polls[decision, at.POLL_LOOP]))
        state.poll_mask[warp], state.poll_decision[warp] = mask, decision + 1
        state.poll_access[warp], state.poll_epoch[warp] = access, state.epoch
        return True
    if polled and here:
        _log_round(state, polls, runs, accesses, scattered, signals, decision, access, needs, warp, global_warp, mask)
    return False
