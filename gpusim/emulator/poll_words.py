"""Words of memory that warps wait for: their numbers, how often each has changed, and what polled ones held before.

Mental model: a word that is written by what may set a flag, or polled, has a number and a count of its changes (a hash
of words). Accesses leave *signals* in the log: this one wrote word w for the n-th time, that one polls it and has seen
n writes. Of words that somebody polls, or one lane has written alone, the latest values are kept too, so that a warp
that looks late can ask what it would have done earlier: it is shown, in place of the word, what the word held after its
n-th change.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import GENERIC, SHARED, find_allocation
from gpusim.emulator.addresses import CLUSTER, formed_addresses
from gpusim.emulator.cluster_memory import NO_PEER, offset_of, peer_rank, peer_shared, rank_of
from gpusim.emulator.pointers import load32, store32
from gpusim.emulator.work_taking import told_lanes
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import allocating, inlined, inner, seldom
from gpusim.trace.layout import RANK_SHIFT
from gpusim.trace.record import Space

_SHARED_KEY, _BLOCK_SHIFT = np.int64(1) << 61, 22
#: Where words of the shared memory that the system keeps stand among those of a block, which has less.
_KEPT_PLACE = 1 << 21
#: Most entries of ``signals`` and of ``words`` that one instruction of one warp adds: four words a lane, polled and
#: written.
_MOST_SIGNALS, _MOST_WORDS = 8 * at.LANES, 4 * at.LANES
#: Changes of a word that are looked back at for one of the warp's own.
_FEW = 64
_NOWHERE, _GLOBAL = np.int64(0), int(Space.GLOBAL)


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
    if space == SHARED or space == CLUSTER or (space == GENERIC and window == state.shared_window >> 32):
        rank = state.cluster_rank if space == SHARED else rank_of(address)
        offset = address if space == SHARED else offset_of(address)
        host = peer_shared(state, rank, offset, np.int64(4))
        if host == NO_PEER:
            return _NOWHERE, _NOWHERE
        within = offset - state.shared_base
        if within < 0:  # of what the system keeps
            within += _KEPT_PLACE
        return _SHARED_KEY | ((state.peer_block[rank] << _BLOCK_SHIFT) + within + 1), host
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
    words[row, at.WORD_POLLED] = words[row, at.WORD_LAST] = 0
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
    signals[n, at.SIGNAL_ADDRESS] = (key - 1) << 2
    if key >= _SHARED_KEY:
        rank = peer_rank(state, (key & ~_SHARED_KEY) >> _BLOCK_SHIFT)
        signals[n, at.SIGNAL_ADDRESS] = max(rank, np.int64(0)) << RANK_SHIFT | ((key & ((1 << _BLOCK_SHIFT) - 1)) - 1)


@inner
def _note_before(state, matrix, registers, allocations, hint, words, signals, pc, warp, own_base, mask):
    """Before an access that is tracked: keep its addresses, what an atomic finds, and what a poll will see."""
    if words.shape[0] == 0:
        return
    row = matrix[pc]
    formed_addresses(state, matrix, registers, pc, own_base)
    for lane in range(at.LANES):
        state.noted[lane] = state.address[lane]
    polls = row[at.ORDERED] & at.TRACK_POLL
    how = 2 if row[at.ORDERED] & at.TRACK_PERHAPS else 1
    if polls:
        state.poll_last[warp], state.poll_needs[warp] = state.used[at.ACCESSES], state.used[at.SIGNALS]
        state.poll_words[warp], state.poll_watch[warp] = 0, -1
    if row[at.ORDERED] & at.TRACKED == at.TRACK_ONE_LANE and mask & (mask - 1):
        return
    me, space = state.linear * at.MAX_WARPS + warp, np.int64(row[at.SPACE])
    mask, last = told_lanes(state, row, state.noted, mask), np.int64(-1)
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
                _watch(state, warp, words[found, at.WORD_INDEX])
                if state.poll_words[warp] == 0:
                    state.poll_key[warp] = key
            if polls and words[found, at.WORD_COUNT]:
                if words[found, at.WORD_SHARED] or words[found, at.WORD_WRITER] != me:
                    _signal(state, words, signals, found, state.used[at.ACCESSES], how)
                    state.poll_words[warp] += 1
                    state.poll_key[warp], state.poll_count[warp] = key, words[found, at.WORD_COUNT]
                    # A word that is no longer what it was: the first change would have let whoever waits go.
                    if row[at.ORDERED] & at.TRACK_VALUE and words[found, at.WORD_VALUE] != words[found, at.WORD_FIRST]:
                        signals[state.used[at.SIGNALS] - 1, at.SIGNAL_COUNT] = 1


@inlined
def _watch(state, warp, index):
    """The warp polls word number ``index``, with others perhaps."""
    if state.poll_watch[warp] == -1:
        state.poll_watch[warp] = index
    elif state.poll_watch[warp] != index:
        state.poll_watch[warp] = -2


@inner
def _past(words, history, key, count, used):
    """Row of ``history`` with the change number ``count`` of the word ``key``; -1: it is not kept any more."""
    found = _find(words, key)
    last = words[found, at.WORD_LAST] if found >= 0 else np.int64(0)
    while last > 0 and used - last < history.shape[0]:
        row = (last - 1) % history.shape[0]
        if history[row, at.HISTORY_COUNT] <= count:
            return row if history[row, at.HISTORY_COUNT] == count else np.int64(-1)
        last = history[row, at.HISTORY_BEFORE]
    return np.int64(-1)


@inner
def is_kept(state, words, history, warp, count):
    """Whether it is known what the word that the warp polls held after its change number ``count``."""
    return _past(words, history, state.poll_key[warp], count, state.history_used) >= 0


@inner
def last_own_change(state, words, history, warp):
    """The latest change, by number, of the word that the warp polls that it made itself, if that is among the last few;
    0: none. Behind it lies what it waits for."""
    found, me = _find(words, state.poll_key[warp]), state.linear * at.MAX_WARPS + warp
    last = words[found, at.WORD_LAST] if found >= 0 else np.int64(0)
    for _ in range(_FEW):
        if last <= 0 or state.history_used - last >= history.shape[0]:
            break
        row = (last - 1) % history.shape[0]
        if history[row, at.HISTORY_WRITER] == me:
            return history[row, at.HISTORY_COUNT]
        last = history[row, at.HISTORY_BEFORE]
    return np.int64(0)


@inner
def _show_past(state, row, allocations, hint, words, history, pc, warp):
    """Before a poll of a warp that looks at the past: put what was there into memory. Returns the host address whose
    word is to be put back (``state.shown`` keeps it), 0: nothing was changed."""
    if state.probe[warp] == 0 or not row[at.ORDERED] & at.TRACK_POLL:
        return _NOWHERE
    past = _past(words, history, state.poll_key[warp], state.probe[warp], state.history_used)
    key = state.poll_key[warp]
    if past < 0:
        return _NOWHERE
    host = _NOWHERE
    if key & _SHARED_KEY:
        rank = peer_rank(state, (key & ~_SHARED_KEY) >> _BLOCK_SHIFT)
        offset = (key & ((np.int64(1) << _BLOCK_SHIFT) - 1)) - 1
        if offset >= _KEPT_PLACE >> 1:
            offset -= _KEPT_PLACE
        host = peer_shared(state, rank, offset + state.shared_base, np.int64(4))
    else:
        _, host = _locate(state, allocations, hint, pc, np.int64(_GLOBAL), (key - 1) << 2)
    if host:
        state.shown = np.int64(load32(host))
        store32(host, np.int32(history[past, at.HISTORY_VALUE]))
    return host


@inner
def date_back(state, words, signals, history, warp, first):
    """The signals from row ``first`` on are of polls that needed no more than the change ``poll_found`` of their
    word."""
    past = _past(words, history, state.poll_key[warp], state.poll_found[warp], state.history_used)
    for i in range(first, state.used[at.SIGNALS]):
        if signals[i, at.SIGNAL_POLLS]:
            signals[i, at.SIGNAL_COUNT] = state.poll_found[warp]
            if past >= 0:
                writer = history[past, at.HISTORY_WRITER]
                signals[i, at.SIGNAL_BLOCK], signals[i, at.SIGNAL_WARP] = writer // at.MAX_WARPS, writer % at.MAX_WARPS


def polled_shared(key: int) -> int:
    """The byte of its block's shared memory that a hash's ``key`` names; -1: of none."""
    return (key & ((1 << _BLOCK_SHIFT) - 1)) - 1 if key & int(_SHARED_KEY) else -1


def polled_address(key: int) -> str:
    """The address of the word with a hash's ``key``, as errors name it."""
    if key & int(_SHARED_KEY):
        return f"byte 0x{(key & ((1 << _BLOCK_SHIFT) - 1)) - 1:x} of its shared memory"
    return f"address 0x{(key - 1) << 2:x}"


