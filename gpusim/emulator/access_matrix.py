"""Memory instructions that the interpreter meets seldom: matrix loads and stores, copies that fill with zeros.

Mental model: LDSM and STSM move 8 x 8 matrices of 16-bit elements between shared memory and the warp's registers: lane
8 i + r gives the address of row r of matrix i, 16 bytes; register i of lane 4 g + t holds elements
2 t and 2 t + 1 of row g (transposed: of column g). The trace gets one access of 16 bytes for each address lane, which is
what the banks see. LDGSTS with a predicate copies for some lanes and zeroes for the others. Source: PTX ISA, ldmatrix,
stmatrix and cp.async.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import resolve
from gpusim.emulator.addresses import affine_stride, lane_addresses, record, second_addresses
from gpusim.emulator.pointers import copy_bytes, load16, load32, store8, store16, store32
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner
from gpusim.isa.lane_masks import first_predicate
from gpusim.trace.record import Space

SHARED, GLOBAL = int(Space.SHARED), int(Space.GLOBAL)
ROW_BYTES = 16


@inner
def execute_matrix_access(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask, x, w
):
    """Execute the LDSM, STSM or filling LDGSTS ``index``; stored values lie at ``x`` among the registers, loaded ones
    come to ``w`` for all lanes. Returns as :func:`gpusim.emulator.access.execute_memory` does."""
    row = matrix[index]
    if row[at.OP] == ops.ASYNC_FILL:
        return _filled_copy(
            state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
        )
    count, transposed = np.int64(row[at.F0]), row[at.F1] != 0
    mask &= (np.int64(1) << (8 * count)) - 1
    if mask == 0:
        record(state, accesses, scattered, global_warp, mask, np.int64(0))
        return np.int64(at.DONE)
    lane_addresses(state, matrix, registers, index, own_base)
    record(state, accesses, scattered, global_warp, mask, affine_stride(state.address, mask))
    status = resolve(state, allocations, hint, index, warp, mask, np.int64(ROW_BYTES), np.int64(SHARED))
    if status != at.DONE:
        return status
    for i in range(count):
        if (mask >> (8 * i)) & 0xFF == 0xFF:
            if row[at.OP] == ops.MATRIX_LOAD:
                _load(state, registers, w + i * at.ROW, i, transposed)
            else:
                _store(state, registers, x + i * at.ROW, i, transposed)
    return np.int64(at.DONE)


@inner
def _load(state, registers, w, i, transposed):
    address = state.address
    for lane in range(at.LANES):
        g, t = lane >> 2, lane & 3
        if transposed:
            low = load16(address[8 * i + 2 * t] + 2 * g)
            high = load16(address[8 * i + 2 * t + 1] + 2 * g)
            registers[w + lane] = np.int32(np.int64(high) << 16 | np.int64(low) & 0xFFFF)
        else:
            registers[w + lane] = load32(address[8 * i + g] + 4 * t)


@inner
def _store(state, registers, x, i, transposed):
    address = state.address
    for lane in range(at.LANES):
        g, t = lane >> 2, lane & 3
        if transposed:
            store16(address[8 * i + 2 * t] + 2 * g, registers[x + lane])
            store16(address[8 * i + 2 * t + 1] + 2 * g, registers[x + lane] >> 16)
        else:
            store32(address[8 * i + g] + 4 * t, registers[x + lane])


@inner
def _filled_copy(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
):
    """LDGSTS with a predicate or ZFILL: lanes whose predicate does not hold read nothing and write zeros; with
    ZFILL the low bits of the address are the bytes of zeros behind what is copied."""
    row, address = matrix[index], state.address
    size = np.int64(row[at.BYTES])
    holds = state.predicates[first_predicate(warp) + row[at.P0] * at.GROUP_WARPS] ^ np.int64(row[at.P0_FLIP])
    reading = mask & holds
    lane_addresses(state, matrix, registers, index, own_base)
    for lane in range(at.LANES):
        if row[at.F0]:
            state.skipped[lane] = address[lane] & (size - 1)
            address[lane] -= state.skipped[lane]
        else:
            state.skipped[lane] = 0
    record(
        state, accesses, scattered, global_warp, reading, affine_stride(address, reading) if reading else np.int64(0)
    )
    if reading:
        status = resolve(state, allocations, hint, index, warp, reading, size, np.int64(GLOBAL))
        if status != at.DONE:
            return status
    for lane in range(at.LANES):
        state.second[lane] = address[lane]
    second_addresses(state, matrix, registers, index, own_base)
    record(state, accesses, scattered, global_warp, mask, affine_stride(address, mask) if mask else np.int64(0))
    if mask == 0:
        return np.int64(at.DONE)
    status = resolve(state, allocations, hint, index, warp, mask, size, np.int64(SHARED))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            copied = size - state.skipped[lane] if (reading >> lane) & 1 else np.int64(0)
            copy_bytes(address[lane], state.second[lane], copied)
            for byte in range(copied, size):
                store8(address[lane] + byte, np.int32(0))
    return np.int64(at.DONE)
