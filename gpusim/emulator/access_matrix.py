"""Memory instructions that the interpreter meets seldom: matrix loads and stores, copies that fill with zeros, accesses
of 32 bytes a lane.

Mental model: LDSM and STSM move 8 x 8 matrices of 16-bit elements between shared memory and the warp's registers: lane
8 i + r gives the address of row r of matrix i, 16 bytes; register i of lane 4 g + t holds elements
2 t and 2 t + 1 of row g (transposed: of column g). The trace gets one access of 16 bytes for each address lane, which
is what the banks see. Fragments of bytes are those of CuTe's copy traits (SM100_U8x8_LDSM_T, SM100_U8x8_STSM_T). LDGSTS
with a predicate copies for some lanes and zeroes for the others. Source: PTX ISA, ldmatrix, stmatrix and cp.async.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import resolve
from gpusim.emulator.addresses import formed_addresses, log_addresses, second_addresses
from gpusim.emulator.pointers import copy_bytes, load8, load16, load32, store8, store16, store32
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inner
from gpusim.isa.lane_masks import first_predicate, signed32
from gpusim.trace.record import Space

SHARED, GLOBAL = int(Space.SHARED), int(Space.GLOBAL)
ROW_BYTES = 16


@apart
def execute_matrix_access(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask, x, y, w
):
    """Execute the LDSM, STSM, filling LDGSTS or access of 32 bytes ``index``; stored values lie at ``x`` (and ``y``)
    among the registers, loaded ones come to ``w`` for all lanes. Returns as
    :func:`gpusim.emulator.access.execute_memory` does."""
    row = matrix[index]
    if row[at.OP] == ops.ASYNC_FILL:
        return _filled_copy(
            state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
        )
    if row[at.OP] == ops.WIDE_LOAD or row[at.OP] == ops.WIDE_STORE:
        return _wide(
            state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask,
            x, y if row[at.OP] == ops.WIDE_STORE else w,
        )  # fmt: skip
    count, form = np.int64(row[at.F0]), np.int64(row[at.F1])
    mask &= (np.int64(1) << (8 * (2 * count if form == ops.MATRIX_TURNED_BYTES else count))) - 1 & at.FULL
    if mask == 0:
        log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    formed_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, mask)
    status = resolve(state, allocations, hint, index, warp, mask, np.int64(ROW_BYTES), np.int64(SHARED))
    if status != at.DONE:
        return status
    loads = row[at.OP] == ops.MATRIX_LOAD
    if form > 1:
        if loads:
            _load_bytes(state, registers, w, count, form, np.int64(row[at.F2]))
        else:
            _store_bytes(state, registers, x, count)
        return np.int64(at.DONE)
    for i in range(count):
        if (mask >> (8 * i)) & 0xFF == 0xFF:
            if loads:
                _load(state, registers, w + i * at.ROW, i, form != 0)
            else:
                _store(state, registers, x + i * at.ROW, i, form != 0)
    return np.int64(at.DONE)


@inner
def _wide(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask, x, y
):
    """32 bytes a lane: the lower half from or to the registers at ``x``, the upper one at ``y``."""
    row, address = matrix[index], state.address
    if mask == 0:
        log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    formed_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, mask)
    status = resolve(state, allocations, hint, index, warp, mask, np.int64(32), np.int64(row[at.SPACE]))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            for word in range(8):
                place = (x if word < 4 else y) + (word & 3) * at.ROW + lane
                if row[at.OP] == ops.WIDE_LOAD:
                    registers[place] = load32(address[lane] + 4 * word)
                else:
                    store32(address[lane] + 4 * word, registers[place])
    return np.int64(at.DONE)


@inner
def _narrow_byte(place, column, bits):
    """Element ``column`` of a row of 16 at host address ``place``: a byte, or 6 or 4 bits of a packed row."""
    if bits == 8:
        return np.int64(load8(place + column)) & 0xFF
    first = bits * column
    low, high = np.int64(load8(place + (first >> 3))) & 0xFF, np.int64(0)
    if (first & 7) + bits > 8:
        high = np.int64(load8(place + (first >> 3) + 1)) & 0xFF
    return (high << 8 | low) >> (first & 7) & ((np.int64(1) << bits) - 1)


@inner
def _load_bytes(state, registers, w, count, form, bits):
    """Rows of 16 elements that become bytes. MATRIX_BYTES: 8 rows a matrix, register i of lane 4 g + t holds elements
    4 t to 4 t + 3 of row g of matrix i. MATRIX_TURNED_BYTES: 16 rows a matrix, lane 16 i + r gives the address of row
    r, and register 2 i + k holds rows 4 t to 4 t + 3 of column g + 8 k (as CUTLASS's SM100_U8x16_LDSM_T shuffles them,
    and Triton gives them to products without a shuffle)."""
    address = state.address
    turned = form == ops.MATRIX_TURNED_BYTES
    for i in range(2 * count if turned else count):
        for lane in range(at.LANES):
            g, t, word = lane >> 2, lane & 3, np.int64(0)
            for e in range(4):
                row, column = 8 * i + g, 4 * t + e
                if turned:
                    row, column = 16 * (i >> 1) + 4 * t + e, g + 8 * (i & 1)
                word |= _narrow_byte(address[row], column, bits) << (8 * e)
            registers[w + i * at.ROW + lane] = signed32(word)


@inner
def _store_bytes(state, registers, x, count):
    """The other way, transposed, of 16 x 8 bytes a matrix (STSM.8.MT168): lane 8 i + r gives the address of row r, and
    register i holds rows 2 t and 2 t + 1 of column g, then of column g + 8."""
    address = state.address
    for i in range(count):
        for lane in range(at.LANES):
            g, t = lane >> 2, lane & 3
            for e in range(4):
                place = address[8 * i + 2 * t + (e & 1)] + g + 8 * (e >> 1)
                store8(place, registers[x + i * at.ROW + lane] >> (8 * e))


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
    formed_addresses(state, matrix, registers, index, own_base)
    for lane in range(at.LANES):
        if row[at.F0]:
            state.skipped[lane] = address[lane] & (size - 1)
            address[lane] -= state.skipped[lane]
        else:
            state.skipped[lane] = 0
    log_addresses(state, accesses, scattered, global_warp, reading)
    if reading:
        status = resolve(state, allocations, hint, index, warp, reading, size, np.int64(GLOBAL))
        if status != at.DONE:
            return status
    for lane in range(at.LANES):
        state.second[lane] = address[lane]
    second_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, mask)
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
