"""Fragments of a warp, and what they wait for: convergence, the warp, the state.

Mental model: a warp is a set of fragments, each some lanes at one instruction. The one that runs is held in
``State.held*``; the others lie in the table ``State.pc/mask/fragment/wait``. A fragment that
reaches a barrier is put into the table; whoever completes the barrier (by arriving, leaving or exiting)
makes the waiting ones ready again, merged where they stand at the same instruction. The fragment that has
waited longest runs next, so that lanes which spin for each other all make progress; lanes that only poll have their
turn less often.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.events import note
from gpusim.isa import event_table as table
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import compiled, inner, seldom
from gpusim.isa.lane_masks import count_lanes, first_lane, first_predicate, signed32

#: How many stops of other fragments lanes wait that poll while lanes of their warp can do something else.
_PATIENCE = 16
#: Beside the lanes that a WARPSYNC.EXCLUSIVE or COLLECTIVE waits for: once they are there it is executed again, since
#: lanes of other sets may have joined them by then.
AGAIN = np.int64(1 << 32)


@inner
def push(state, warp, pc, mask, status, wait):
    """Put a fragment into the warp's table; one that is ready joins a ready one at the same place."""
    if status == at.READY:
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] == at.READY and state.pc[warp, f] == pc:
                state.mask[warp, f] |= mask
                return
    for f in range(at.LANES):
        if state.fragment[warp, f] == at.FREE:
            state.fragments[warp] = max(state.fragments[warp], np.int64(f + 1))
            state.pc[warp, f] = pc
            state.mask[warp, f] = mask
            state.fragment[warp, f] = status
            state.wait[warp, f] = wait
            state.now += 1
            state.stamp[warp, f] = state.now
            if mask & ~state.poll_lanes[warp] == 0:
                state.stamp[warp, f] += _PATIENCE
            if status == at.READY:
                state.ready[warp] += 1
            elif status == at.AT_BARRIER:
                state.at_barrier += 1
            return


@inner
def pick(state, warp):
    """Index of the ready fragment that has waited longest, or -1; it leaves the table."""
    best = np.int64(-1)
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] == at.READY:
            if best < 0 or state.stamp[warp, f] < state.stamp[warp, best]:
                best = f
    if best >= 0:
        state.fragment[warp, best] = at.FREE
        state.ready[warp] -= 1
    return best


@inner
def participants(registers, own_base, row, mask):
    """Lanes that set out together, as the convergence barrier ``row`` of the first lane of ``mask`` says."""
    return np.int64(registers[own_base + row + first_lane(mask)]) & at.FULL


@inner
def all_participants(registers, own_base, row, mask):
    """Lanes that set out together with any lane of ``mask``: lanes that met on the way, in a function called
    from two places, may be participants of different barriers."""
    union = np.int64(0)
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            union |= np.int64(registers[own_base + row + lane])
    return union & at.FULL


@inner
def log_sync(state, syncs, warp, index, kind, number, threads, mask, executing, turn, chunk_warp):
    """Append a barrier that lanes ``mask`` of ``warp`` have reached, where a listener asks for barriers."""
    if syncs.shape[0] == 0:
        return
    n = state.used[at.SYNCS]
    state.used[at.SYNCS] = n + 1
    syncs[n, at.SYNC_WARP], syncs[n, at.SYNC_INDEX], syncs[n, at.SYNC_KIND] = chunk_warp + warp, index, kind
    syncs[n, at.SYNC_NUMBER], syncs[n, at.SYNC_THREADS] = number, threads
    syncs[n, at.SYNC_MASK], syncs[n, at.SYNC_EXECUTING] = mask, executing
    syncs[n, at.SYNC_LIVE], syncs[n, at.SYNC_TURN] = state.live[warp], turn


@inner
def wait_converged(state, registers, warp, own_base, row, pc, mask):
    """Lanes ``mask`` wait in the BSYNC at ``pc``: a fragment for each set of participants."""
    rest = mask
    while rest:
        members = registers[own_base + row + first_lane(rest)]
        same = np.int64(0)
        for lane in range(at.LANES):
            if (rest >> lane) & 1 and registers[own_base + row + lane] == members:
                same |= np.int64(1) << lane
        rest &= ~same
        push(state, warp, pc, same, at.AT_CONVERGENCE, row)
    release_converged(state, registers, warp, own_base, False)


