"""The scheduling fields that the compiler writes into the top bits of each 128-bit instruction word.

Mental model: since Volta the compiler, not the hardware, tracks fixed-latency dependences. Each
instruction says how long its warp must wait before the next issue, which of six counters it raises,
and which it waits for. Bit positions: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking" (2018), section 2; unchanged through Blackwell.
"""

from __future__ import annotations

from gpusim.isa.form import Control

STALL_SHIFT = 105
YIELD_SHIFT = 109
WRITE_BARRIER_SHIFT = 110
READ_BARRIER_SHIFT = 113
WAIT_MASK_SHIFT = 116
REUSE_SHIFT = 122


def decode_control(word: int) -> Control:
    """Control fields of one 128-bit instruction ``word``. The yield bit is stored inverted (0 asks the
    scheduler to prefer another warp); ``yield_hint`` is 1 when it asks."""
    return Control(
        stall_cycles=(word >> STALL_SHIFT) & 15,
        yield_hint=1 - ((word >> YIELD_SHIFT) & 1),
        write_barrier=(word >> WRITE_BARRIER_SHIFT) & 7,
        read_barrier=(word >> READ_BARRIER_SHIFT) & 7,
        wait_mask=(word >> WAIT_MASK_SHIFT) & 63,
        reuse_mask=(word >> REUSE_SHIFT) & 15,
    )
