"""Fragments of a warp, and what they wait for: convergence, the warp, the block.

Mental model: a warp is a set of fragments, each some lanes at one instruction. The one that runs lives in
the interpreter's local variables; the others lie in the table ``Block.pc/mask/state/wait``. A fragment that
reaches a barrier is put into the table; whoever completes the barrier (by arriving, leaving or exiting)
makes the waiting ones ready again, merged where they stand at the same instruction. The fragment that has
waited longest runs next, so that lanes which spin for each other all make progress.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.jit import compiled
from gpusim.sass import system_ops as ops


@compiled
def signed32(value):
    """The low 32 bits of ``value`` as a signed number, in range for an int32 whether compiled or not."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@compiled
def first_lane(mask):
    """Lowest set bit of a lane mask (32 for none)."""
    lane = 0
    while lane < 32 and not (mask >> lane) & 1:
        lane += 1
    return lane


@compiled
def count_lanes(mask):
    """Set bits of a lane mask."""
    mask = mask - ((mask >> 1) & 0x55555555)
    mask = (mask & 0x33333333) + ((mask >> 2) & 0x33333333)
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F
    return ((mask * 0x01010101) & 0xFFFFFFFF) >> 24


@compiled
def push(block, warp, pc, mask, state, wait):
    """Put a fragment into the warp's table; one that is ready joins a ready one at the same place."""
    if state == at.READY:
        for f in range(at.LANES):
            if block.state[warp, f] == at.READY and block.pc[warp, f] == pc:
                block.mask[warp, f] |= mask
                return
    for f in range(at.LANES):
        if block.state[warp, f] == at.FREE:
            block.pc[warp, f] = pc
            block.mask[warp, f] = mask
            block.state[warp, f] = state
            block.wait[warp, f] = wait
            block.where[at.W_STAMP] += 1
            block.stamp[warp, f] = block.where[at.W_STAMP]
            if state == at.READY:
                block.ready[warp] += 1
            elif state == at.AT_BARRIER:
                block.where[at.W_AT_BARRIER] += 1
            return


@compiled
def pick(block, warp):
    """Index of the ready fragment that has waited longest, or -1; it leaves the table."""
    best = -1
    for f in range(at.LANES):
        if block.state[warp, f] == at.READY:
            if best < 0 or block.stamp[warp, f] < block.stamp[warp, best]:
                best = f
    if best >= 0:
        block.state[warp, best] = at.FREE
        block.ready[warp] -= 1
    return best


@compiled
def participants(block, own_base, row, mask):
    """Lanes that set out together, as the convergence barrier ``row`` of a fragment's lanes says."""
    return np.int64(block.registers[own_base + row + first_lane(mask)]) & at.FULL


@compiled
def release_converged(block, warp, own_base):
    """Make ready what waits in BSYNC for nobody any more."""
    for f in range(at.LANES):
        if block.state[warp, f] != at.AT_CONVERGENCE:
            continue
        row, pc, arrived = block.wait[warp, f], block.pc[warp, f], np.int64(0)
        for g in range(at.LANES):
            if block.state[warp, g] == at.AT_CONVERGENCE and block.wait[warp, g] == row and block.pc[warp, g] == pc:
                arrived |= block.mask[warp, g]
        wanted = participants(block, own_base, row, block.mask[warp, f]) & block.live[warp]
        if wanted & ~arrived:
            continue
        together = np.int64(0)
        for g in range(at.LANES):
            same = block.state[warp, g] == at.AT_CONVERGENCE and block.wait[warp, g] == row
            if same and block.pc[warp, g] == pc and (g == f or block.mask[warp, g] & wanted):
                together |= block.mask[warp, g]
                block.state[warp, g] = at.FREE
        push(block, warp, pc + 1, together, at.READY, 0)


