"""The six dependence counters of a warp, kept as "how many unknown, and until when for the known".

Mental model: an instruction that writes late adds one to a counter; the counter falls when the result
is there; an instruction whose wait mask names the counter issues once it is zero. The model learns the
time of a fall either at once (a pipe of known latency, an L1 hit) or from a later response. So a
counter is a number of pending falls of unknown time and one cycle, the latest known fall: it is zero
from that cycle on if nothing is pending. A stall reason goes with it, for the account.

``board`` is int64[warps, WIDTH]: one column a counter for its latest known fall, then PENDING with eight
bits a counter and REASONS with eight bits a counter.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import NEVER

COUNTERS = 6
PENDING, REASONS, WIDTH = COUNTERS, COUNTERS + 1, COUNTERS + 2
_FIELD = 0xFF


@inner
def clear(board, warp):
    """Make all counters of a fresh warp zero."""
    for i in range(WIDTH):
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
