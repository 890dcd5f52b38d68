"""Instructions on tensor memory (tcgen05), as the interpreter meets them: once a warp, whichever lanes are on."""

from __future__ import annotations

import numpy as np
from numba import config

from gpusim.emulator.access import fail
from gpusim.emulator.addresses import log_addresses
from gpusim.emulator.tensor_maps import NOTE_SHARED
from gpusim.isa import warp as at
from gpusim.isa.jit import apart
from gpusim.isa.lane_masks import first_lane
from gpusim.trace.record import Space

_SHARED = int(Space.SHARED)

if config.DISABLE_JIT:
    from gpusim.emulator.tensor_unit import execute_unit
    from gpusim.isa.jit import inner

    @inner
    def _serve(state, matrix, registers, index, warp, own_base):
        return execute_unit(state, matrix[index], registers, warp, own_base)

else:
    from gpusim.emulator.tensor_unit import call_tensor_unit
    from gpusim.isa.jit import inner

    @inner
    def _serve(state, matrix, registers, index, warp, own_base):
        return call_tensor_unit(
            state.tensor_entry, state.state_host, np.int64(index), np.int64(warp), np.int64(own_base)
        )


@apart
def execute_tensor_memory(state, matrix, registers, accesses, scattered, index, warp, own_base, global_warp, mask):
    """Execute instruction ``index`` for a warp whose lanes ``mask`` are on; returns DONE, BAD_ADDRESS (of shared
    memory) or BAD_TENSOR. The trace gets one access of a product or copy, where it begins to read shared memory."""
    logs = matrix[index, at.RECORDS]
    if mask == 0:
        if logs:
            log_addresses(state, accesses, scattered, global_warp, mask)
        return np.int64(at.DONE)
    status = _serve(state, matrix, registers, index, warp, own_base)
    if status != at.DONE:
        fail(state, index, warp, first_lane(mask), state.fault_address, state.fault_bytes, _SHARED)
        return status
    if logs:
        lane = first_lane(mask)
        state.address[lane] = state.tensor[NOTE_SHARED]
        log_addresses(state, accesses, scattered, global_warp, np.int64(1) << lane)
    return status