@inlined
def put_back(state, host):
    """After the access: memory is as it was."""
    store32(host, np.int32(state.shown))


@inner
def _note_writes(state, row, allocations, hint, words, signals, history, touched, pc, warp, mask):
    """After an access that is tracked: count the words that it has changed."""
    if words.shape[0] == 0 or row[at.OP] == ops.LOAD:
        return
    if row[at.ORDERED] & at.TRACKED == at.TRACK_ONE_LANE and mask & (mask - 1):
        return
    me, space = state.linear * at.MAX_WARPS + warp, np.int64(row[at.SPACE])
    mask, last = told_lanes(state, row, state.noted, mask), np.int64(-1)
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
            other = words[found, at.WORD_WRITER] >= 0 and words[found, at.WORD_WRITER] != me
            if other or row[at.ORDERED] & at.WRITES_LATER:
                words[found, at.WORD_SHARED] = 1
            words[found, at.WORD_WRITER] = me
            if words[found, at.WORD_POLLED]:
                state.changes += 1
                touched[words[found, at.WORD_INDEX] % touched.shape[0]] = state.changes
            if words[found, at.WORD_POLLED] or mask & (mask - 1) == 0:  # one lane: a flag perhaps, polled later
                kept = state.history_used % history.shape[0]
                history[kept, at.HISTORY_BEFORE] = words[found, at.WORD_LAST]
                history[kept, at.HISTORY_COUNT] = words[found, at.WORD_COUNT]
                history[kept, at.HISTORY_WRITER] = me
                history[kept, at.HISTORY_VALUE] = value
                state.history_used += 1
                words[found, at.WORD_LAST] = state.history_used
            _signal(state, words, signals, found, state.used[at.ACCESSES] - 1, 0)


@seldom
def before_access(state, matrix, registers, allocations, hint, words, signals, history, pc, warp, own_base, mask):
    """Before a warp's access that is tracked, by the lanes ``mask``, of which there may be none: note what
    :func:`after_access` will ask for. Returns the host address whose word is to be put back, or 0."""
    if mask == 0:
        state.poll_last[warp] = -1
        return _NOWHERE
    _note_before(state, matrix, registers, allocations, hint, words, signals, pc, warp, own_base, mask)
    return _show_past(state, matrix[pc], allocations, hint, words, history, pc, warp)


@seldom
def after_access(state, row, allocations, hint, words, signals, history, touched, pc, warp, mask, shown):
    """After it: memory is as it was if the past was ``shown`` to it, else what it has changed counts."""
    if shown:
        put_back(state, shown)
    elif mask:
        _note_writes(state, row, allocations, hint, words, signals, history, touched, pc, warp, mask)
