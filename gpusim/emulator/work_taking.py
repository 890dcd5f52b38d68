"""Clusters that running ones take over before they start (PTX clusterlaunchcontrol.try_cancel).

Mental model: on a GPU the blocks of the first wave ask for the next cluster whenever they are done, and get whichever
is next. Here the clusters behind the first wave are dealt out to those of it in turn, so that each of them does as much
as if all were equally fast, in whatever order the emulator runs them. What nobody asks for starts as usual.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import CLUSTER, resolve
from gpusim.emulator.addresses import formed_addresses, log_addresses, second_addresses
from gpusim.emulator.atomics import complete_transactions
from gpusim.emulator.cluster_memory import offset_of
from gpusim.emulator.pointers import load64, store32, store64
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.isa.lane_masks import first_lane
from gpusim.trace.layout import RANK_SHIFT

#: Entries of ``work`` int64[CLUSTERS + clusters]: clusters of the grid, those of the first wave, and for each cluster
#: how many it has taken over (of the first wave) or whether it can still be.
TOTAL, WAVE, CLUSTERS = range(3)
TAKEN, STARTED = -1, -2
_ANSWER_BYTES, _BARRIER_BYTES = 16, 8


@inner
def is_taken(state, block):
    """Whether the block's cluster has been taken over, and is not to start; else it can no longer be."""
    place = state.work_host + 8 * (CLUSTERS + _cluster_number(state, block))
    value = load64(place)
    if value == 0 and _cluster_number(state, block) >= load64(state.work_host + 8 * WAVE):
        store64(place, np.int64(STARTED))
    return value == TAKEN


@inner
def _cluster_number(state, block):
    number, scale = np.int64(0), np.int64(1)
    for axis in range(3):
        number += scale * (block % state.grid_dim[axis] // state.cluster_dim[axis])
        scale *= state.grid_dim[axis] // state.cluster_dim[axis]
        block //= state.grid_dim[axis]
    return number


@inner
def _take(state):
    """The next cluster that this one takes over, -1 if there is none."""
    own, work = _cluster_number(state, state.linear), state.work_host
    wave = load64(work + 8 * WAVE)
    if own >= wave:
        return np.int64(-1)
    count = load64(work + 8 * (CLUSTERS + own))
    found = own + (count + 1) * wave
    if found >= load64(work + 8 * TOTAL) or load64(work + 8 * (CLUSTERS + found)) != 0:
        return np.int64(-1)
    store64(work + 8 * (CLUSTERS + own), count + 1)
    store64(work + 8 * (CLUSTERS + found), np.int64(TAKEN))
    return found


@inner
def told_lanes(state, row, address, mask):
    """The lanes of a NEXT_WORK whose ``address`` int64[32] is told: the first of ``mask``, or where all blocks of the
    cluster are, one for each rank, whose address is made that block's."""
    if row[at.OP] != ops.NEXT_WORK or mask == 0:
        return mask
    low = first_lane(mask)
    if row[at.F0] == 0:
        return np.int64(1) << low
    offset = offset_of(address[low])
    for rank in range(state.cluster_size):
        address[rank] = offset | np.int64(rank) << RANK_SHIFT
    return (np.int64(1) << state.cluster_size) - 1


@seldom
def execute_next_work(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
):
    """Execute the NEXT_WORK ``index``. Returns as :func:`gpusim.emulator.access.execute_memory` does."""
    row, address = matrix[index], state.address
    if mask == 0:
        log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    second_addresses(state, matrix, registers, index, own_base)
    lanes = told_lanes(state, row, address, mask)
    log_addresses(state, accesses, scattered, global_warp, lanes)
    status = resolve(state, allocations, hint, index, warp, lanes, np.int64(_ANSWER_BYTES), np.int64(CLUSTER))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        state.second[lane] = address[lane]
    formed_addresses(state, matrix, registers, index, own_base)
    lanes = told_lanes(state, row, address, mask)
    status = resolve(state, allocations, hint, index, warp, lanes, np.int64(_BARRIER_BYTES), np.int64(CLUSTER))
    if status != at.DONE:
        return status
    found = _take(state)
    x, y, z = np.int64(0), np.int64(0), np.int64(0)
    if found >= 0:
        across, down = state.grid_dim[0] // state.cluster_dim[0], state.grid_dim[1] // state.cluster_dim[1]
        x = found % across * state.cluster_dim[0]
        y = found // across % down * state.cluster_dim[1]
        z = found // (across * down) * state.cluster_dim[2]
    for lane in range(at.LANES):
        if (lanes >> lane) & 1:
            store32(state.second[lane], x)
            store32(state.second[lane] + 4, y | z << 16)
            store32(state.second[lane] + 8, np.int64(1 if found >= 0 else 0))
            store32(state.second[lane] + 12, np.int64(0))
            complete_transactions(address[lane], np.int64(_ANSWER_BYTES))
    return np.int64(at.DONE)
