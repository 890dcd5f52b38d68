"""Operands of a warp group's products: matrices in shared memory, found by descriptors, as planes of numbers.

Mental model: a descriptor says where a matrix begins in shared memory and how it goes on from 8 x 16-byte cores to the
next ones; the hardware exchanges 16-byte chunks by bits of the address (*swizzle*). Elements are gathered as they are
into a plane ``raw``, then decoded into planes of values and of exponents, which loops over contiguous memory do for
many at a time.

Planes are flat: column n of B has the place ``n / 8 * 4 + n / 2 mod 4``, which odd columns have in the other half: as
D's registers have them, so that four neighbours in a register are neighbours here. B's element of place p and depth k
stands at ``k * PITCH + p``, A's (row, k) at ``A_PLACE + row * products + k`` (``products``: elements of a row of A), so
that sums run along the columns. An element is (``values`` float32, ``exponents`` int16): a denormal has the exponent of
the smallest normal number, as in :mod:`gpusim.isa.bodies.tensor`, zero has NOTHING, what is no finite number BEYOND: so
that a product of that and of zero is above all others, too.

Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": matrix descriptor, canonical layouts, register
fragments; the layouts in units of 16 bytes as CUTLASS names them (cute/atom/mma_traits_sm90_gmma.hpp, make_gmma_desc).
That a base offset is subtracted from the row in the pattern follows from its definition.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.pointers import load8, load16, load32
from gpusim.isa import float_ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.scalar import float_of
from gpusim.isa.bodies.small import shape
from gpusim.isa.jit import inner

COLUMNS, B_DEPTH, PRODUCTS, ROWS = 256, 64, 32, 16
#: From a row of a plane to the next one: a line of the host's cache more than the columns, so that rows do not all
#: share a set.
PITCH = COLUMNS + 16
A_PLACE = B_DEPTH * PITCH
PLANE = A_PLACE + ROWS * PRODUCTS
#: Columns that are computed at a time, so that what belongs to them stays in the host's L1 cache, and of what is left
#: behind those: loops of a length that is known are vectorised without a remainder.
STRIP, NARROW = 64, 16
NOTHING, BEYOND = -(1 << 13), 16000
#: Bits of a descriptor's addresses and offsets, which count 16 bytes.
_FIELD = 0x3FFF
CHUNK = 16

#: Room to work in, one for each resident block.
WORK = np.dtype(
    [
        ("raw", "<i4", (PLANE,)),
        (
            "values",
            "<f4",
            (PLANE + PRODUCTS * PITCH,),
        ),  # behind A what a row of a sparse A is multiplied with, of one strip
        ("exponents", "<i2", (PLANE + PRODUCTS * PITCH,)),
        ("chosen", "<i4", (ROWS * PRODUCTS,)),  # of a sparse A: which row of B each element is multiplied with
        ("sums", "<i4", (ROWS * PITCH,)),  # C, then D: as patterns
        # of one row and strip
        ("top", "<i2", (STRIP,)),  # largest exponents of the products
        ("scale", "<f4", (STRIP,)),  # makes units of the last bit that is kept, and
        ("unit", "<f4", (STRIP,)),  # what these are worth
        ("parts", "<i4", (2 * STRIP,)),  # sums, in two parts that 32 bits hold
        ("before", "<i4", (STRIP,)),
        ("b_descriptor", "<i8"),  # of the B that the planes hold
    ]
)


@inner
def place_of(column, half):
    """Where a column of B and D stands; ``half``: where the odd ones begin."""
    return (column & 1) * half + (column >> 3) * 4 + (column >> 1 & 3)


@inner
def _bring_chunk(work, host, to, step, size):
    """Bring a chunk's elements to ``raw``, ``step`` from each other."""
    raw, one = work.raw, np.uint64(to)
    if size == 2:
        for e in range(8):
            raw[one] = load16(host + 2 * e)
            one += np.uint64(step)
    elif size == 4:
        for e in range(4):
            raw[one] = load32(host + 4 * e)
            one += np.uint64(step)
    else:
        for e in range(16):
            raw[one] = load8(host + e)
            one += np.uint64(step)


