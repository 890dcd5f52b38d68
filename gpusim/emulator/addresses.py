"""Where the lanes of a memory instruction look, and the record of it in the trace.

Mental model: 32 addresses are formed at once from registers, a uniform register and an offset; if they are an
affine sequence the trace keeps the first one and the stride, else all of them.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.cluster_memory import offset_of, own_shared, rank_of
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.bulk_ops import MULTICAST, PAIRED
from gpusim.isa.jit import apart, inlined, inner
from gpusim.isa.lane_masks import first_lane
from gpusim.isa.system_ops import EACH_BLOCK
from gpusim.trace.layout import RANK_SHIFT
from gpusim.trace.record import SCATTERED, Space

SHARED, LOCAL, CLUSTER = int(Space.SHARED), int(Space.LOCAL), int(Space.CLUSTER)
AFFINE_NONE = int(SCATTERED)


@inlined
def lane_addresses(state, matrix, registers, index, own_base):
    """Fill ``state.address`` with the addresses that instruction ``index`` names, all 32 lanes."""
    row, address = matrix[index], state.address
    base = np.uint64(row[at.BASE_OFFSET] + (row[at.BASE_OWN] & own_base))
    high = base + np.uint64(at.ROW)
    uniform = row[at.UNIFORM_OFFSET] + (row[at.UNIFORM_OWN] & own_base)
    offset = np.int64(row[at.ADDRESS_OFFSET])
    if row[at.UNIFORM_WORDS] == 2:
        offset += (np.int64(registers[uniform]) & at.FULL) | (np.int64(registers[uniform + at.ROW]) << 32)
    else:
        offset += np.int64(registers[uniform])
    if row[at.BASE_WORDS] == 2:
        for lane in range(np.uint64(at.LANES)):
            low = np.int64(registers[base + lane]) & at.FULL
            address[lane] = offset + (low | (np.int64(registers[high + lane]) << 32))
    elif row[at.BASE_SIGNED]:
        for lane in range(np.uint64(at.LANES)):
            address[lane] = offset + np.int64(registers[base + lane])
    else:
        shift = row[at.BASE_SHIFT]
        if shift == EACH_BLOCK:
            for lane in range(at.LANES):
                address[lane] = offset_of(offset) | np.int64(lane) << RANK_SHIFT
            return
        for lane in range(np.uint64(at.LANES)):
            address[lane] = offset + ((np.int64(registers[base + lane]) & at.FULL) << shift)
    if row[at.SPACE] == SHARED or row[at.SPACE] == LOCAL or row[at.SPACE] == CLUSTER:
        for lane in range(at.LANES):
            address[lane] &= at.FULL
        if row[at.SPACE] == SHARED and state.cluster_rank:
            for lane in range(at.LANES):
                address[lane] = own_shared(state, address[lane])


@inner
def second_addresses(state, matrix, registers, index, own_base):
    """Shared-memory destinations of an asynchronous copy or store."""
    row, address = matrix[index], state.address
    base = row[at.SECOND] + (row[at.SECOND + 1] & own_base)
    uniform = row[at.SECOND + 4] + (row[at.SECOND + 5] & own_base)
    offset = np.int64(row[at.SECOND + 6]) + np.int64(registers[uniform])
    for lane in range(at.LANES):
        value = (np.int64(registers[base + lane]) & at.FULL) << row[at.SECOND + 3]
        address[lane] = (offset + value) & at.FULL
        if row[at.SPACE] != CLUSTER:
            address[lane] = own_shared(state, address[lane])


@inlined
def affine_stride(address, mask):
    """Bytes between neighbouring lanes of ``mask`` if the addresses are an affine sequence, else
    AFFINE_NONE; 0 for one lane."""
    if mask == at.FULL:
        stride = address[1] - address[0]
        if stride > 0x7FFFFFFF or stride <= AFFINE_NONE:
            return np.int64(AFFINE_NONE)
        odd = np.int64(0)
        for lane in range(np.uint64(at.LANES - 1)):
            odd |= (address[lane + np.uint64(1)] - address[lane]) ^ stride
        return stride if odd == 0 else np.int64(AFFINE_NONE)
    low = first_lane(mask)
    rest = mask & (mask - 1)
    if rest == 0:
        return np.int64(0)
    second = first_lane(rest)
    span = address[second] - address[low]
    stride = span // (second - low)
    if stride * (second - low) != span or stride > 0x7FFFFFFF or stride <= AFFINE_NONE:
        return np.int64(AFFINE_NONE)
    for lane in range(second, at.LANES):
        if (mask >> lane) & 1 and address[lane] != address[low] + stride * (lane - low):
            return np.int64(AFFINE_NONE)
    return stride


@inlined
def record(state, accesses, scattered, warp, mask, stride):
    """Append one ACCESS record of ``state.address`` (the caller has made sure that there is room)."""
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    address = state.address
    accesses[n, at.ACCESS_WARP] = warp
    if mask == 0:
        accesses[n, at.ACCESS_ADDRESS] = 0
        accesses[n, at.ACCESS_PATTERN] = 0
    elif stride != AFFINE_NONE:
        low = first_lane(mask)
        accesses[n, at.ACCESS_ADDRESS] = address[low] - stride * low
        accesses[n, at.ACCESS_PATTERN] = (stride << 32) | mask
    else:
        s = state.used[at.SCATTERED_ROWS]
        state.used[at.SCATTERED_ROWS] = s + 1
        if mask == at.FULL:
            for lane in range(at.LANES):
                scattered[s, lane] = np.uint64(address[lane])
        else:
            for lane in range(at.LANES):
                scattered[s, lane] = np.uint64(address[lane]) if (mask >> lane) & 1 else np.uint64(0)
        accesses[n, at.ACCESS_ADDRESS] = s
        accesses[n, at.ACCESS_PATTERN] = (stride << 32) | mask


@apart
def formed_addresses(state, matrix, registers, index, own_base):
    """:func:`lane_addresses`, called: for all but plain loads and stores. Of a bulk copy to several blocks of the
    cluster lane r gets the mbarrier that block r tells."""
    lane_addresses(state, matrix, registers, index, own_base)
    row, address = matrix[index], state.address
    if row[at.OP] == ops.BULK and row[at.F3] & MULTICAST:
        barrier = address[0]
        for lane in range(at.LANES):
            rank = np.int64(lane)
            if row[at.F3] & PAIRED:
                rank = rank & -2 | rank_of(barrier) & 1
            address[lane] = rank << RANK_SHIFT | offset_of(barrier)


@apart
def log_addresses(state, accesses, scattered, warp, mask):
    """Append the record of ``state.address`` for the lanes ``mask``, of which there may be none."""
    stride = affine_stride(state.address, mask) if mask else np.int64(0)
    record(state, accesses, scattered, warp, mask, stride)
