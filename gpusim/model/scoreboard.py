"""The six dependence counters of a warp, kept as "how many unknown, and until when for the known".

Mental model: an instruction that writes late adds one to a counter; the counter falls when the result
is there; an instruction whose wait mask names the counter issues once it is zero. The model learns the
time of a fall either at once (a pipe of known latency, an L1 hit) or from a later response. So a
counter is a number of pending falls of unknown time and one cycle, the latest known fall: it is zero
from that cycle on if nothing is pending. A stall reason goes with it, for the account.

``board`` is int64[warps, WIDTH]. A program that waits for a counter to be at most some number
above zero (DEPBAR.LE) needs more than the latest fall: its board is int64[warps, DEEP_WIDTH], with the FALLS latest
known ones of each counter behind those columns, in any order.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import NEVER
from gpusim.state_tables import Table

COUNTERS = 6
#: Falls of a counter that a deep board keeps.
FALLS = 16
BOARD_TABLE = Table(__name__, "board", "a warp slot", "The warp's six dependence counters.")
LATEST_FALLS = BOARD_TABLE.column("cycle", "of the latest known fall of each counter", span=COUNTERS)
PENDING = BOARD_TABLE.column("packed", "8 bits a counter: falls of unknown time")
REASONS = BOARD_TABLE.column("packed", "8 bits a counter: the stall reason that goes with it")
WIDTH = BOARD_TABLE.width
DEEP_WIDTH = WIDTH + COUNTERS * FALLS

_FIELD = 0xFF


@inner
def clear(board, warp):
    """Make all counters of a fresh warp zero."""
    for i in range(board.shape[1]):
        board[warp, i] = 0


@inner
def pending(board, warp, counter):
    """Falls of unknown time."""
    return board[warp, PENDING] >> (8 * counter) & _FIELD


@inner
def reason_of(board, warp, counter):
    """The stall reason that goes with the counter."""
    return board[warp, REASONS] >> (8 * counter) & _FIELD


@inner
def _set_reason(board, warp, counter, reason):
    board[warp, REASONS] = board[warp, REASONS] & ~(_FIELD << (8 * counter)) | reason << (8 * counter)


@inner
def raise_counter(board, warp, counter, reason):
    """One more fall whose time is not known yet."""
    board[warp, PENDING] += 1 << (8 * counter)
    _set_reason(board, warp, counter, reason)


@inner
def release_at(board, warp, counter, cycle, reason):
    """A fall that is known to come at ``cycle`` (of no pending one: see :func:`resolve`)."""
    if cycle >= board[warp, counter]:
        board[warp, counter] = cycle
        _set_reason(board, warp, counter, reason)
    if board.shape[1] > WIDTH:
        _note_fall(board, warp, counter, cycle)


@inner
def _note_fall(board, warp, counter, cycle):
    """Keep a fall in place of the earliest one that is kept."""
    first = WIDTH + counter * FALLS
    earliest = first
    for i in range(first + 1, first + FALLS):
        if board[warp, i] < board[warp, earliest]:
            earliest = i
    board[warp, earliest] = max(board[warp, earliest], cycle)


@inner
def few_from(board, warp, counter, level):
    """First cycle at which at most ``level`` of the counter's known falls are still to come.

    Each pass lowers the cycle to the latest fall before it: that of the last pass has ``level`` falls behind it. Of
    more falls than are kept, the first ones are taken to be past.
    """
    first = WIDTH + counter * FALLS
    cycle = NEVER
    behind = 0
    while behind <= level:
        latest = 0
        equal = 0
        for i in range(first, first + FALLS):
            if board[warp, i] >= cycle:
                continue
            if board[warp, i] > latest:
                latest = board[warp, i]
                equal = 1
            elif board[warp, i] == latest:
                equal += 1
        cycle = latest
        if latest == 0:
            break
        behind += equal
    return cycle


@inner
def resolve(board, warp, counter, cycle, reason):
    """A pending fall turns out to come at ``cycle``."""
    board[warp, PENDING] -= 1 << (8 * counter)
    release_at(board, warp, counter, cycle, reason)


@inner
def zero_from(board, warp, wait_mask, cycle):
    """First cycle >= ``cycle`` at which all counters of the mask are zero (NEVER: not known yet), and
    the counter that decides it (-1: none, the warp did not have to wait)."""
    last = -1
    for counter in range(COUNTERS):
        if (wait_mask >> counter) & 1:
            if pending(board, warp, counter) > 0:
                return NEVER, counter
            if board[warp, counter] > cycle:
                cycle = board[warp, counter]
                last = counter
    return cycle, last
