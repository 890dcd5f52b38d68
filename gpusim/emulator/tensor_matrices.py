"""Matrices that a product of tensor memory multiplies (tcgen05): found by descriptors, decoded into planes.

Mental model: a matrix lies in shared memory in chunks of 16 bytes; its descriptor says where the first one is, how far
it is to the next rows and chunks, and how the hardware exchanges chunks by bits of their address (*swizzle*). A may lie
in tensor memory instead, a row in a lane. Elements become a significand (float32, from 1 below 2 but for denormals) and
an exponent (int32, a denormal's is that of the smallest normal number); zero has the exponent NOTHING. So products and
their alignment need only float and int arithmetic of 32 bits.

Planes: A's are [row][k], B's [k][column], so that loops run along the columns. Integers stand in the exponents' planes.

Sources: PTX ISA, "Shared memory descriptor", "Canonical layouts", "Packing formats"; CUTLASS names the same layouts in
units of 16 bytes (cute/atom/mma_traits_sm100.hpp, make_umma_desc). Inferred: the base offset is subtracted from the row
in the pattern; the leading offset leads to the next chunks where a row is longer than the pattern; 4-bit floats in a
byte of tensor memory stand in its bits 2 to 5, as they do in registers.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.pointers import load8, load16, load32
from gpusim.isa import float_ops
from gpusim.isa.bodies.tensor import INFINITE, INPUT_BITS, NOTHING, UNDEFINED, split
from gpusim.isa.jit import inner

#: Rows and elements of A that are multiplied at a time, elements of B along k (twice as many for a sparse A), columns.
ROWS, A_DEPTH, B_DEPTH, COLUMNS = 128, 96, 128, 256
#: The depth of the deepest product, of 4-bit floats on sm_103; code of the layout whose pattern has 128 bytes, and its
#: bytes.
DEEP, SWIZZLE_128, _PATTERN_BYTES = 96, 2, 128
#: Scales along k of a row or column, at most.
SCALES = 8
CHUNK = 16

#: What a product needs beside tensor memory: one for each resident block.
WORK = np.dtype(
    [
        ("a_sig", "<f4", (ROWS, A_DEPTH)),
        ("a_exp", "<i4", (ROWS, A_DEPTH)),
        ("pick", "<i4", (ROWS, A_DEPTH)),  # which row of B's planes an element of A is multiplied with
        ("b_sig", "<f4", (B_DEPTH, COLUMNS)),
        ("b_exp", "<i4", (B_DEPTH, COLUMNS)),
        # what the patterns of the formats of A and of B that take at most 8 bits stand for, and 1 + which formats those
        # are
        ("table_sig", "<f4", (2, 256)),
        ("table_exp", "<i4", (2, 256)),
        ("table_form", "<i8", (2,)),
        ("a_odd", "<i4", (ROWS,)),  # a row of A, or column of B, has what is no finite number
        ("b_odd", "<i4", (COLUMNS,)),
        ("a_scale", "<f4", (ROWS, SCALES)),
        ("a_power", "<i4", (ROWS, SCALES)),
        ("b_scale", "<f4", (SCALES, COLUMNS)),
        ("b_power", "<i4", (SCALES, COLUMNS)),
        # of one row of D
        ("code", "<i4", (COLUMNS,)),  # the accumulators as patterns, then the result
        ("acc", "<i4", (COLUMNS,)),  # their significands
        ("acc_exp", "<i4", (COLUMNS,)),
        ("odd", "<i4", (COLUMNS,)),
        ("top", "<i4", (COLUMNS,)),
        ("sum", "<i4", (COLUMNS,)),
        ("total", "<f8", (COLUMNS,)),
        ("group", "<f8", (SCALES, COLUMNS)),
        ("group_exp", "<i4", (SCALES, COLUMNS)),
    ]
)

# ---- formats as they lie in a chunk: a floating format, and how many bits an element takes ----
#: Elements of 6 or 4 bits that are packed at the beginning of a chunk, and those that have a byte each.
(TF32, F16, BF16, E4M3, E5M2, E2M3_PACKED, E3M2_PACKED, E2M1_PACKED, E2M3_BYTE, E3M2_BYTE, E2M1_BYTE, E2M1, S8, U8) = (
    range(14)
)


@inner
def style_of(form):
    """The floating format of a form."""
    if form == TF32:
        return np.int64(float_ops.TF32)
    if form == F16:
        return np.int64(float_ops.F16)
    if form == BF16:
        return np.int64(float_ops.BF16)
    if form == E4M3:
        return np.int64(float_ops.E4M3)
    if form == E5M2:
        return np.int64(float_ops.E5M2)
    if form == E2M3_PACKED or form == E2M3_BYTE:
        return np.int64(float_ops.E2M3)
    if form == E3M2_PACKED or form == E3M2_BYTE:
        return np.int64(float_ops.E3M2)
    return np.int64(float_ops.E2M1)


@inner
def in_chunk(form):
    """Elements in 16 bytes."""
    if form == TF32:
        return np.int64(4)
    if form == F16 or form == BF16:
        return np.int64(8)
    return np.int64(32) if form == E2M1 else np.int64(16)


@inner
def code_at(form, place, i):
    """Element ``i`` of the chunk at host address ``place``, as a pattern."""
    if form == F16 or form == BF16:
        return np.int64(load16(place + 2 * i))
    if form == TF32:
        return (np.int64(load32(place + 4 * i)) & 0xFFFFFFFF) >> 13
    if form == E2M1 or form == E2M1_PACKED:
        return np.int64(load8(place + (i >> 1))) >> (4 * (i & 1)) & 15
    if form == E2M3_PACKED or form == E3M2_PACKED:
        first = 6 * i
        return (
            np.int64(load16(place + min(first >> 3, np.int64(14)))) >> (first - 8 * min(first >> 3, np.int64(14))) & 63
        )
    byte = np.int64(load8(place + i))
    if form == E2M1_BYTE:
        return byte >> 2 & 15
    if form == E2M3_BYTE or form == E3M2_BYTE:
        return byte & 63
    return byte


# ---- descriptors ------------------------------------------------------------------------------------


@inner
def layout_of(descriptor):
    """(chunks of the swizzle's pattern, mask of the row bits that are exchanged, bit where they go): (0, 0, 0) for a
    layout code that there is not."""
    code = descriptor >> 61 & 7
    if code == 0:
        return np.int64(1), np.int64(0), np.int64(4)
    if code == 1:
        return np.int64(8), np.int64(3), np.int64(5)  # 128 bytes, of which 32 are moved together
    if code == 2:
        return np.int64(8), np.int64(7), np.int64(4)
    if code == 4:
        return np.int64(4), np.int64(3), np.int64(4)
    if code == 6:
        return np.int64(2), np.int64(1), np.int64(4)
    return np.int64(0), np.int64(0), np.int64(0)


@inner
def chunk_address(descriptor, turned, chunk, line):
    """Shared address of a chunk: number ``chunk`` along what is contiguous (k, or where it is ``turned`` rows or
    columns) of line number ``line``."""
    start = (descriptor & 0x3FFF) << 4
    leading, stride = (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
    width, mask, to = layout_of(descriptor)
    if width == 1:
        if turned:
            address = start + (line & 7) * CHUNK + (line >> 3) * leading + chunk * stride
        else:
            address = start + (line & 7) * CHUNK + (line >> 3) * stride + chunk * leading
        return address & 0x3FFFF
    lines = 4 if to == 5 else 8
    high = chunk // width
    if descriptor >> 52 & 1:  # the leading address is that of the next pattern, where a row goes on
        within, high = start % _PATTERN_BYTES + chunk * CHUNK, np.int64(0)
        start, chunk = (leading, (within - _PATTERN_BYTES) // CHUNK) if within >= _PATTERN_BYTES else (start, chunk)
    address = start + (line % lines) * (CHUNK * width) + (line // lines) * stride + (chunk - high * width) * CHUNK
    address = (address + high * leading) & 0x3FFFF
    row = (address >> 7) - (descriptor >> 49 & 7)
    return address ^ (row & mask) << to


@inner
def number_of(code, form):
    """(significand, exponent) of a pattern; a denormal keeps the smallest normal exponent."""
    significand, exponent = split(code, style_of(form))
    if exponent >= INFINITE:
        return np.float32(significand), np.int64(exponent)
    return np.float32(significand) * np.float32(1.0 / (1 << INPUT_BITS)), np.int64(exponent)


@inner
def prepare_table(work, is_a, form):
    """Make the table of A's or B's patterns, if it is not there."""
    side = 0 if is_a else 1
    if form <= BF16 or form >= S8 or work.table_form[side] == form + 1:
        return
    for code in range(256):
        number, exponent = number_of(np.int64(code), form)
        work.table_sig[side, code], work.table_exp[side, code] = number, np.int32(exponent)
    work.table_form[side] = form + 1


@inner
def put(work, is_a, line, k, code, form, negated):
    """Decode an element of A's row, or B's column, ``line``."""
    if form >= S8:
        value = code & 0xFF
        if form == S8 and value & 0x80:
            value -= 256
        if is_a:
            work.a_exp[line, k] = np.int32(value)
        else:
            work.b_exp[k, line] = np.int32(value)
        return
    if form == TF32 or form == F16 or form == BF16:
        number, exponent = number_of(code, form)
    else:
        side = 0 if is_a else 1
        number, exponent = work.table_sig[side, code], np.int64(work.table_exp[side, code])
    if negated:
        number = -number
    if is_a:
        work.a_sig[line, k], work.a_exp[line, k] = number, np.int32(exponent)
        if exponent >= INFINITE:
            work.a_odd[line] = 1
    else:
        work.b_sig[k, line], work.b_exp[k, line] = number, np.int32(exponent)
        if exponent >= INFINITE:
            work.b_odd[line] = 1


@inner
def put_halves(work, is_a, line, k, place, form, negated):
    """The eight halves or bfloat16 numbers of a chunk along k, without a branch for each."""
    down, bias = np.int32(10), np.int32(15)
    if form == BF16:
        down, bias = np.int32(7), np.int32(127)
    top = np.int32(31) if form == F16 else np.int32(255)
    flip = np.int32(0x8000) if negated else np.int32(0)
    below = np.int32((1 << down) - 1)
    odd = np.int32(0)
    scale = np.float32(1.0 / (1 << down))
    for i in range(8):
        code = np.int32(load16(place + 2 * i) ^ flip)
        raw, fraction = np.int32(code >> down) & top, np.int32(code & below)
        hidden = np.int32(0) if raw == 0 else np.int32(1) << down
        number = np.float32(hidden | fraction) * scale
        exponent = np.int32(max(raw, np.int32(1)) - bias)
        if raw == 0 and fraction == 0:
            exponent = np.int32(NOTHING)
        if raw == top:
            odd |= np.int32(1)
            number = np.float32(1.0) if fraction == 0 else np.float32(0.0)
            exponent = np.int32(INFINITE) if fraction == 0 else np.int32(UNDEFINED)
        if code & 0x8000:
            number = -number
        if is_a:
            work.a_sig[line, k + i], work.a_exp[line, k + i] = number, exponent
        else:
            work.b_sig[k + i, line], work.b_exp[k + i, line] = number, exponent
    if odd:
        if is_a:
            work.a_odd[line] = 1
        else:
            work.b_odd[line] = 1


@inner
def bring(work, is_a, descriptor, turned, lines, depth, form, negated, low, high, shift, to, skipped):
    """Decode ``lines`` rows of A, or columns of B, ``depth`` elements deep, from shared memory into planes from line
    ``to`` on; the matrix begins ``skipped`` lines before them. ``low``, ``high``: first and last address of a chunk
    that is the block's; ``shift``: from a shared address to the host's. Returns -1, or an address that is not the
    block's."""
    width = in_chunk(form)
    first = skipped // width if turned else np.int64(0)
    across, along = (depth // width, lines) if not turned else ((skipped + lines + width - 1) // width, depth)
    down = np.int64(0) if turned else skipped
    halves = (form == F16 or form == BF16) and not turned
    prepare_table(work, is_a, form)
    for line in range(along):
        for chunk in range(first, across):
            address = chunk_address(descriptor, turned, chunk, line + down)
            if address < low or address > high:
                return address
            place = address + shift
            if halves:
                put_halves(work, is_a, to + line, chunk * 8, place, form, negated)
                continue
            for i in range(width):
                code = code_at(form, place, i)
                if turned:
                    within = chunk * width + i - skipped
                    if 0 <= within < lines:
                        put(work, is_a, to + within, line, code, form, negated)
                else:
                    put(work, is_a, to + line, chunk * width + i, code, form, negated)
    return np.int64(-1)


@inner
def bring_row(work, row, depth, form, negated, place):
    """Decode a row of A whose bytes begin at host address ``place``, in a lane of tensor memory."""
    width = in_chunk(form)
    prepare_table(work, True, form)
    for chunk in range(depth // width):
        for i in range(width):
            put(work, True, row, chunk * width + i, code_at(form, place + CHUNK * chunk, i), form, negated)
