"""LDSM and STSM: 8 x 8 matrices of 16-bit elements between shared memory and the warp's registers.

Mental model: lane 8 i + r gives the address of row r of matrix i, 16 bytes; register i of lane 4 g + t holds elements
2 t and 2 t + 1 of row g (transposed: of column g). The trace gets one access of 16 bytes for each address lane, which is
what the banks see. Source: PTX ISA, ldmatrix and stmatrix.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.access import affine_stride, lane_addresses, record, resolve
from gpusim.capture.jit import inner
from gpusim.capture.pointers import load16, load32, store16, store32
from gpusim.sass import system_ops as ops
from gpusim.trace.record import Space

SHARED = int(Space.SHARED)
ROW_BYTES = 16


@inner
def execute_matrix_access(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask
):
    """Execute the LDSM or STSM ``index``; values stand in state.x, loaded ones come to state.w. Returns as
    :func:`gpusim.capture.access.execute_memory` does."""
    row = matrix[index]
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
                _load(state, i, transposed)
            else:
                _store(state, i, transposed)
    return np.int64(at.DONE)


@inner
def _load(state, i, transposed):
    address, w = state.address, state.w
    for lane in range(at.LANES):
        g, t = lane >> 2, lane & 3
        if transposed:
            low = load16(address[8 * i + 2 * t] + 2 * g)
            high = load16(address[8 * i + 2 * t + 1] + 2 * g)
            w[i, lane] = np.int32(np.int64(high) << 16 | np.int64(low) & 0xFFFF)
        else:
            w[i, lane] = load32(address[8 * i + g] + 4 * t)


@inner
def _store(state, i, transposed):
    address, x = state.address, state.x
    for lane in range(at.LANES):
        g, t = lane >> 2, lane & 3
        if transposed:
            store16(address[8 * i + 2 * t] + 2 * g, x[i, lane])
            store16(address[8 * i + 2 * t + 1] + 2 * g, x[i, lane] >> 16)
        else:
            store32(address[8 * i + g] + 4 * t, x[i, lane])
