"""Integer bodies of the tensor cores, IMMA and BMMA, and the moves of matrices within a warp, MOVM.

Mental model: as in :mod:`gpusim.isa.bodies.tensor` without exponents: sums are exact, and wrap around or saturate once
at the end. A register of A or B holds 4 bytes, 8 nibbles or 32 bits of one row of A (column of B).

Shapes: x, y, z, w int32[4, 32]; ``work`` int32[4096] holds A (16 x 64 at most) and behind it B (8 x 128). Source: PTX
ISA, mma for .s8, .u8, .s4, .u4 and .b1, and movmatrix. That MOVM.U4TO8 keeps the order of the nibbles is inferred: its
only known use, products of bits on Blackwell, would give the same sums in any order that A and B share.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import tensor_ops as ops
from gpusim.isa.body import matrix_body
from gpusim.isa.jit import inner

LANES = 32
B_PLACE = 1024


@inner
def gather_integers(words, bits, signed, tiles, steps, place, work):
    """Decode the fragments of ``tiles`` x ``steps`` registers into rows of ``work``."""
    elements = 32 // bits
    depth = 4 * elements * steps
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    for r in range(tiles * steps):
        step = r // tiles
        for lane in range(LANES):
            start = ((lane >> 2) + 8 * (r - step * tiles)) * depth + elements * (4 * step + (lane & 3))
            for i in range(elements):
                value = (np.int64(words[np.uint64(r), lane]) >> (bits * i)) & mask
                if signed and value & top:
                    value -= 2 * top
                work[place + start + i] = np.int32(value)


@inner
def _multiply(bits, signs, tiles, steps, saturate, x, y, z, w, work):
    gather_integers(x, bits, signs & ops.A_SIGNED, tiles, steps, 0, work)
    gather_integers(y, bits, signs & ops.B_SIGNED, 1, steps, B_PLACE, work)
    depth = 128 // bits * steps
    for lane in range(LANES):
        for j in range(2 * tiles):
            a = ((lane >> 2) + 8 * (j >> 1)) * depth
            b = B_PLACE + (2 * (lane & 3) + (j & 1)) * depth
            total = np.int64(z[j, lane])
            for k in range(depth):
                total += np.int64(work[a + k]) * np.int64(work[b + k])
            if saturate:
                total = min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
            w[j, lane] = np.int32(total)


@inner
def _ones(word):
    """Set bits of a 32-bit pattern."""
    v = np.int64(word) & 0xFFFFFFFF
    v = v - (v >> 1 & 0x55555555)
    v = (v & 0x33333333) + (v >> 2 & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    return v * 0x01010101 >> 24 & 0xFF


@inner
def _count(operation, tiles, steps, x, y, z, w):
    """D = C plus how many bits a row of A and a column of B share (AND), or differ in (XOR)."""
    for lane in range(LANES):
        for j in range(2 * tiles):
            row, column = lane >> 2, 2 * (lane & 3) + (j & 1)
            total = np.int64(z[j, lane])
            for step in range(steps):
                for t in range(4):
                    a = x[(j >> 1) + tiles * step, 4 * row + t]
                    b = y[step, 4 * column + t]
                    total += _ones(a ^ b if operation == ops.BIT_XOR else a & b)
            w[j, lane] = np.int32(total)


@matrix_body
def multiply_integers(f, x, y, z, w, rules, work):
    """``f``: bits of an element and, from bit 8 on, signs of A and of B; tiles and steps as for floats; saturate."""
    _multiply(f[0] & 255, f[0] >> 8, f[1] & 15, f[1] >> 4, f[2], x, y, z, w, work)


@matrix_body
def count_bits(f, x, y, z, w, rules, work):
    """``f``: AND or XOR; tiles and steps as for floats."""
    _count(f[0], f[1] & 15, f[1] >> 4, x, y, z, w)


@matrix_body
def transpose_matrix(f, x, y, z, w, rules, work):
    """An 8 x 8 matrix of 16-bit elements."""
    for lane in range(LANES):
        row, column = lane >> 2, 2 * (lane & 3)
        low = x[0, 4 * column + (row >> 1)] >> (16 * (row & 1)) & 0xFFFF
        high = x[0, 4 * (column + 1) + (row >> 1)] >> (16 * (row & 1)) & 0xFFFF
        w[0, lane] = np.int32(np.int64(high) << 16 | low)


@matrix_body
def widen_matrix(f, x, y, z, w, rules, work):
    """8 x 32 elements of 4 bits to 8 bits."""
    for half in range(2):
        for lane in range(LANES):
            word = np.int64(x[0, (lane & 28) + 2 * half + ((lane & 3) >> 1)]) >> (16 * (lane & 1))
            bytes_ = word & 15 | (word >> 4 & 15) << 8 | (word >> 8 & 15) << 16 | (word >> 12 & 15) << 24
            w[half, lane] = np.int32(bytes_)
