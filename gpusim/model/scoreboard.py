"""The six dependence counters of a warp, kept as "how many unknown, and until when for the known".

Mental model: an instruction that writes late adds one to a counter; the counter falls when the result
is there; an instruction whose wait mask names the counter issues once it is zero. The model learns the
time of a fall either at once (a pipe of known latency, an L1 hit) or from a later response. So a
counter is ``PENDING`` falls of unknown time and one cycle ``RELEASE``, the latest known fall: it is zero
from ``RELEASE`` on if nothing is pending. ``REASON`` is what set ``RELEASE``, for the stall account.

``board`` is int64[warps, 3 * COUNTERS].
"""

from __future__ import annotations

from gpusim.model.compiled import inner

from gpusim.model.timing import NEVER

COUNTERS = 6
PENDING, RELEASE, REASON = 0, COUNTERS, 2 * COUNTERS
WIDTH = 3 * COUNTERS


@inner
def clear(board, warp):
    """Make all counters of a fresh warp zero."""
    for i in range(WIDTH):
        board[warp, i] = 0


@inner
def raise_counter(board, warp, counter, reason):
    """One more fall whose time is not known yet."""
    board[warp, PENDING + counter] += 1
    board[warp, REASON + counter] = reason


@inner
def release_at(board, warp, counter, cycle, reason):
    """A fall that is known to come at ``cycle`` (of no pending one: see :func:`resolve`)."""
    if cycle >= board[warp, RELEASE + counter]:
        board[warp, RELEASE + counter] = cycle
        board[warp, REASON + counter] = reason


@inner
def resolve(board, warp, counter, cycle, reason):
    """A pending fall turns out to come at ``cycle``."""
    board[warp, PENDING + counter] -= 1
    release_at(board, warp, counter, cycle, reason)


@inner
def zero_from(board, warp, wait_mask, cycle):
    """First cycle >= ``cycle`` at which all counters of the mask are zero (NEVER: not known yet), and
    the counter that decides it (-1: none, the warp did not have to wait)."""
    last = -1
    for counter in range(COUNTERS):
        if (wait_mask >> counter) & 1:
            if board[warp, PENDING + counter] > 0:
                return NEVER, counter
            if board[warp, RELEASE + counter] > cycle:
                cycle = board[warp, RELEASE + counter]
                last = counter
    return cycle, last
