"""Loops that wait for a time: they read the clock until it says that it is late enough, and do nothing else.

Mental model: such a loop is left at branches that depend, within one round, on the clock and on what is the same in
every round. What it read in earlier rounds is forgotten. So a round may be made again with the clock put forward or
back, as long as no warp has seen the clock in between, and the first time at which the loop ends is found by search: 2
log2(t) rounds instead of t. So it is where no trace is wanted; where one is, :mod:`gpusim.emulator.clock_waits` finds
out for how long each warp waits.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.poll_code import Code
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner

#: Instructions of the longest loop that is looked at.
_LONGEST = 192
#: Ticks to which it is found out when a loop ends, about what a round of one takes on a GPU; and the most by which the
#: clock is put forward at once, so that differences of 32 bits do not wrap around unseen.
SHORTEST_WAIT, _LONGEST_WAIT = 32, 1 << 30


def time_branches(matrix: np.ndarray) -> list[int]:
    """The branches at which loops go round or end that wait for a time, in a code matrix int32[n, COLUMNS] whose
    offsets are counted in whole rows."""
    special = matrix[:, at.OP] == ops.SPECIAL
    if not np.isin(matrix[special, at.F0], ops.CLOCKS).any():
        return []
    code = Code(matrix)
    loops: dict[int, int] = {}
    for back in np.flatnonzero(matrix[:, at.OP] == ops.BRANCH).tolist():
        if 0 <= code.target(back) <= back < code.target(back) + _LONGEST:
            loops[code.target(back)] = back
    return sorted({i for head, back in loops.items() for i in _branches(code, head, back)})


def _branches(code: Code, head: int, back: int) -> set[int]:
    """The branches of the loop ``head`` to ``back`` at which it ends or goes round, if it waits for a time; else
    none."""
    inside = range(head, back + 1)
    if not all(code.is_harmless(i) for i in inside):
        return set()
    branches = [i for i in inside if code.op(i) == ops.BRANCH]
    leaving = {i for i in branches if any(s not in inside for s in code.successors(i))}
    # Whoever leaves falls through behind the last branch or jumps forward: so the interpreter tells the ways apart.
    waits = all(code.is_conditional(i) and (i == back or code.target(i) > back) for i in leaving)
    if not leaving or not waits or not all(code.awaits_time(i, head, back) for i in leaving):
        return set()
    return leaving | {i for i in branches if code.target(i) == head}


@inner
def longer_wait(forward, too_far, guessed, waited, last_wait):
    """By how much to put the clock forward in the next round after ``forward``, of ``waited`` in all, and whether that
    is a guess: most waits of a kernel are as long as its ``last_wait``. Twice as much as before; half of it once it was
    ``too_far``."""
    shortest = np.int64(SHORTEST_WAIT)
    if waited == 0 and last_wait > 4 * shortest:
        return last_wait - 2 * shortest, True
    if guessed:
        return shortest, False
    if too_far:
        return max(forward >> 1, shortest), False
    return min(max(2 * forward, np.int64(1)), np.int64(_LONGEST_WAIT)), False