@inner
def release_converged(state, registers, warp, own_base, mixed):
    """Make ready what waits in BSYNC for nobody any more; True if anything did.

    Lanes wait together if they set out together: in a recursive function, lanes of different calls may wait in one
    BSYNC, each for the lanes of its own call, which the participants in its copy of the barrier tell. ``mixed``: lanes
    that wait there with other participants count as arrived too; for the barriers of which a lane was taken while
    others had them saved.
    """
    released, seen = False, np.int64(0)  # fragments, as bits, that were found to wait on with another one
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] != at.AT_CONVERGENCE or (seen >> f) & 1:
            continue
        row, pc, arrived, others = state.wait[warp, f], state.pc[warp, f], np.int64(0), np.int64(0)
        members = participants(registers, own_base, row, state.mask[warp, f])
        for g in range(state.fragments[warp]):
            if state.fragment[warp, g] == at.AT_CONVERGENCE and state.wait[warp, g] == row and state.pc[warp, g] == pc:
                alike = participants(registers, own_base, row, state.mask[warp, g]) == members
                if mixed or alike:
                    arrived |= state.mask[warp, g]
                if alike:
                    others |= np.int64(1) << g
        wanted = members & state.live[warp]
        if wanted & ~arrived:
            seen |= others
            continue
        together = np.int64(0)
        for g in range(state.fragments[warp]):
            if state.fragment[warp, g] != at.AT_CONVERGENCE or state.wait[warp, g] != row or state.pc[warp, g] != pc:
                continue
            alike = mixed or participants(registers, own_base, row, state.mask[warp, g]) == members
            if alike and (g == f or state.mask[warp, g] & wanted):
                together |= state.mask[warp, g]
                state.fragment[warp, g] = at.FREE
        push(state, warp, pc + 1, together, at.READY, 0)
        released = True
    return released


@seldom
def release_mixed(state, registers):
    """Release, in any warp of the block, lanes that wait in one BSYNC with different participants; True if there were
    any. Called when nothing else in the block can move."""
    released = False
    for warp in range(state.warps):
        group = warp // at.GROUP_WARPS
        base = state.own_base + group * state.own_stride + (warp - group * at.GROUP_WARPS) * at.LANES
        released |= release_converged(state, registers, np.int64(warp), base, True)
    return released


@inner
def ready_lanes(state, warp):
    """Lanes of the warp's fragments that can run."""
    lanes = np.int64(0)
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] == at.READY:
            lanes |= state.mask[warp, f]
    return lanes


@inner
def spins(state, registers, warp, own_base, pc):
    """Whether the fragment at YIELD ``pc``, and all others of the warp that can run, spin: no register has changed
    since its last time here, or while each of the others had come to a YIELD and back again.

    Such a loop waits for memory that another lane must write; if that lane waits for this one at a
    convergence barrier, neither would ever go on.
    """
    waiting = False
    for f in range(state.fragments[warp]):
        waiting |= state.fragment[warp, f] == at.AT_CONVERGENCE
    if not waiting:
        return False
    value = np.int64(0)
    for row in range(0, state.own_stride, at.ROW):
        for i in range(own_base + row, own_base + row + at.LANES):
            value = (value ^ registers[i]) * np.int64(0x9E3779B97F4A7C1)
            value ^= (value >> 32) & 0xFFFFFFFF
    first = first_predicate(warp)
    for slot in range(at.PREDICATE_SLOTS):
        value = (value ^ state.predicates[first + slot * at.GROUP_WARPS]) * np.int64(0x9E3779B97F4A7C1)
    same = state.spin_hash[warp] == value
    alone = state.ready[warp] == 0
    state.spin_turns[warp] = state.spin_turns[warp] + 1 if same else 0
    here = state.spin_pc[warp] == pc
    state.spin_pc[warp], state.spin_hash[warp] = pc, value
    return same and (here if alone else state.spin_turns[warp] > 2 * state.ready[warp] + 1)