@compiled
def release_warp_wait(block, warp):
    """Make ready what waits in WARPSYNC for nobody any more."""
    arrived = np.int64(0)
    for f in range(at.LANES):
        if block.state[warp, f] == at.AT_WARP_WAIT:
            arrived |= block.mask[warp, f]
    for f in range(at.LANES):
        if block.state[warp, f] != at.AT_WARP_WAIT:
            continue
        wanted = block.wait[warp, f] & block.live[warp]
        if wanted & ~arrived:
            continue
        for g in range(at.LANES):
            if block.state[warp, g] == at.AT_WARP_WAIT and block.mask[warp, g] & wanted:
                block.state[warp, g] = at.FREE
                push(block, warp, block.pc[warp, g] + 1, block.mask[warp, g], at.READY, 0)


@compiled
def leave_convergence(block, warp, own_base, row, leaving):
    """BREAK: nobody waits for the lanes ``leaving`` at this convergence barrier any more."""
    wanted = participants(block, own_base, row, leaving)
    for lane in range(at.LANES):
        if (wanted >> lane) & 1:
            block.registers[own_base + row + lane] = signed32(
                np.int64(block.registers[own_base + row + lane]) & ~leaving
            )
    release_converged(block, warp, own_base)


@compiled
def retire(code, block, warp, own_base, mask):
    """EXIT of ``mask``: whoever waited for these lanes waits no more."""
    block.live[warp] &= ~mask
    waiting = False
    for f in range(at.LANES):
        waiting |= block.state[warp, f] == at.AT_CONVERGENCE or block.state[warp, f] == at.AT_WARP_WAIT
    if waiting:
        release_converged(block, warp, own_base)
        release_warp_wait(block, warp)
    if block.where[at.W_AT_BARRIER] > 0:
        for barrier in range(at.BLOCK_BARRIERS):
            complete_barrier(code, block, barrier)


@compiled
def arrive(code, block, warp, mask, barrier, threads, reduction, vote):
    """Lanes ``mask`` arrive at a block barrier that expects ``threads`` (0: all of the block)."""
    block.arrived[barrier, warp] |= mask
    block.vote[barrier, warp] |= vote & mask
    block.expected[barrier] = threads
    block.reduction[barrier] = reduction


@compiled
def complete_barrier(code, block, barrier):
    """If everybody expected has arrived, make the waiting fragments ready; True if so.

    Hardware counts warps times 32, and lanes that have exited count as arrived.
    """
    warps = code.shape[at.S_WARPS]
    threads, somebody = np.int64(0), False
    for warp in range(warps):
        arrived = block.arrived[barrier, warp]
        complete = (block.live[warp] & ~arrived) == 0
        somebody |= arrived != 0
        if block.expected[barrier] == 0:
            if not complete:
                return False
        elif arrived:
            if not complete:
                return False
            threads += at.LANES
    if not somebody or threads < block.expected[barrier]:
        return False
    total = np.int64(0)
    every = True
    for warp in range(warps):
        total += count_lanes(block.vote[barrier, warp] & block.arrived[barrier, warp])
        every &= (block.arrived[barrier, warp] & ~block.vote[barrier, warp]) == 0
    kind = block.reduction[barrier]
    value = total
    if kind == ops.RED_AND:
        value = np.int64(-1) if every else np.int64(0)
    elif kind == ops.RED_OR:
        value = np.int64(-1) if total > 0 else np.int64(0)
    for warp in range(warps):
        if kind != ops.RED_NONE and block.arrived[barrier, warp]:
            block.result[warp] = signed32(value)
        block.arrived[barrier, warp] = 0
        block.vote[barrier, warp] = 0
        for f in range(at.LANES):
            if block.state[warp, f] == at.AT_BARRIER and block.wait[warp, f] == barrier:
                block.state[warp, f] = at.FREE
                block.where[at.W_AT_BARRIER] -= 1
                push(block, warp, block.pc[warp, f] + 1, block.mask[warp, f], at.READY, 0)
    return True
