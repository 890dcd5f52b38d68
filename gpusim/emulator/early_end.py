"""Threads that end before their code does: what stopped them was taken by a listener, and the launch goes on.

Mental model: such a thread jumps to an EXIT of its kernel. Whoever waits for it at a barrier or to converge then waits
no more, as for any thread that has exited, and its path in the trace ends as every path does. (The threads that a patch
of NVIDIA's Sanitizer API reports an error for exit too: SANITIZER_PATCH_ERROR, Sanitizer Patching API.)
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at


def exit_index(matrix: np.ndarray) -> int:
    """The first EXIT of the code ``matrix`` that every lane takes, or -1."""
    plain = (matrix[:, at.OP] == ops.EXIT) & (matrix[:, at.GUARD_FLIP] == 0) & (matrix[:, at.P0_FLIP] == 0)
    for column in (at.GUARD, at.P0):
        plain &= np.isin(matrix[:, column], (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE))
    return int(np.argmax(plain)) if plain.any() else -1


def end_lanes(state: np.record, warp: int, lanes: int, exit_at: int) -> None:
    """Let ``lanes`` of the fragment that ``warp`` holds end; the others stand where they stood. What it has done so far
    is logged already."""
    left = int(state.held_mask[warp]) & ~lanes
    state.held_mask[warp], state.held[warp] = left, left != 0
    _push(state, warp, lanes, exit_at)


def end_block(state: np.record, exit_at: int) -> None:
    """Let all threads of a block end whose warps wait, each in what the log already has."""
    for warp in range(int(state.warps)):
        if state.live[warp]:
            state.fragment[warp] = at.FREE
            state.ready[warp] = 0
            _push(state, warp, int(state.live[warp]), exit_at)
    state.arrived[:], state.again[:], state.vote[:] = 0, 0, 0
    state.at_barrier = 0


def _push(state: np.record, warp: int, lanes: int, exit_at: int) -> None:
    """Put the fragment ``lanes`` at ``exit_at`` into the warp's table, to one that stands there if there is one."""
    here = (state.fragment[warp] == at.READY) & (state.pc[warp] == exit_at)
    if here.any():
        state.mask[warp, int(np.argmax(here))] |= lanes
        return
    place = int(np.argmax(state.fragment[warp] == at.FREE))
    state.fragments[warp] = max(int(state.fragments[warp]), place + 1)
    state.pc[warp, place], state.mask[warp, place] = exit_at, lanes
    state.fragment[warp, place] = at.READY
    state.now += 1
    state.stamp[warp, place] = state.now
    state.ready[warp] += 1
