"""Special registers that say where a thread stands in its launch, for all warps in lockstep in one call.

Mental model: threadIdx lies ready in the block's state, a row for each warp and axis; blockIdx, blockDim and gridDim
are the same in each lane. The other special registers are in ``lanes.py``. Shapes: as in ``wide.py``.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.wide import WARP_BYTES, put
from gpusim.isa.jit import inlined
from gpusim.isa.warp_value import load, splat

#: Numbers of these bodies; they follow those of the other vector bodies (gpusim/isa/body.py).
FIRST_LAUNCH = 96
THREAD_INDEX, LAUNCH_VALUE = range(FIRST_LAUNCH, FIRST_LAUNCH + 2)
_THREAD_OFFSET = at.STATE.fields["thread"][1]


def launch_number(op: int, flags: tuple[int, ...]) -> int:
    """The body here of a micro-op (its number and flags), or 0."""
    if op != ops.SPECIAL:
        return 0
    if ops.SR_TID_X <= flags[0] <= ops.SR_TID_Z:
        return THREAD_INDEX
    return LAUNCH_VALUE if ops.SR_CTAID_X <= flags[0] <= ops.SR_NCTAID_Z else 0


@inlined
def execute_launch(number, register, state, w, executing, lost, first_warp, count):
    """Execute body ``number``: read special register ``register`` into ``count`` warps, the first of them
    ``first_warp`` of the block."""
    if number == THREAD_INDEX:
        place = state.state_host + _THREAD_OFFSET + (first_warp * 3 + register - ops.SR_TID_X) * WARP_BYTES
        for i in range(count):
            put(w + i * WARP_BYTES, load(place + i * (3 * WARP_BYTES)), lost, executing[i])
    else:
        if register <= ops.SR_CTAID_Z:
            value = state.block_index[register - ops.SR_CTAID_X]
        elif register <= ops.SR_NTID_Z:
            value = state.block_dim[register - ops.SR_NTID_X]
        else:
            value = state.grid_dim[register - ops.SR_NCTAID_X]
        for i in range(count):
            put(w + i * WARP_BYTES, splat(np.int64(value)), lost, executing[i])