@inner
def gather_matrix(work, descriptor, first, lines, depth, size, turned, of_a, half, low, high, shift):
    """Bring lines ``first`` to ``first + lines - 1`` (rows of A, or columns of B) of the matrix that ``descriptor``
    names to ``raw``.
    ``size``: bytes of an element; ``turned``: lines lie side by side in memory, else what is along k; ``half``: of B as
    of :func:`place_of`; ``low``,
    ``high``: first and last address where a chunk may begin; ``shift``: from a shared address to that of the host.
    Returns -1, or an address that is not the block's."""
    start = (descriptor & _FIELD) << 4
    leading, stride = (descriptor >> 16 & _FIELD) << 4, (descriptor >> 32 & _FIELD) << 4
    turn, mode = descriptor >> 49 & 7, descriptor >> 62 & 3
    bits = 4 - mode if mode else np.int64(0)  # 128, 64 or 32 bytes are 8, 4 or 2 chunks
    width = np.int64(1) << bits
    elements = CHUNK // size
    across = -(-(lines if turned else depth) // elements)
    for outer in range(depth if turned else lines):
        line = outer if turned else first + outer
        for inside in range(across):
            chunk = inside + (first // elements if turned else 0)
            core = (line & 7) * CHUNK * width
            if bits:
                # Of the canonical layouts that are swizzled, one of lines side by side leads from chunk to chunk by the
                # leading offset.
                offset = core + (line >> 3) * stride + (chunk & (width - 1)) * CHUNK + (chunk >> bits) * leading
            elif turned:
                offset = core + (line >> 3) * leading + chunk * stride
            else:
                offset = core + (line >> 3) * stride + chunk * leading
            address = start + offset
            address ^= (((address >> 7) - turn) & (width - 1)) << 4
            if address < low or address > high:
                return address
            host, k = address + shift, inside * elements
            if of_a:
                if turned:
                    _bring_chunk(work, host, A_PLACE + k * depth + outer, depth, size)
                else:
                    _bring_chunk(work, host, A_PLACE + outer * depth + k, np.int64(1), size)
            elif turned:  # of 16 bits: eight columns, whose even and odd ones are neighbours
                to = np.uint64(outer * PITCH + (k >> 1))
                for e in range(4):
                    work.raw[to] = load16(host + 4 * e)
                    work.raw[to + np.uint64(half)] = load16(host + 4 * e + 2)
                    to += np.uint64(1)
            else:
                _bring_chunk(work, host, place_of(outer, half) + k * PITCH, np.int64(PITCH), size)
    return np.int64(-1)


@inner
def gather_fragment(work, registers, a, size, products):
    """Bring A from registers to ``raw``: 32-bit register r of lane 4 g + t holds what is along k of row g + 8 (r mod
    2), from byte 16 (r / 2) + 4 t on."""
    elements = 4 // size
    mask = (np.int64(1) << (8 * size)) - 1
    for r in range(4):
        for lane in range(at.LANES):
            word = np.int64(registers[np.uint64(a + r * at.ROW + lane)]) & at.FULL
            row, k = (lane >> 2) + 8 * (r & 1), elements * (4 * (r >> 1) + (lane & 3))
            for e in range(elements):
                work.raw[np.uint64(A_PLACE + row * products + k + e)] = np.int32(word >> (8 * size * e) & mask)


@inner
def choose_half(work, registers, metadata, lane, size, products):
    """A sparse A: two bits of metadata for each element say which. As for mma.sync
    (:mod:`gpusim.isa.bodies.tensor_blocks`); CUTLASS has the same in its layouts of metadata
    (cute/atom/mma_traits_sm90_gmma_sparse.hpp). ``lane``: where the selector begins."""
    for row in range(ROWS):
        upper, home = row >> 3, 4 * (row & 7) + lane
        for j in range(products):
            if size >= 2:
                unit = j * (size // 2)  # TF32 counts as two halves
                word = np.int64(registers[metadata + home + (unit >> 3)]) & at.FULL
                column = 4 * (unit >> 1) + (word >> (16 * upper + 2 * (unit & 7)) & 3)
                column = column >> 1 if size == 4 else column
            else:
                word = np.int64(registers[metadata + home + 2 * (j >> 4) + upper]) & at.FULL
                column = 4 * (j >> 1) + (word >> (2 * (j & 15)) & 3)
            work.chosen[row * products + j] = np.int32(column)


@inner
def decode(work, first, count, style, negated):
    """Decode elements ``first`` to ``first + count - 1`` of ``raw``."""
    raw, values, exponents = work.raw, work.values, work.exponents
    mantissa_bits, bias, largest, infinity, _nan = shape(style)
    drop = np.int32(13 if style == float_ops.TF32 else 0)
    sign = np.int32(0)
    width = np.int64(16)
    if style == float_ops.TF32:
        # The lowest 13 bits do not count.
        mantissa_bits, width = np.int64(10), np.int64(19)
    elif style == float_ops.E4M3 or style == float_ops.E5M2:
        width = np.int64(8)
    below = np.int32((np.int64(1) << (width - 1)) - 1)
    up, down = np.int32(23 - mantissa_bits), np.int32(mantissa_bits)
    away = np.int32(32 - width)
    rebias, small = np.int32((127 - bias) << 23), float_of(np.int32((128 - bias) << 23))
    least, base = np.int32(1), np.int32(bias)
    limit, infinite = np.int32(largest), np.int32(infinity)
    flip = np.int32(-0x80000000) if negated else np.int32(0)
    for i in range(np.uint64(first), np.uint64(first + count)):
        code = np.int32(np.uint32(raw[i]) >> np.uint32(drop))
        magnitude = np.int32(code & below)
        sign = np.int32(np.int32(np.int32(code << away) & np.int32(-0x80000000)) ^ flip)
        exponent = np.int32(magnitude >> down)
        # Of a denormal the hidden bit is put there and subtracted: the host is slow where a factor is a denormal.
        denormal = exponent == 0
        placed = np.int32(np.int32(magnitude << up) + rebias)
        placed = np.int32(placed + np.int32(1 << 23)) if denormal else placed
        value = float_of(placed) - (small if denormal else np.float32(0.0))
        exponent = np.int32((exponent if exponent > least else least) - base)
        exponent = np.int32(NOTHING) if magnitude == 0 else exponent
        beyond = magnitude > limit
        exponent = np.int32(BEYOND) if beyond else exponent
        value = (np.float32(np.inf) if magnitude == infinite else np.float32(np.nan)) if beyond else value
        values[i] = -value if sign < 0 else value
        exponents[i] = np.int16(exponent)


@inner
def decode_integers(work, first, count, signed):
    """Decode bytes of ``raw`` in place."""
    raw = work.raw
    for i in range(np.uint64(first), np.uint64(first + count)):
        byte = np.int32(raw[i] & 0xFF)
        raw[i] = np.int32(np.int32(byte ^ np.int32(0x80)) - np.int32(0x80)) if signed else byte
