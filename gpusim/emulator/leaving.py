"""How warps leave lockstep: what each keeps until it goes on.

Mental model: lockstep ends before an instruction, or in the middle of one that some of its warps have executed and
others not. Instructions are counted then, and each warp's fragment is held where it goes on, or gives way to another.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.control_flow import GONE, JUMPED
from gpusim.emulator.convergence import push
from gpusim.emulator.warpgroup_products import PRODUCT_WARPS
from gpusim.isa import warp as at
from gpusim.isa.jit import inner

_NEVER = 1 << 62


@inner
def hold(state, warp, pc, mask, jumped):
    """Keep a fragment that was running until its warp goes on. At a jump its time may be over: then it gives
    way to another fragment of the warp, or its warp to others."""
    if jumped:
        if state.held_left[warp] <= 0 and state.ready[warp] > 0:
            state.held[warp] = 0
            push(state, warp, pc, mask, at.READY, np.int64(0))
            return
        state.held_first[warp] = pc
        if state.quantum_left[warp] <= 0:
            state.quantum_spent[warp] = 1
    state.held_pc[warp], state.held_mask[warp] = pc, mask


@inner
def leave(state, first_warp, count, members, steps, pc, jumped):
    """Lockstep ends before instruction ``pc``, after ``steps`` instructions."""
    state.executed += steps * members
    state.dispatched += steps
    for i in range(count):
        if state.active[i]:
            warp = first_warp + i
            state.quantum_left[warp] -= steps
            state.held_left[warp] -= steps
            hold(state, warp, pc, state.active[i], jumped)


@inner
def leave_between(state, first_warp, count, members, steps, pc, done):
    """Lockstep ends in the middle of instruction ``pc``: its warps before number ``done`` have executed it
    (state.outcome, goal and active say how they go on), the others have not."""
    state.executed += steps * members
    state.dispatched += steps
    for i in range(count):
        if state.active[i]:
            warp = first_warp + i
            own = steps if i < done else steps - 1
            state.executed -= steps - own
            state.quantum_left[warp] -= own
            state.held_left[warp] -= own
            if i >= done:
                hold(state, warp, pc, state.active[i], False)
            elif state.outcome[i] == GONE:
                state.held[warp] = 0
            else:
                hold(state, warp, state.goal[i], state.active[i], state.outcome[i] == JUMPED)


@inner
def steps_left(state, first_warp, count):
    """Instructions after which, at a jump, one of the warps in lockstep may have to give way."""
    least = np.int64(_NEVER)
    for i in range(count):
        if state.active[i]:
            warp = first_warp + i
            least = min(least, state.quantum_left[warp])
            if state.ready[warp] > 0:
                least = min(least, state.held_left[warp])
    return least


@inner
def whole_groups(state, first_warp, count):
    """Whether all four warps of each warp group stand here, of which one does."""
    for i in range(count):
        if state.executing[i]:
            first = (first_warp + i) // PRODUCT_WARPS * PRODUCT_WARPS
            for warp in range(first, min(first + PRODUCT_WARPS, state.warps)):
                place = warp - first_warp
                if place < 0 or place >= count or state.executing[place] != state.live[warp]:
                    return False
    return True
