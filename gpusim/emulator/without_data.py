"""Products of warp groups that are not computed: for a launch of which the paths and addresses alone count.

Mental model: where nothing that a block does depends on values (:mod:`gpusim.emulator.oblivious`), its trace is the
same whatever its tensor cores compute and its bulk copies bring, and these are nearly all of the emulator's work. So
the products' entry point is one that does nothing; copies are told to move nothing by ``State.without_data``.
"""

from __future__ import annotations

import numpy as np
from numba import config, types

from gpusim.isa import warp as at
from gpusim.isa.jit import entry


def _nothing(state_host, index, warp, a, descriptors, metadata, d, fresh):
    return np.int64(at.DONE)


if config.DISABLE_JIT:

    def no_product_address() -> int:
        """No entry point: the interpreter calls the function that computes."""
        return 0

else:
    _ENTRY = types.int64(*[types.int64] * 8)

    def no_product_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_nothing, _ENTRY).address
