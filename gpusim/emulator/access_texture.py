"""Texture and surface instructions: which object a lane's handle names, and the record of where it looked.

Mental model: a handle is the offset of a descriptor in the device's table (:mod:`gpusim.launch.texture`). The
descriptor and the elements that it speaks of must both be there; then a texture unit
(:mod:`gpusim.emulator.texture_units`) serves the lane. The trace gets one access a lane, at the last element that was
looked at.
"""

from __future__ import annotations

import numpy as np
from numba import config

from gpusim.emulator.access import GLOBAL, fail, find_allocation
from gpusim.emulator.addresses import log_addresses
from gpusim.emulator.pointers import load32, load64
from gpusim.emulator.texture_units import texture_lane
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inner
from gpusim.launch.texture import BYTES, DATA, DESCRIPTOR_BYTES, TEXTURES_ADDRESS, VALID

if config.DISABLE_JIT:

    def _serve(state, matrix, registers, index, descriptor, data, base, x, y, d, second, lane):
        return texture_lane(descriptor, data, base, state, matrix[index], registers, x, y, d, second, lane)

else:
    from gpusim.emulator.texture_units import call_texture_unit

    @inner
    def _serve(state, matrix, registers, index, descriptor, data, base, x, y, d, second, lane):
        return call_texture_unit(
            state.texture_entry, descriptor, data, base, state.state_host, index, x, y, d, second, np.int64(lane)
        )


@apart
def execute_texture(
    state, matrix, registers, allocations, hint, accesses, scattered, index, warp, own_base, global_warp, mask, x, y, d
):
    """Execute the texture or surface instruction ``index`` for the lanes of ``mask``: coordinates begin at ``x`` among
    the registers (some at ``y``, where a store has its data), results go to ``d``. Returns DONE or BAD_ADDRESS."""
    row, address = matrix[index], state.address
    handle_place = np.int64(row[at.C + at.SOURCE_OFFSET]) + (np.int64(row[at.C + at.SOURCE_OWN]) & own_base)
    second = np.int64(row[at.SECOND]) + (np.int64(row[at.SECOND + 1]) & own_base)
    size = np.int64(row[at.BYTES])
    known, descriptor, data, base = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    for lane in range(at.LANES):
        if not (mask >> lane) & 1:
            continue
        handle = np.int64(registers[handle_place + lane]) & at.FULL
        if handle != known:
            place = np.int64(TEXTURES_ADDRESS) + handle
            found = find_allocation(allocations, hint, index, place, np.int64(DESCRIPTOR_BYTES))
            if found < 0 or handle == 0 or handle % DESCRIPTOR_BYTES:
                fail(state, index, warp, lane, place, np.int64(DESCRIPTOR_BYTES), GLOBAL)
                return np.int64(at.BAD_ADDRESS)
            descriptor = place + allocations[found, 2] - allocations[found, 0]
            base = load64(descriptor + DATA)
            found = find_allocation(allocations, hint, index, base, load64(descriptor + BYTES))
            if found < 0 or load32(descriptor + VALID) != 1:
                fail(state, index, warp, lane, base if found < 0 else place, np.int64(DESCRIPTOR_BYTES), GLOBAL)
                return np.int64(at.BAD_ADDRESS)
            data, known = base + allocations[found, 2] - allocations[found, 0], handle
        if not _serve(
            state, matrix, registers, np.int64(index), descriptor, data, base, np.int64(x + lane), np.int64(y + lane),
            np.int64(d + lane), np.int64(second + lane), lane,
        ):  # fmt: skip
            fail(state, index, warp, lane, base, size, GLOBAL)
            return np.int64(at.BAD_ADDRESS)
        address[lane] -= address[lane] % size
    log_addresses(state, accesses, scattered, global_warp, mask)
    return np.int64(at.DONE)
