"""Loads and stores of a whole warp whose addresses are evenly spaced: by far the most there are.

Mental model: if each lane's base register is the one before plus a constant, the access is its first address and
that stride, and so is its record in the trace; the 32 addresses need not be formed. Whatever does not fit (lanes
off, an odd address, bytes outside every allocation) is left to :func:`gpusim.emulator.access.execute_memory`, which
knows all cases and makes the errors.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import NOWHERE, SHARED, load_affine, store_affine, stretch
from gpusim.emulator.addresses import AFFINE_NONE
from gpusim.emulator.cluster_memory import own_shared
from gpusim.emulator.pointers import load32, store32
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inlined, inner
from gpusim.isa.lane_masks import signed32
from gpusim.isa.warp_value import any_bits, equal, highest, load, lowest, ramp, splat, store

_HIGHEST = 31  # the last lane


@inlined
def affine_access(state, row, registers, allocations, hint, accesses, index, own_base, global_warp, place):
    """Execute the LOAD or STORE ``row`` for all lanes of one warp if its addresses are evenly spaced and good;
    False, with nothing done, if not. ``place``: the warp's lanes of the register stored or loaded."""
    base = np.int64(row[at.BASE_OFFSET]) + (np.int64(row[at.BASE_OWN]) & own_base)
    host = state.registers_host
    first = np.int64(registers[base])
    stride = np.int64(signed32(np.int64(registers[base + 1]) - first))
    if equal(load(host + 4 * base), ramp(first, stride)) != at.FULL:
        return False
    # The 32-bit words are evenly spaced modulo 2**32: make sure that none of them wraps.
    if row[at.BASE_WORDS] == 2:
        high = np.int64(registers[base + at.ROW])
        if equal(load(host + 4 * (base + at.ROW)), splat(high)) != at.FULL:
            return False
        first &= at.FULL
        last = first + _HIGHEST * stride
        if last < 0 or last > at.FULL:
            return False
        first |= high << 32
    elif row[at.BASE_SIGNED]:
        last = first + _HIGHEST * stride
        if last < -0x80000000 or last > 0x7FFFFFFF:
            return False
    else:
        first &= at.FULL
        last = first + _HIGHEST * stride
        if last < 0 or last > at.FULL:
            return False
        first, stride = first << np.int64(row[at.BASE_SHIFT]), stride << np.int64(row[at.BASE_SHIFT])
        if stride > 0x7FFFFFFF or stride <= AFFINE_NONE:
            return False
    uniform = np.int64(row[at.UNIFORM_OFFSET]) + (np.int64(row[at.UNIFORM_OWN]) & own_base)
    first += np.int64(row[at.ADDRESS_OFFSET])
    if row[at.UNIFORM_WORDS] == 2:
        first += (np.int64(registers[uniform]) & at.FULL) | (np.int64(registers[uniform + at.ROW]) << 32)
    else:
        first += np.int64(registers[uniform])
    size, space = np.int64(row[at.BYTES]), np.int64(row[at.SPACE])
    if space == SHARED and state.cluster_rank:
        first = own_shared(state, first)
    low, high = first, first + _HIGHEST * stride
    if stride < 0:
        low, high = high, low
    if (first | stride) & (size - 1) or (space == SHARED and (low < 0 or high > at.FULL)):
        return False
    move = stretch(state, allocations, hint, index, low, high - low + size, space)
    if move == NOWHERE:
        return False
    n = state.used[at.ACCESSES]
    state.used[at.ACCESSES] = n + 1
    accesses[n, at.ACCESS_WARP] = global_warp
    accesses[n, at.ACCESS_ADDRESS] = first
    accesses[n, at.ACCESS_PATTERN] = (stride << 32) | at.FULL
    first += move
    if size == 4 and stride == 4:
        if row[at.OP] == ops.LOAD:
            store(host + 4 * place, load(first))
        else:
            store(first, load(host + 4 * place))
    elif row[at.OP] == ops.LOAD:
        load_affine(state, registers, place, first, stride, size, np.int64(row[at.F0]))
    else:
        store_affine(state, registers, place, first, stride, size)
    return True


@inner
def scattered_access(
    state, row, registers, allocations, hint, accesses, scattered, index, own_base, global_warp, place
):
    """Execute the LOAD or STORE ``row`` of whole words for all lanes of one warp wherever they look, if their 32-bit
    words differ alone, are not evenly spaced and good; False, with nothing done, if not."""
    size, space = np.int64(row[at.BYTES]), np.int64(row[at.SPACE])
    base = np.int64(row[at.BASE_OFFSET]) + (np.int64(row[at.BASE_OWN]) & own_base)
    host = state.registers_host
    offsets = load(host + 4 * base)
    first = np.int64(registers[base])
    if size < 4 or row[at.BASE_SIGNED] or row[at.BASE_SHIFT]:
        return False
    if equal(offsets, ramp(first, np.int64(registers[base + 1]) - first)) == at.FULL:
        return False
    origin = np.int64(row[at.ADDRESS_OFFSET])
    if row[at.BASE_WORDS] == 2:
        high = np.int64(registers[base + at.ROW])
        if equal(load(host + 4 * (base + at.ROW)), splat(high)) != at.FULL:
            return False
        origin += high << 32
    uniform = np.int64(row[at.UNIFORM_OFFSET]) + (np.int64(row[at.UNIFORM_OWN]) & own_base)
    if row[at.UNIFORM_WORDS] == 2:
        origin += (np.int64(registers[uniform]) & at.FULL) | (np.int64(registers[uniform + at.ROW]) << 32)
    else:
        origin += np.int64(registers[uniform])
    low, high = origin + lowest(offsets), origin + highest(offsets)
    if space == SHARED and state.cluster_rank:
        rank = low - own_shared(state, low)
        origin, low, high = origin - rank, low - rank, high - rank
    if (origin | any_bits(offsets)) & (size - 1) or (space == SHARED and (low < 0 or high > at.FULL)):
        return False
    move = stretch(state, allocations, hint, index, low, high - low + size, space)
    if move == NOWHERE:
        return False
    n, s = state.used[at.ACCESSES], state.used[at.SCATTERED_ROWS]
    state.used[at.ACCESSES], state.used[at.SCATTERED_ROWS] = n + 1, s + 1
    accesses[n, at.ACCESS_WARP] = global_warp
    accesses[n, at.ACCESS_ADDRESS] = s
    accesses[n, at.ACCESS_PATTERN] = (AFFINE_NONE << 32) | at.FULL
    start, loads = np.uint64(base), row[at.OP] == ops.LOAD
    for lane in range(np.uint64(at.LANES)):
        scattered[s, lane] = np.uint64(origin + (np.int64(registers[start + lane]) & at.FULL))
    # From the log, for the addresses may lie in a register that is loaded. Lanes that store meet in whole words, of
    # which the highest lane's wins.
    for part in range(size >> 2):
        words, there = np.uint64(place + part * at.ROW), move + 4 * part
        if loads:
            for lane in range(np.uint64(at.LANES)):
                registers[words + lane] = load32(np.int64(scattered[s, lane]) + there)
        else:
            for lane in range(np.uint64(at.LANES)):
                store32(np.int64(scattered[s, lane]) + there, registers[words + lane])
    return True
