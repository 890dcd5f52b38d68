"""Asynchronous stores and reductions to the shared memory of a block of the cluster (PTX st.async, red.async).

Mental model: each lane writes, or updates, its bytes there and then completes as many transactions of an mbarrier of
the same block. Here both have happened when the instruction is over; what the mbarrier shows to who waits for it is all
that the kernel may rely on.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.access import CLUSTER, resolve, store_lanes
from gpusim.emulator.addresses import formed_addresses, log_addresses, second_addresses
from gpusim.emulator.atomics import atomic_lane, complete_transactions
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import seldom

_BARRIER_BYTES = 8


@seldom
def execute_async_store(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask, x, w, q
):
    """Execute the ASYNC_STORE ``index``, whose values lie at ``x`` among the registers; ``w`` and ``q`` are scratch.
    Returns as :func:`gpusim.emulator.access.execute_memory` does."""
    row = matrix[index]
    size, operation = np.int64(row[at.F0]), np.int64(row[at.F1])
    if mask == 0:
        log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    second_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, mask)
    status = resolve(state, allocations, hint, index, warp, mask, size, np.int64(CLUSTER))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        state.second[lane] = state.address[lane]
    formed_addresses(state, matrix, registers, index, own_base)
    status = resolve(state, allocations, hint, index, warp, mask, np.int64(_BARRIER_BYTES), np.int64(CLUSTER))
    if status != at.DONE:
        return status
    for lane in range(at.LANES):
        state.address[lane], state.second[lane] = state.second[lane], state.address[lane]
    if operation == ops.STORED:
        store_lanes(state, registers, x, mask, size, np.int64(4))
    for lane in range(at.LANES):
        if (mask >> lane) & 1:
            if operation != ops.STORED:
                atomic_lane(
                    registers, x + lane, x + lane, w + lane, q, lane, operation, row[at.F2], state.address[lane]
                )
            complete_transactions(state.second[lane], size)
    return np.int64(at.DONE)
