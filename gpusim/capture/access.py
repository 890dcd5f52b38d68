"""Memory instructions: lane addresses, bounds, the bytes themselves, and their record in the trace.

Mental model: compute 32 addresses; find the one allocation that holds all of them (nearly always the one
that this instruction used last); check alignment; move bytes between the user's arrays and the scratch
rows. Only if the lanes do not share an allocation is each looked up alone. Nothing is moved before every
executing lane has been checked.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.atomics import atomic_lane
from gpusim.capture.flow import first_lane, signed32
from gpusim.capture.jit import inner
from gpusim.capture.pointers import (
    copy_bytes,
    load8,
    load16,
    load32,
    store8,
    store16,
    store32,
)
from gpusim.sass import system_ops as ops
from gpusim.trace.record import SCATTERED, Space

GLOBAL, SHARED, LOCAL, GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
CONSTANT = int(Space.CONSTANT)
AFFINE_NONE = int(SCATTERED)


@inner
def lane_addresses(state, matrix, registers, index, own_base):
    """Fill ``state.address`` with the addresses that instruction ``index`` names, all 32 lanes."""
    row, address = matrix[index], state.address
    base = np.uint64(row[at.BASE_OFFSET] + (row[at.BASE_OWN] & own_base))
    high = base + np.uint64(at.LANES)
    uniform = row[at.UNIFORM_OFFSET] + (row[at.UNIFORM_OWN] & own_base)
    offset = np.int64(row[at.ADDRESS_OFFSET])
    if row[at.UNIFORM_WORDS] == 2:
        offset += (np.int64(registers[uniform]) & at.FULL) | (np.int64(registers[uniform + at.LANES]) << 32)
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
        for lane in range(np.uint64(at.LANES)):
            address[lane] = offset + ((np.int64(registers[base + lane]) & at.FULL) << shift)
    if row[at.SPACE] == SHARED or row[at.SPACE] == LOCAL:
        for lane in range(at.LANES):
            address[lane] &= at.FULL


@inner
def second_addresses(state, matrix, registers, index, own_base):
    """Shared-memory destinations of an asynchronous copy."""
    row, address = matrix[index], state.address
    base = row[at.SECOND] + (row[at.SECOND + 1] & own_base)
    uniform = row[at.SECOND + 4] + (row[at.SECOND + 5] & own_base)
    offset = np.int64(row[at.SECOND + 6]) + np.int64(registers[uniform])
    for lane in range(at.LANES):
        value = (np.int64(registers[base + lane]) & at.FULL) << row[at.SECOND + 3]
        address[lane] = (offset + value) & at.FULL


@inner
def affine_stride(address, mask):
    """Bytes between neighbouring lanes of ``mask`` if the addresses are an affine sequence, else
    AFFINE_NONE; 0 for one lane."""
    if mask == at.FULL:
        first, stride = address[0], address[1] - address[0]
        if stride > 0x7FFFFFFF or stride <= AFFINE_NONE:
            return np.int64(AFFINE_NONE)
        odd = np.int64(0)
        for lane in range(at.LANES):
            odd |= address[lane] ^ (first + stride * lane)
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


@inner
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
        for lane in range(at.LANES):
            scattered[s, lane] = np.uint64(address[lane]) if (mask >> lane) & 1 else np.uint64(0)
        accesses[n, at.ACCESS_ADDRESS] = s
        accesses[n, at.ACCESS_PATTERN] = (stride << 32) | mask


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

    Returns DONE, BAD_ADDRESS or MISALIGNED. Local addresses of more than four bytes are not contiguous on
    the host; ``local_step`` of the caller handles them, so local memory is resolved to its first word.
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
        if low >= base and high + size <= base + state.shared_bytes:
            for lane in range(at.LANES):
                address[lane] += state.shared_host - base
            return np.int64(at.DONE)
    elif space == LOCAL:
        if low >= 0 and high + size <= state.local_bytes:
            _to_local(state, warp, at.FULL)
            return np.int64(at.DONE)
    else:
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
        if space == GENERIC and place >> 32 == state.shared_window >> 32:
            offset = place & 0xFFFFFF
            base = state.shared_base
            if base <= offset and offset + size <= base + state.shared_bytes:
                address[lane] = state.shared_host + offset - base
                continue
        elif space == GENERIC and place >> 32 == state.local_window >> 32:
            offset = place & at.FULL
            if offset + size <= state.local_bytes:
                address[lane] = offset
                _to_local(state, warp, np.int64(1) << lane)
                continue
        elif space == SHARED:
            offset = place - state.shared_base
            if 0 <= offset and offset + size <= state.shared_bytes:
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
def served_lanes(state, mask, shared):
    """Lanes whose generic address lies in global memory, or, with ``shared``, in the block's shared memory."""
    served = np.int64(0)
    for lane in range(at.LANES):
        window = state.address[lane] >> 32
        if window != state.local_window >> 32 and (shared or window != state.shared_window >> 32):
            served |= np.int64(1) << lane
    return served & mask


@inner
def word_step(state, space, lane_virtual):
    """Host bytes from one 32-bit word of an access to the next: local memory interleaves the lanes."""
    if space == LOCAL or (space == GENERIC and lane_virtual >> 32 == state.local_window >> 32):
        return np.int64(4 * at.LANES)
    return np.int64(4)


