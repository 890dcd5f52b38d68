"""Division of indices in 32 bits: Numba computes with integers in 64, and a GPU divides those in software.

A 64-bit division is a subroutine of some seventy instructions; a 32-bit one is under twenty, in line. The
compiler narrows a division whose operands it knows to be unsigned 32-bit values.
"""

from __future__ import annotations

from numba import cuda, int32, uint32


@cuda.jit(device=True)
def divide(value, by):
    """Quotient and remainder as int32; ``value`` in 0 .. 2^31 - 1, ``by`` in 1 .. 2^31 - 1."""
    quotient = uint32(value) // uint32(by)
    return int32(quotient), int32(uint32(value) - quotient * uint32(by))
