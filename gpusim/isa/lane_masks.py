"""Lane masks and lane values: the arithmetic on them that bodies and the interpreter share.

Mental model: 32 lanes of a warp are the bits of an integer, lane 0 the lowest; predicates lie in State.predicates as
such masks, eight warps to a slot. Values of lanes are int32, computed in int64 and brought back into range.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import warp as at
from gpusim.isa.jit import inner


@inner
def signed32(value):
    """The low 32 bits of ``value`` as a signed number, in range for an int32 whether compiled or not."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@inner
def first_predicate(warp):
    """Where slot 0 of a warp lies among State.predicates; slots are GROUP_WARPS apart."""
    group = warp // at.GROUP_WARPS
    return group * (at.PREDICATE_SLOTS * at.GROUP_WARPS) + warp - group * at.GROUP_WARPS


@inner
def count_lanes(mask):
    """Set bits of a lane mask."""
    mask = mask - ((mask >> 1) & 0x55555555)
    mask = (mask & 0x33333333) + ((mask >> 2) & 0x33333333)
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F
    return ((mask * 0x01010101) & 0xFFFFFFFF) >> 24


@inner
def first_lane(mask):
    """Lowest set bit of a lane mask (32 for none)."""
    lowest = np.int64(mask)
    return count_lanes((lowest & -lowest) - 1)  # the bits below it
