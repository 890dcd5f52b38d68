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
from gpusim.capture.jit import compiled
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
AFFINE_NONE = int(SCATTERED)


@compiled
def lane_addresses(code, block, index, own_base):
    """Fill ``block.lane_address`` with the addresses that instruction ``index`` names, all 32 lanes."""
    row, registers, address = code.matrix[index], block.registers, block.lane_address
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


@compiled
def second_addresses(code, block, index, own_base):
    """Shared-memory destinations of an asynchronous copy."""
    row, registers, address = code.matrix[index], block.registers, block.lane_address
    base = row[at.SECOND] + (row[at.SECOND + 1] & own_base)
    uniform = row[at.SECOND + 4] + (row[at.SECOND + 5] & own_base)
    offset = np.int64(row[at.SECOND + 6]) + np.int64(registers[uniform])
    for lane in range(at.LANES):
        value = (np.int64(registers[base + lane]) & at.FULL) << row[at.SECOND + 3]
        address[lane] = (offset + value) & at.FULL


@compiled
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


@compiled
def record(log, warp, address, mask, stride):
    """Append one ACCESS record of ``warp`` (the caller has made sure that there is room)."""
    n = log.used[at.USED_ACCESSES]
    log.used[at.USED_ACCESSES] = n + 1
    log.access_warp[n] = warp
    log.access_mask[n] = np.uint32(mask)
    if mask == 0:
        log.access_address[n] = np.uint64(0)
        log.access_stride[n] = 0
    elif stride != AFFINE_NONE:
        low = first_lane(mask)
        log.access_address[n] = np.uint64((address[low] - stride * low) & 0x7FFFFFFFFFFFFFFF)
        log.access_stride[n] = stride
    else:
        s = log.used[at.USED_SCATTERED]
        log.used[at.USED_SCATTERED] = s + 1
        for lane in range(at.LANES):
            log.scattered[s, lane] = np.uint64(address[lane]) if (mask >> lane) & 1 else np.uint64(0)
        log.access_address[n] = np.uint64(s)
        log.access_stride[n] = AFFINE_NONE


@compiled
def find_allocation(code, index, address, size):
    """Index of the allocation that holds bytes ``address`` to ``address + size``, or -1."""
    bases, sizes = code.allocation_base, code.allocation_bytes
    n = bases.shape[0]
    guess = code.hint[index]
    if guess < n and bases[guess] <= address and address + size <= bases[guess] + sizes[guess]:
        return guess
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if bases[middle] <= address:
            low = middle + 1
        else:
            high = middle
    found = low - 1
    if found < 0 or address + size > bases[found] + sizes[found]:
        return np.int64(-1)
    code.hint[index] = found
    return np.int64(found)


@compiled
def fail(block, index, warp, lane, address, size, space):
    """Note where a memory instruction went wrong."""
    fault = block.fault
    fault[at.FAULT_INDEX], fault[at.FAULT_WARP], fault[at.FAULT_LANE] = index, warp, lane
    fault[at.FAULT_ADDRESS], fault[at.FAULT_BYTES], fault[at.FAULT_SPACE] = address, size, space


@compiled
def resolve(code, block, index, warp, mask, size, space):
    """Turn ``block.lane_address`` into host addresses for the lanes of ``mask``.

    Returns DONE, BAD_ADDRESS or MISALIGNED. Local addresses of more than four bytes are not contiguous on
    the host; ``local_step`` of the caller handles them, so local memory is resolved to its first word.
    """
    address = block.lane_address
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
                fail(block, index, warp, lane, address[lane], size, space)
                return at.MISALIGNED
    shape, where = code.shape, block.where
    if space == SHARED:
        base = shape[at.S_SHARED_BASE]
        if low >= base and high + size <= base + shape[at.S_SHARED_BYTES]:
            for lane in range(at.LANES):
                address[lane] += where[at.W_SHARED_HOST] - base
            return at.DONE
    elif space == LOCAL:
        if low >= 0 and high + size <= shape[at.S_LOCAL_BYTES]:
            _to_local(code, block, warp, at.FULL)
            return at.DONE
    else:
        found = find_allocation(code, index, low, high - low + size) if low >= 0 else np.int64(-1)
        if found >= 0:
            move = code.allocation_host[found] - code.allocation_base[found]
            for lane in range(at.LANES):
                address[lane] += move
            return at.DONE
    return _resolve_each(code, block, index, warp, mask, size, space)


@compiled
def _to_local(code, block, warp, mask):
    address = block.lane_address
    start = block.where[at.W_LOCAL_HOST] + np.int64(warp) * at.LANES * code.shape[at.S_LOCAL_BYTES]
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            offset = address[lane]
            address[lane] = start + (offset >> 2) * (4 * at.LANES) + lane * 4 + (offset & 3)


@compiled
def _resolve_each(code, block, index, warp, mask, size, space):
    address, shape = block.lane_address, code.shape
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        place = address[lane]
        if space == GENERIC and place >> 32 == shape[at.S_SHARED_WINDOW] >> 32:
            offset = place & 0xFFFFFF
            base = shape[at.S_SHARED_BASE]
            if base <= offset and offset + size <= base + shape[at.S_SHARED_BYTES]:
                address[lane] = block.where[at.W_SHARED_HOST] + offset - base
                continue
        elif space == GENERIC and place >> 32 == shape[at.S_LOCAL_WINDOW] >> 32:
            offset = place & at.FULL
            if offset + size <= shape[at.S_LOCAL_BYTES]:
                address[lane] = offset
                _to_local(code, block, warp, np.int64(1) << lane)
                continue
        elif space == GLOBAL or space == GENERIC:
            found = find_allocation(code, index, place, np.int64(size)) if place >= 0 else np.int64(-1)
            if found >= 0:
                address[lane] = place + code.allocation_host[found] - code.allocation_base[found]
                continue
        fail(block, index, warp, lane, place, size, space)
        return at.BAD_ADDRESS
    return at.DONE