@seldom
def release_without(state, registers, warp, own_base, yielding):
    """Make ready what waits in BSYNC for nobody but the lanes ``yielding``, which spin; True if anything did.

    This is how a YIELD lets the others of a divergent warp make progress (US patent application
    2016/0019066): the lanes released no longer take part in the barrier, the spinning ones meet there later.
    """
    freed = False
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] != at.AT_CONVERGENCE:
            continue
        row = state.wait[warp, f]
        wanted = participants(registers, own_base, row, state.mask[warp, f]) & state.live[warp]
        arrived = np.int64(0)
        for g in range(state.fragments[warp]):
            if state.fragment[warp, g] == at.AT_CONVERGENCE and state.wait[warp, g] == row:
                arrived |= state.mask[warp, g]
        if wanted & ~arrived & ~yielding:
            continue
        released = state.mask[warp, f]
        for lane in range(at.LANES):
            if (wanted >> lane) & 1:
                kept = np.int64(registers[own_base + row + lane]) & ~released
                registers[own_base + row + lane] = signed32(kept)
        state.fragment[warp, f] = at.FREE
        push(state, warp, state.pc[warp, f] + 1, released, at.READY, 0)
        freed = True
    return freed


@compiled
def release_spinning(states, slot, registers):
    """Make ready, in any warp of the block in ``states[slot]``, what waits in BSYNC for lanes that only spin; True if
    anything did. Called when nothing in any block can move but lanes that poll, in loops without a YIELD too: GPUs
    since Volta let every thread of a warp go on in the end (CUDA C++ Programming Guide, "Independent Thread
    Scheduling")."""
    state = states[slot]
    freed = False
    for warp in range(state.warps):
        group = warp // at.GROUP_WARPS
        base = state.own_base + group * state.own_stride + (warp - group * at.GROUP_WARPS) * at.LANES
        spinning = ready_lanes(state, warp)
        if state.held[warp]:
            spinning |= np.int64(state.held_mask[warp])
        freed |= release_without(state, registers, np.int64(warp), base, spinning)
    return freed


@inner
def release_warp_wait(state, warp):
    """Make ready what waits in WARPSYNC for nobody any more."""
    arrived = np.int64(0)
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] == at.AT_WARP_WAIT:
            arrived |= state.mask[warp, f]
    for f in range(state.fragments[warp]):
        if state.fragment[warp, f] != at.AT_WARP_WAIT:
            continue
        wanted = state.wait[warp, f] & state.live[warp]
        if wanted & ~arrived:
            continue
        for g in range(state.fragments[warp]):
            if state.fragment[warp, g] == at.AT_WARP_WAIT and state.mask[warp, g] & wanted:
                state.fragment[warp, g] = at.FREE
                again = state.wait[warp, g] // AGAIN
                push(state, warp, state.pc[warp, g] + 1 - again, state.mask[warp, g], at.READY, 0)


@seldom
def release_crossed_waits(state, syncs, chunk_warp):
    """Make ready what waits in WARPSYNC for lanes that wait at a convergence barrier; True if anything did.

    A full-mask ``syncwarp`` inside a divergent branch is undefined in CUDA, yet every GPU since Volta gets past
    it, and Numba's own reduction relies on that. Called when nothing else in the block can move.
    """
    released = False
    for warp in range(state.warps):
        waiting, arrived, converging = False, np.int64(0), np.int64(0)
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] == at.AT_WARP_WAIT:
                waiting = True
                arrived |= state.mask[warp, f]
            elif state.fragment[warp, f] == at.AT_CONVERGENCE:
                converging |= state.mask[warp, f]
        if not waiting:
            continue
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] == at.AT_WARP_WAIT:
                missing = state.wait[warp, f] & state.live[warp] & ~arrived
                if missing & ~converging == 0:
                    log_sync(
                        state, syncs, np.int64(warp), np.int64(state.pc[warp, f]), np.int64(at.SYNC_WARP_RELEASE),
                        state.wait[warp, f] & at.FULL, np.int64(0), state.mask[warp, f], state.mask[warp, f], np.int64(0),
                        chunk_warp,
                    )  # fmt: skip
                    state.fragment[warp, f] = at.FREE
                    push(state, warp, state.pc[warp, f] + 1, state.mask[warp, f], at.READY, 0)
                    released = True
    return released


@inner
def leave_convergence(state, registers, warp, own_base, row, leaving):
    """BREAK: nobody waits for the lanes ``leaving`` at this convergence barrier any more."""
    wanted = all_participants(registers, own_base, row, leaving)
    for lane in range(at.LANES):
        if (wanted >> lane) & 1:
            registers[own_base + row + lane] = signed32(np.int64(registers[own_base + row + lane]) & ~leaving)
    release_converged(state, registers, warp, own_base, False)