@inner
def load_lanes(state, mask, size, signed, step, stride):
    """Move bytes from host addresses to state.w. ``step``: bytes between words of one lane (all lanes);
    ``stride``: bytes between lanes where known."""
    address, w = state.address, state.w
    if size == 4:
        if stride == 4 and mask == at.FULL:
            copy_bytes(state.result_host, address[0], np.int64(4 * at.LANES))
        else:
            for lane in range(at.LANES):
                if (mask >> lane) & 1:
                    w[0, lane] = load32(address[lane])
    elif size == 8 and step == 4:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                w[0, lane] = load32(address[lane])
                w[1, lane] = load32(address[lane] + 4)
    elif size >= 8:
        for word in range(size >> 2):
            for lane in range(at.LANES):
                if (mask >> lane) & 1:
                    w[word, lane] = load32(address[lane] + word * step)
    elif size == 1:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                value = load8(address[lane])
                w[0, lane] = value - ((value & 0x80) << 1) if signed else value
    else:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                value = load16(address[lane])
                w[0, lane] = value - ((value & 0x8000) << 1) if signed else value


@inner
def store_lanes(state, mask, size, step):
    """Move bytes from state.x to host addresses, lane by lane, so that the highest lane wins."""
    address, x = state.address, state.x
    if size == 4:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store32(address[lane], x[0, lane])
    elif size >= 8:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                for word in range(size >> 2):
                    store32(address[lane] + word * step, x[word, lane])
    elif size == 1:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store8(address[lane], x[0, lane])
    else:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                store16(address[lane], x[0, lane])


@inner
def execute_memory(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
):
    """Execute the memory instruction ``index`` for the lanes of ``mask``; returns DONE or what is wrong.

    Stored values stand in state.x (and y); loaded ones come to state.w.
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
    if op == ops.ATOMIC:
        state.q[0] = 0
        if row[at.F2] != ops.SERVED_ALL:
            # The unit serves some spaces only and says which lanes it has served.
            mask = served_lanes(state, mask, row[at.F2] == ops.SERVED_GLOBAL_SHARED)
            state.q[0] = np.uint32(mask)
            if mask == 0:
                return np.int64(at.DONE)
    step = word_step(state, space, address[first_lane(mask)])
    if space == GENERIC and size > 4 and stride == AFFINE_NONE:
        return _mixed_wide(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size)
    status = resolve(state, allocations, hint, index, warp, mask, size, space)
    if status != at.DONE:
        return status
    if op == ops.LOAD:
        load_lanes(state, mask, size, np.int64(row[at.F0]), step, stride)
    elif op == ops.STORE:
        store_lanes(state, mask, size, step)
    elif op == ops.ATOMIC:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                atomic_lane(state, lane, row[at.F0], row[at.F1], address[lane])
    elif op == ops.ASYNC_COPY:
        return _async_copy(
            state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
        )
    return np.int64(at.DONE)


@inner
def _mixed_wide(state, matrix, registers, allocations, hint, index, warp, own_base, mask, size):
    """A wide generic access whose lanes may lie in different spaces: lane by lane."""
    row = matrix[index]
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            only = np.int64(1) << lane
            step = word_step(state, np.int64(GENERIC), state.address[lane])
            status = resolve(state, allocations, hint, index, warp, only, size, np.int64(GENERIC))
            if status != at.DONE:
                return status
            if row[at.OP] == ops.LOAD:
                load_lanes(state, only, size, np.int64(row[at.F0]), step, np.int64(0))
            elif row[at.OP] == ops.STORE:
                store_lanes(state, only, size, step)
            else:
                atomic_lane(state, lane, row[at.F0], row[at.F1], state.address[lane])
            # resolving moved all lanes: start the next one from its device address
            lane_addresses(state, matrix, registers, index, own_base)
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
    record(state, accesses, scattered, global_warp, mask, affine_stride(state.address, mask))
    status = resolve(state, allocations, hint, index, warp, mask, size, np.int64(SHARED))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            copy_bytes(state.address[lane], state.second[lane], size)
    return np.int64(at.DONE)


@inner
def load_constant(state, matrix, registers, constants, index, warp, own_base, mask):
    """An indexed load from a constant bank into state.w; returns DONE or BAD_CONSTANT."""
    row = matrix[index]
    size = np.int64(row[at.BYTES])
    lane_addresses(state, matrix, registers, index, own_base)
    start, limit = np.int64(row[at.F0]), np.int64(row[at.F1])
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        offset = signed32(state.address[lane])
        if offset < 0 or offset + size > limit:
            fail(state, index, warp, lane, offset, size, CONSTANT)
            return np.int64(at.BAD_CONSTANT)
        for word in range((size + 3) >> 2):
            value = np.int64(0)
            for byte in range(min(size, 4)):
                value |= np.int64(constants[start + offset + 4 * word + byte]) << (8 * byte)
            if row[at.F2] and size < 4 and value >> (8 * size - 1):
                value -= np.int64(1) << (8 * size)
            state.w[word, lane] = signed32(value)
    return np.int64(at.DONE)