@compiled
def word_step(code, block, space, lane_virtual):
    """Host bytes from one 32-bit word of an access to the next: local memory interleaves the lanes."""
    if space == LOCAL or (space == GENERIC and lane_virtual >> 32 == code.shape[at.S_LOCAL_WINDOW] >> 32):
        return np.int64(4 * at.LANES)
    return np.int64(4)


@compiled
def load_lanes(block, mask, size, signed, step, stride):
    """Move bytes from host addresses to block.w. ``step``: bytes between words of one lane (all lanes);
    ``stride``: bytes between lanes where known."""
    address, w = block.lane_address, block.w
    if size == 4:
        if stride == 4 and mask == at.FULL:
            copy_bytes(block.where[at.W_RESULT_HOST], address[0], np.int64(4 * at.LANES))
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


@compiled
def store_lanes(block, mask, size, step, stride):
    """Move bytes from block.x to host addresses, lane by lane, so that the highest lane wins."""
    address, x = block.lane_address, block.x
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


@compiled
def execute_memory(code, block, log, index, warp, own_base, global_warp, mask):
    """Execute the memory instruction ``index`` for the lanes of ``mask``; returns DONE or what is wrong.

    Stored values stand in block.x (and y); loaded ones come to block.w.
    """
    row = code.matrix[index]
    op, size, space = row[at.OP], np.int64(row[at.BYTES]), row[at.SPACE]
    if op == ops.CONSTANT_LOAD:
        return _constant_load(code, block, index, warp, own_base, mask)
    if mask == 0:
        for _ in range(row[at.RECORDS]):
            record(log, global_warp, block.lane_address, mask, np.int64(0))
        return at.DONE
    lane_addresses(code, block, index, own_base)
    address = block.lane_address
    stride = affine_stride(address, mask)
    record(log, global_warp, address, mask, stride)
    step = word_step(code, block, space, address[first_lane(mask)])
    if space == GENERIC and size > 4 and stride == AFFINE_NONE:
        return _mixed_wide(code, block, index, warp, mask, size)
    status = resolve(code, block, index, warp, mask, size, space)
    if status != at.DONE:
        return status
    if op == ops.LOAD:
        load_lanes(block, mask, size, row[at.F0], step, stride)
    elif op == ops.STORE:
        store_lanes(block, mask, size, step, stride)
    elif op == ops.ATOMIC:
        for lane in range(at.LANES):
            if (mask >> lane) & 1:
                atomic_lane(block, lane, row[at.F0], row[at.F1], address[lane])
    elif op == ops.ASYNC_COPY:
        return _async_copy(code, block, log, index, warp, own_base, global_warp, mask, size)
    return at.DONE


@compiled
def _mixed_wide(code, block, index, warp, mask, size):
    """A wide generic access whose lanes may lie in different spaces: lane by lane."""
    row = code.matrix[index]
    address = block.lane_address
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            step = word_step(code, block, GENERIC, address[lane])
            status = resolve(code, block, index, warp, np.int64(1) << lane, size, GENERIC)
            if status != at.DONE:
                return status
            only = np.int64(1) << lane
            place = address[lane]
            if row[at.OP] == ops.LOAD:
                load_lanes(block, only, size, row[at.F0], step, np.int64(0))
            elif row[at.OP] == ops.STORE:
                store_lanes(block, only, size, step, np.int64(0))
            else:
                atomic_lane(block, lane, row[at.F0], row[at.F1], place)
            lane_addresses(code, block, index, _own_base_of(code, warp))
    return at.DONE


@compiled
def _own_base_of(code, warp):
    return np.int64(code.shape[at.S_OWN_BASE]) + np.int64(warp) * code.shape[at.S_OWN_STRIDE]


@compiled
def _async_copy(code, block, log, index, warp, own_base, global_warp, mask, size):
    source = block.second_address
    for lane in range(at.LANES):
        source[lane] = block.lane_address[lane]
    second_addresses(code, block, index, own_base)
    record(log, global_warp, block.lane_address, mask, affine_stride(block.lane_address, mask))
    status = resolve(code, block, index, warp, mask, size, SHARED)
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            copy_bytes(block.lane_address[lane], source[lane], size)
    return at.DONE


@compiled
def _constant_load(code, block, index, warp, own_base, mask):
    row = code.matrix[index]
    size = np.int64(row[at.BYTES])
    lane_addresses(code, block, index, own_base)
    start, limit = np.int64(row[at.F0]), np.int64(row[at.F1])
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        offset = signed32(block.lane_address[lane])
        if offset < 0 or offset + size > limit:
            fail(block, index, warp, lane, offset, size, 4)
            return at.BAD_CONSTANT
        for word in range((size + 3) >> 2):
            value = np.int64(0)
            for byte in range(min(size, 4)):
                value |= np.int64(code.constants[start + offset + 4 * word + byte]) << (8 * byte)
            if row[at.F2] and size < 4 and value >> (8 * size - 1):
                value -= np.int64(1) << (8 * size)
            block.w[word, lane] = signed32(value)
    return at.DONE

