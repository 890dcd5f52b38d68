"""Memory instructions: bounds of their addresses, and the bytes themselves.

Mental model: compute 32 addresses; find the one allocation that holds all of them (nearly always the one that this
instruction used last); check alignment; move bytes between the user's arrays and the registers. Addresses that form an
affine sequence over a whole warp, the common case, are checked by their two ends and moved as one stretch. Only if the
lanes do not share an allocation is each looked up alone. Nothing is moved before every executing lane has been checked.
Operands are places in the register file, as in :mod:`gpusim.isa.bodies.lanes`.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.addresses import (
    AFFINE_NONE,
    affine_stride,
    formed_addresses,
    lane_addresses,
    log_addresses,
    record,
    second_addresses,
)
from gpusim.emulator.atomics import atomic_lane
from gpusim.emulator.cluster_memory import NO_PEER, cluster_host, is_own
from gpusim.emulator.pointers import copy_bytes, load8, load16, load32, store8, store16, store32
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inlined, inner, seldom
from gpusim.isa.lane_masks import first_lane, signed32
from gpusim.trace.record import Space

GLOBAL, SHARED, LOCAL, GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
CONSTANT, CLUSTER = int(Space.CONSTANT), int(Space.CLUSTER)
NOWHERE = -(1 << 62)


@inner
def find_allocation(allocations, hint, index, address, size):
    """Index of the allocation that holds bytes ``address`` to ``address + size``, or -1."""
    n = allocations.shape[0]
    guess = hint[index]
    if guess < n:
        base = allocations[guess, 0]
        if base <= address and address + size <= base + allocations[guess, 1]:
            return guess
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if allocations[middle, 0] <= address:
            low = middle + 1
        else:
            high = middle
    found = low - 1
    if found < 0 or address + size > allocations[found, 0] + allocations[found, 1]:
        return np.int64(-1)
    hint[index] = found
    return np.int64(found)


@inner
def fail(state, index, warp, lane, address, size, space):
    """Note where a memory instruction went wrong."""
    state.fault_index, state.fault_warp, state.fault_lane = index, warp, lane
    state.fault_address, state.fault_bytes, state.fault_space = address, size, space


@inner
def resolve(state, allocations, hint, index, warp, mask, size, space):
    """Turn ``state.address`` into host addresses for the lanes of ``mask``.

    Returns DONE, BAD_ADDRESS or MISALIGNED. Local memory is resolved to its first word; the caller steps to the next
    (:func:`word_step`).
    """
    address = state.address
    low, high, odd = np.int64(0x7FFFFFFFFFFFFFFF), np.int64(-1), np.int64(0)
    if mask == at.FULL:
        for lane in range(at.LANES):
            low = min(low, address[lane])
            high = max(high, address[lane])
            odd |= address[lane]
    else:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                low = min(low, address[lane])
                high = max(high, address[lane])
                odd |= address[lane]
    if odd & (size - 1):
        for lane in range(at.LANES):
            if (mask >> lane) & 1 and address[lane] & (size - 1):
                fail(state, index, warp, lane, address[lane], size, space)
                return np.int64(at.MISALIGNED)
    if space == SHARED:
        base = state.shared_base
        if low >= state.shared_low and high + size <= base + state.shared_bytes:
            for lane in range(at.LANES):
                address[lane] += state.shared_host - base
            return np.int64(at.DONE)
    elif space == LOCAL:
        if low >= 0 and high + size <= state.local_bytes:
            _to_local(state, warp, at.FULL)
            return np.int64(at.DONE)
    elif space != CLUSTER:
        found = find_allocation(allocations, hint, index, low, high - low + size) if low >= 0 else np.int64(-1)
        if found >= 0:
            move = allocations[found, 2] - allocations[found, 0]
            for lane in range(at.LANES):
                address[lane] += move
            return np.int64(at.DONE)
    return _resolve_each(state, allocations, hint, index, warp, mask, size, space)


@inner
def _to_local(state, warp, mask):
    address = state.address
    start = state.local_host + np.int64(warp) * at.LANES * state.local_bytes
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            offset = address[lane]
            address[lane] = start + (offset >> 2) * (4 * at.LANES) + lane * 4 + (offset & 3)


@inner
def _resolve_each(state, allocations, hint, index, warp, mask, size, space):
    address = state.address
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        place = address[lane]
        if space == CLUSTER or (space == GENERIC and place >> 32 == state.shared_window >> 32):
            host = cluster_host(state, place, size)
            if host != NO_PEER:
                address[lane] = host
                continue
        elif space == GENERIC and place >> 32 == state.local_window >> 32:
            offset = place & at.FULL
            if offset + size <= state.local_bytes:
                address[lane] = offset
                _to_local(state, warp, np.int64(1) << lane)
                continue
        elif space == SHARED:
            offset = place - state.shared_base
            if place >= state.shared_low and offset + size <= state.shared_bytes:
                address[lane] = state.shared_host + offset
                continue
        elif space == LOCAL:
            if place + size <= state.local_bytes:
                _to_local(state, warp, np.int64(1) << lane)
                continue
        else:
            found = find_allocation(allocations, hint, index, place, np.int64(size)) if place >= 0 else np.int64(-1)
            if found >= 0:
                address[lane] = place + allocations[found, 2] - allocations[found, 0]
                continue
        fail(state, index, warp, lane, place, size, space)
        return np.int64(at.BAD_ADDRESS)
    return np.int64(at.DONE)


@inner
def served_lanes(state, mask, shared, kind):
    """Lanes whose generic address lies in global memory, or, with ``shared``, in the block's shared memory. In that of
    other blocks of the cluster all integers of type ``kind`` are served: compiled code has no other way to them
    there."""
    served = np.int64(0)
    is_integer = kind <= ops.S64
    for lane in range(at.LANES):
        window = state.address[lane] >> 32
        near = window == state.shared_window >> 32
        if window != state.local_window >> 32 and (
            shared or not near or (is_integer and not is_own(state, state.address[lane]))
        ):
            served |= np.int64(1) << lane
    return served & mask


@inner
def word_step(state, space, lane_virtual):
    """Host bytes from one 32-bit word of an access to the next: local memory interleaves the lanes."""
    if space == LOCAL or (space == GENERIC and lane_virtual >> 32 == state.local_window >> 32):
        return np.int64(4 * at.LANES)
    return np.int64(4)


@apart
def load_lanes(state, registers, d, mask, size, signed, step):
    """Move bytes from host addresses to the registers at ``d``. ``step``: bytes between words of one lane."""
    address = state.address
    if size == 4:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                registers[d + lane] = load32(address[lane])
    elif size >= 8:
        for word in range(size >> 2):
            for lane in range(at.LANES):
                if (mask >> lane) & 1:
                    registers[d + word * at.ROW + lane] = load32(address[lane] + word * step)
    elif size == 1:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                value = load8(address[lane])
                registers[d + lane] = value - ((value & 0x80) << 1) if signed else value
    else:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                value = load16(address[lane])
                registers[d + lane] = value - ((value & 0x8000) << 1) if signed else value


@apart
def store_lanes(state, registers, x, mask, size, step):
    """Move bytes from the registers at ``x`` to host addresses, lane by lane, so that the highest lane wins."""
    address = state.address
    if size == 4:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store32(address[lane], registers[x + lane])
    elif size >= 8:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                for word in range(size >> 2):
                    store32(address[lane] + word * step, registers[x + word * at.ROW + lane])
    elif size == 1:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store8(address[lane], registers[x + lane])
    else:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store16(address[lane], registers[x + lane])


@inlined
def stretch(state, allocations, hint, index, low, size, space):
    """Host minus device address of the ``size`` bytes from ``low`` if one allocation, or the block's shared
    memory, holds them all; else NOWHERE."""
    if space == SHARED:
        base = state.shared_base
        if low >= state.shared_low and low + size <= base + state.shared_bytes:
            return state.shared_host - base
        return np.int64(NOWHERE)
    found = find_allocation(allocations, hint, index, low, size) if low >= 0 else np.int64(-1)
    if found < 0:
        return np.int64(NOWHERE)
    return allocations[found, 2] - allocations[found, 0]


@inlined
def load_affine(state, registers, d, host, stride, size, signed):
    """Load all 32 lanes from ``host``, ``stride`` bytes apart."""
    start, lanes = np.uint64(d), np.uint64(at.LANES)
    if size == 4:
        if stride == 4:
            copy_bytes(state.registers_host + 4 * d, host, np.int64(4 * at.LANES))
        elif stride == 0:
            value = load32(host)
            for lane in range(lanes):
                registers[start + lane] = value
        else:
            for lane in range(lanes):
                registers[start + lane] = load32(host + stride * np.int64(lane))
    elif size >= 8:
        for word in range(size >> 2):
            start = np.uint64(d + word * at.ROW)
            for lane in range(lanes):
                registers[start + lane] = load32(host + 4 * word + stride * np.int64(lane))
    elif size == 1:
        for lane in range(lanes):
            value = load8(host + stride * np.int64(lane))
            registers[start + lane] = value - ((value & 0x80) << 1) if signed else value
    else:
        for lane in range(lanes):
            value = load16(host + stride * np.int64(lane))
            registers[start + lane] = value - ((value & 0x8000) << 1) if signed else value


@inlined
def store_affine(state, registers, x, host, stride, size):
    """Store all 32 lanes to ``host``, ``stride`` bytes apart, in their order."""
    if size == 4 and stride == 4:
        copy_bytes(host, state.registers_host + 4 * x, np.int64(4 * at.LANES))
        return
    start = np.uint64(x)
    for lane in range(np.uint64(at.LANES)):
        place = host + stride * np.int64(lane)
        if size == 1:
            store8(place, registers[start + lane])
        elif size == 2:
            store16(place, registers[start + lane])
        else:
            for word in range(np.uint64(size >> 2)):
                store32(place + 4 * np.int64(word), registers[start + word * np.uint64(at.ROW) + lane])


@inlined
def load_each(registers, address, d, move, size, signed):
    """Load all 32 lanes, each from its ``address`` plus ``move``."""
    start, lanes = np.uint64(d), np.uint64(at.LANES)
    if size >= 4:
        for word in range(size >> 2):
            start = np.uint64(d + word * at.ROW)
            for lane in range(lanes):
                registers[start + lane] = load32(address[lane] + (move + 4 * word))
    elif size == 1:
        for lane in range(lanes):
            value = load8(address[lane] + move)
            registers[start + lane] = value - ((value & 0x80) << 1) if signed else value
    else:
        for lane in range(lanes):
            value = load16(address[lane] + move)
            registers[start + lane] = value - ((value & 0x8000) << 1) if signed else value


@inlined
def store_each(registers, address, x, move, size):
    """Store all 32 lanes in their order, each at its ``address`` plus ``move``."""
    start = np.uint64(x)
    for lane in range(np.uint64(at.LANES)):
        place = address[lane] + move
        if size == 1:
            store8(place, registers[start + lane])
        elif size == 2:
            store16(place, registers[start + lane])
        else:
            for word in range(np.uint64(size >> 2)):
                store32(place + 4 * np.int64(word), registers[start + word * np.uint64(at.ROW) + lane])


@inlined
def execute_memory(
    state,
    matrix,
    registers,
    allocations,
    hint,
    accesses,
    scattered,
    index,
    warp,
    own_base,
    global_warp,
    mask,
    x,
    y,
    d,
    q,
):
    """Execute the memory instruction ``index`` for the lanes of ``mask``; returns DONE or what is wrong.

    Stored values lie at ``x`` (and ``y``) among the registers, loaded ones go to ``d``; ``q`` takes the predicate of an
    atomic.
    """
    row = matrix[index]
    op, size, space = row[at.OP], np.int64(row[at.BYTES]), np.int64(row[at.SPACE])
    if mask == 0:
        for _ in range(row[at.RECORDS]):
            record(state, accesses, scattered, global_warp, mask, np.int64(0))
        return np.int64(at.DONE)
    lane_addresses(state, matrix, registers, index, own_base)
    address = state.address
    stride = affine_stride(address, mask)
    record(state, accesses, scattered, global_warp, mask, stride)
    if op == ops.ATOMIC and row[at.F2] != ops.SERVED_ALL:
        # The unit serves some spaces only and says which lanes it has served.
        mask = served_lanes(state, mask, row[at.F2] == ops.SERVED_GLOBAL_SHARED, row[at.F1])
        q[0] = np.uint32(mask)
        if mask == 0:
            return np.int64(at.DONE)
    if mask == at.FULL and op <= ops.STORE and space != LOCAL:
        low, high, odd = address[0], address[0] + 31 * stride, address[0] | stride
        if stride == AFFINE_NONE:
            high, odd = low, low
            for lane in range(at.LANES):
                low = min(low, address[lane])
                high = max(high, address[lane])
                odd |= address[lane]
        elif stride < 0:
            low, high = high, low
        if odd & (size - 1) == 0:
            move = stretch(state, allocations, hint, index, low, high - low + size, space)
            if move != NOWHERE:
                # Evenly spaced lanes have been served by affine_access, but for a few that do not look it.
                if op == ops.LOAD:
                    load_each(registers, address, d, move, size, np.int64(row[at.F0]))
                else:
                    store_each(registers, address, x, move, size)
                return np.int64(at.DONE)
    step = word_step(state, space, address[first_lane(mask)])
    if space == GENERIC and size > 4 and stride == AFFINE_NONE:
        return _mixed_wide(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size, x, y, d, q)
    status = resolve(state, allocations, hint, index, warp, mask, size, space)
    if status == at.BAD_ADDRESS and row[at.ORDERED] & at.WHOLE_WORD:
        status = _last_words(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size, space)
    if status != at.DONE:
        return status
    if op == ops.LOAD:
        load_lanes(state, registers, d, mask, size, np.int64(row[at.F0]), step)
    elif op == ops.STORE:
        store_lanes(state, registers, x, mask, size, step)
    elif op == ops.ATOMIC:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                atomic_lane(registers, x + lane, y + lane, d + lane, q, lane, row[at.F0], row[at.F1], address[lane])
    elif op == ops.ASYNC_COPY:
        return _async_copy(
            state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
        )
    return np.int64(at.DONE)


@seldom
def _last_words(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size, space):
    """As :func:`resolve`, of aligned words of which the first byte at least is allocated: on the host such a word
    crosses no page."""
    formed_addresses(state, matrix, registers, index, own_base)  # resolving has moved them
    for lane in range(at.LANES):
        place, only = state.address[lane], mask & np.int64(1) << lane
        if _resolve_each(state, allocations, hint, index, warp, only, size, space) != at.DONE:
            status = _resolve_each(state, allocations, hint, index, warp, only, np.int64(1), space)
            if status != at.DONE or state.address[lane] & (size - 1):
                fail(state, index, warp, lane, place, size, space)
                return np.int64(at.BAD_ADDRESS)
    return np.int64(at.DONE)


@seldom
def _mixed_wide(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size, x, y, d, q):
    """A wide generic access whose lanes may lie in different spaces: lane by lane."""
    row = matrix[index]
    status = resolve(state, allocations, hint, index, warp, mask, size, np.int64(GENERIC))
    if status != at.DONE:
        return status
    formed_addresses(state, matrix, registers, index, own_base)  # resolving has moved them
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            only = np.int64(1) << lane
            step = word_step(state, np.int64(GENERIC), state.address[lane])
            resolve(state, allocations, hint, index, warp, only, size, np.int64(GENERIC))
            if row[at.OP] == ops.LOAD:
                load_lanes(state, registers, d, only, size, np.int64(row[at.F0]), step)
            elif row[at.OP] == ops.STORE:
                store_lanes(state, registers, x, only, size, step)
            else:
                place = state.address[lane]
                atomic_lane(registers, x + lane, y + lane, d + lane, q, lane, row[at.F0], row[at.F1], place)
            # resolving moved all lanes: start the next one from its device address
            formed_addresses(state, matrix, registers, index, own_base)
    return np.int64(at.DONE)


@inner
def _async_copy(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
):
    """The global source is resolved in state.address; resolve the shared destination and copy."""
    size = np.int64(matrix[index, at.BYTES])
    for lane in range(at.LANES):
        state.second[lane] = state.address[lane]
    second_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, mask)
    status = resolve(state, allocations, hint, index, warp, mask, size, np.int64(SHARED))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            copy_bytes(state.address[lane], state.second[lane], size)
    return np.int64(at.DONE)


@apart
def load_constant(
    state, matrix, registers, constants, accesses, scattered, index, warp, own_base, global_warp, mask, d
):
    """An indexed load from a constant bank to the registers at ``d``, recorded by its offsets in the bank; returns
    DONE or BAD_CONSTANT."""
    row = matrix[index]
    size = np.int64(row[at.BYTES])
    if mask == 0:
        log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    formed_addresses(state, matrix, registers, index, own_base)
    start, limit = np.int64(row[at.F0]), np.int64(row[at.F1])
    for lane in range(at.LANES):
        offset = signed32(state.address[lane])
        if (mask >> lane) & 1 and (offset < 0 or offset + size > limit):
            fail(state, index, warp, lane, offset, size, CONSTANT)
            return np.int64(at.BAD_CONSTANT)
        state.address[lane] = offset
    log_addresses(state, accesses, scattered, global_warp, mask)
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        offset = signed32(state.address[lane])
        for word in range((size + 3) >> 2):
            value = np.int64(0)
            for byte in range(min(size, 4)):
                value |= np.int64(constants[start + offset + 4 * word + byte]) << (8 * byte)
            if row[at.F2] and size < 4 and value >> (8 * size - 1):
                value -= np.int64(1) << (8 * size)
            registers[d + word * at.ROW + lane] = signed32(value)
    return np.int64(at.DONE)