@inner
def retire(state, registers, warp, own_base, mask):
    """EXIT of ``mask``: whoever waited for these lanes waits no more."""
    zero = np.int64(0)
    note(state, table.EVENT_EXIT, warp, np.int64(-1), mask, zero, zero, zero, zero, zero, zero)
    state.live[warp] &= ~mask
    if state.live[warp] == 0:
        state.alive -= 1
    waiting = False
    for f in range(state.fragments[warp]):
        waiting |= state.fragment[warp, f] == at.AT_CONVERGENCE or state.fragment[warp, f] == at.AT_WARP_WAIT
    if waiting:
        release_converged(state, registers, warp, own_base, False)
        release_warp_wait(state, warp)
    if state.at_barrier > 0:
        for barrier in range(at.ALL_BARRIERS):
            complete_barrier(state, barrier)


@inner
def arrive(state, warp, mask, barrier, threads, reduction, vote):
    """Lanes ``mask`` arrive at a block barrier that expects ``threads`` (0: all of the block). Each arrival counts: a
    warp group that arrives without waiting, then waits there, opens a barrier of two (FlashAttention-3 begins its turns
    so)."""
    state.arrivals = 1
    twice = state.arrived[barrier, warp] & mask
    if twice:
        state.again[barrier] += count_lanes(twice) if state.live[warp] & ~twice else np.int64(at.LANES)
    state.arrived[barrier, warp] |= mask
    state.vote[barrier, warp] |= vote & mask
    state.expected[barrier] = threads
    state.reduction[barrier] = reduction


@inner
def complete_barrier(state, barrier):
    """If everybody expected has arrived, make the waiting fragments ready; True if so. From here on warps
    may run together again.

    Hardware counts warps times 32, and lanes that have exited count as arrived.
    """
    warps = state.warps
    threads, somebody = np.int64(state.again[barrier]), False
    for warp in range(warps):
        arrived = state.arrived[barrier, warp]
        complete = (state.live[warp] & ~arrived) == 0
        somebody |= arrived != 0
        if state.expected[barrier] == 0:
            if not complete:
                return False
        elif arrived:
            if not complete:
                return False
            threads += at.LANES
    if not somebody or threads < state.expected[barrier]:
        return False
    state.one_by_one = 0
    state.turn[barrier] += 1
    state.again[barrier] = 0
    total, latest = np.int64(0), np.int64(0)
    every = True
    for warp in range(warps):
        if state.arrived[barrier, warp]:
            latest = max(latest, state.clock_ahead[warp])
        total += count_lanes(state.vote[barrier, warp] & state.arrived[barrier, warp])
        every &= (state.arrived[barrier, warp] & ~state.vote[barrier, warp]) == 0
    kind = state.reduction[barrier]
    value = total
    if kind == ops.RED_AND:
        value = np.int64(-1) if every else np.int64(0)
    elif kind == ops.RED_OR:
        value = np.int64(-1) if total > 0 else np.int64(0)
    for warp in range(warps):
        if kind != ops.RED_NONE and state.arrived[barrier, warp]:
            state.result[warp] = signed32(value)
        if state.arrived[barrier, warp]:
            state.clock_ahead[warp] = latest  # whoever waited for a time has kept all of them waiting
        state.arrived[barrier, warp] = 0
        state.vote[barrier, warp] = 0
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] == at.AT_BARRIER and state.wait[warp, f] == barrier:
                state.fragment[warp, f] = at.FREE
                state.at_barrier -= 1
                push(state, warp, state.pc[warp, f] + 1, state.mask[warp, f], at.READY, 0)
    return True


@seldom
def release_registers(state):
    """Let warps go on that wait for registers of the block's pool (PTX setmaxnreg.inc), as long as there are enough, in
    their order."""
    for warp in range(state.warps):
        for f in range(state.fragments[warp]):
            if state.fragment[warp, f] != at.AT_REGISTERS:
                continue
            wanted = max(np.int64(0), state.wait[warp, f] - state.held_registers[warp]) * at.LANES
            if wanted <= state.free_registers:
                state.free_registers -= wanted
                state.held_registers[warp] = max(state.held_registers[warp], state.wait[warp, f])
                state.fragment[warp, f] = at.READY
                state.pc[warp, f] += 1
                state.ready[warp] += 1
