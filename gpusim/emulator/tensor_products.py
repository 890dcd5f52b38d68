"""A product into tensor memory (tcgen05.mma): what its descriptors ask for, and the product itself.

Mental model: the instruction descriptor gives shape and formats; A's rows (of the block, or half of them where two
blocks work together) and all columns of B are decoded into planes; then each row of D is read from its lane, added to,
and written back. Where a row and a column of D lie depends on the shape: 128 rows take a lane each; 64 rows the lower
16 of each warp's 32; where fewer rows of A meet all lanes (weight-stationary, and 128 rows of two blocks), the columns
are dealt to groups of lanes.

Sources: PTX ISA, "Instruction descriptor", "Data path layout organization", "Scale factor layout", "Sparse matrices";
CUTLASS for the same facts (cute/arch/mma_sm100_desc.hpp; tmem_frg, tmem_sf_frg and tmem_e_frg in
cute/atom/mma_traits_sm100.hpp).
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator import tensor_matrices as matrices
from gpusim.emulator.tensor_matrices import bring, bring_row, layout_of
from gpusim.emulator.tensor_memory import columns_allocated, fault
from gpusim.emulator.tensor_sums import D_F32, D_S32, sum_floats, sum_groups, sum_integers
from gpusim.isa import float_ops
from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.tensor import INFINITE, INPUT_BITS, NOTHING, UNDEFINED, split
from gpusim.isa.bodies.tensor_rules import DEEP_NIBBLES
from gpusim.isa.jit import apart, inner

_COLUMN_MASK = (1 << ops.LANE_SHIFT) - 1
_LANE_MASK = ops.MEMORY_LANES - 1
#: Bytes of a row of A that one block of the sum multiplies.
_BLOCK_BYTES = 32
#: Bit of the instruction descriptor of packed 4-bit floats that asks for a depth of 96; of a shared-memory descriptor
#: that gives the leading dimension as an address.
_DEEP_BIT, _ABSOLUTE_BIT = 31, 52
#: Columns of tensor memory that have the scales of 128 rows or columns, one word for each.
_SCALE_COLUMNS = 4


@inner
def format_of(kind, code, in_bytes):
    """The form (gpusim/emulator/tensor_matrices.py) of a format code of an instruction descriptor; -1 for none.
    ``in_bytes``: elements of fewer bits have a byte each, as in tensor memory."""
    if kind == ops.HALVES:
        if code == 0:
            return np.int64(matrices.F16)
        if code == 1:
            return np.int64(matrices.BF16)
        return np.int64(matrices.TF32) if code == 2 else np.int64(-1)
    if kind == ops.INTEGERS:
        return np.int64(-1) if code > 1 else np.int64(matrices.S8 if code else matrices.U8)
    if kind == ops.NIBBLES:
        return np.int64(matrices.E2M1) if code == 1 else np.int64(-1)
    if code == 0:
        return np.int64(matrices.E4M3)
    if code == 1:
        return np.int64(matrices.E5M2)
    if code == 3:
        return np.int64(matrices.E2M3_BYTE if in_bytes else matrices.E2M3_PACKED)
    if code == 4:
        return np.int64(matrices.E3M2_BYTE if in_bytes else matrices.E3M2_PACKED)
    if code == 5:
        return np.int64(matrices.E2M1_BYTE if in_bytes else matrices.E2M1_PACKED)
    return np.int64(-1)


@inner
def depth_of(kind, form, descriptor):
    """Elements of a row of A that one instruction with this descriptor multiplies."""
    if kind == ops.HALVES:
        return np.int64(8) if form == matrices.TF32 else np.int64(16)
    if kind == ops.NIBBLES:
        return np.int64(matrices.DEEP if is_deep(kind, descriptor) else 64)
    return np.int64(32)


@inner
def is_deep(kind, descriptor):
    """Whether an instruction descriptor asks for 96 packed 4-bit floats of a row (sm_103), which are 48 bytes."""
    return kind == ops.NIBBLES and descriptor >> _DEEP_BIT & 1 != 0


@inner
def rows_of(descriptor):
    """M of an instruction descriptor."""
    return (descriptor >> 24 & 31) << 4


@inner
def columns_of(descriptor):
    """N of an instruction descriptor."""
    return (descriptor >> 17 & 63) << 3


@inner
def lane_of(row, rows, dealt):
    """Lane of a row of D (of its first group of columns), counted from the one that the address names."""
    if rows == 64 and not dealt:
        return (row & 15) + 32 * (row >> 4)
    return np.int64(row)


@inner
def shape_fault(code, rows, columns):
    """Whether an instruction has no such shape (PTX ISA, table of shapes)."""
    if code & ops.WEIGHT_STATIONARY:
        return not ((rows == 32 or rows == 64 or rows == 128) and (columns == 64 or columns == 128 or columns == 256))
    if columns < 8 or columns > 256:
        return True
    if code & ops.TWO_BLOCKS:
        return not ((rows == 128 or rows == 256) and columns % 16 == 0)
    if rows == 128:
        return columns % 16 != 0 if code & ops.KIND_MASK != ops.NIBBLES and not code & ops.SCALED else columns % 8 != 0
    return rows != 64 or (code & ops.SCALED) != 0


@inner
def _choose(work, memory, rows, dealt, form, depth, address, selector):
    """Where the elements of a sparse A stand in B, by metadata in tensor memory: 2 bits for each element of 4 (of two
    for TF32, of four pairs for 4-bit floats), the lowest first. 16 lanes hold those of 16 rows and 16 bits for each: of
    rows 0 to 7 the lower, of 8 to 15 the upper half, what is further along k 8 lanes on; of 8 and 4 bits a row's own
    lane has 64."""
    lane0, column = address >> ops.LANE_SHIFT & _LANE_MASK, address & _COLUMN_MASK
    wide = form == matrices.TF32 or form == matrices.F16 or form == matrices.BF16
    if wide:
        column += selector
    for row in range(rows):
        lane = (lane0 + lane_of(row, rows, dealt)) & _LANE_MASK
        for j in range(depth):
            if wide:
                unit = 2 * j if form == matrices.TF32 else np.int64(j)
                four = unit >> 1
                word = np.int64(memory.words[(lane & ~15) + (lane & 7) + 8 * (four >> 2), column])
                index = word >> (16 * (lane >> 3 & 1) + 4 * (four & 3) + 2 * (unit & 1)) & 3
                chosen = 4 * four + index
                work.pick[row, j] = np.int32(chosen >> 1 if form == matrices.TF32 else chosen)
            else:
                unit = j >> 1 if form == matrices.E2M1 else np.int64(j)
                four = unit >> 1
                word = np.int64(memory.words[lane, column + (four >> 3)])
                chosen = 4 * four + (word >> (4 * (four & 7) + 2 * (unit & 1)) & 3)
                work.pick[row, j] = np.int32(2 * chosen + (j & 1) if form == matrices.E2M1 else chosen)


@inner
def _scale_at(memory, lane, column, byte, pitch, is_e8m0):
    """(significand, exponent) of a scale: a power of two (E8M0), or an unsigned number of E4M3. Bytes beyond a word are
    those of the word ``pitch`` columns on."""
    code = np.int64(memory.words[lane, column + (byte >> 2) * pitch]) >> (8 * (byte & 3)) & 0xFF
    if is_e8m0:
        return np.float32(1.0), np.int64(UNDEFINED) if code == 255 else code - 127
    significand, exponent = split(code & 0x7F, float_ops.E4M3)
    if exponent == NOTHING:
        exponent = np.int64(-6)
    return np.float32(significand) * np.float32(1.0 / (1 << INPUT_BITS)), exponent


@inner
def scale_pitch(lines):
    """Columns of tensor memory that a word of the scales of so many rows or columns takes."""
    return (lines + 127) // 128 * _SCALE_COLUMNS


@inner
def scale_columns(lines, first, scales):
    """Columns of tensor memory that ``scales`` scales of each of so many rows or columns reach to, from byte ``first``
    of their words on."""
    return (lines + 31) // 32 + (scale_pitch(lines) if first + scales > 4 else 0)


@inner
def _apply_scales(work, memory, rows, dealt, columns, scales, a_address, b_address, a_first, b_first, is_e8m0):
    """Read the scales of A's rows and B's columns: of row r of A in lane r, column r / 32 from the address on; of
    column n of B in lane n mod 32, column n / 32; byte after byte along k. All warps' lanes have the same
    (tcgen05.cp.32x128b.warpx4), but for the two halves of B's columns where these are dealt to two halves of the lanes.
    What does not fit a row's word stands in the word of the next columns, four for each 128 rows (PTX ISA shows it in
    pictures alone)."""
    a_pitch, b_pitch = np.int64(_SCALE_COLUMNS), scale_pitch(columns // 2 if dealt else columns)
    a_column, b_column = a_address & _COLUMN_MASK, b_address & _COLUMN_MASK
    half = columns // 2 if dealt else columns
    for s in range(scales):
        for row in range(rows):
            scale, power = _scale_at(memory, row, a_column + (row >> 5), a_first + s, a_pitch, is_e8m0)
            work.a_scale[row, s], work.a_power[row, s] = scale, np.int32(power)
            if power >= INFINITE:
                work.a_odd[row] = 1
        for n in range(columns):
            part = n // half
            within = n - part * half
            lane, column = 64 * part + (within & 31), b_column + (within >> 5)
            scale, power = _scale_at(memory, lane, column, b_first + s, b_pitch, is_e8m0)
            work.b_scale[s, n], work.b_power[s, n] = scale, np.int32(power)
            if power >= INFINITE:
                work.b_odd[n] = 1


@inner
def _scale_exponents(work, rows, columns, depth, wide, scales):
    """Multiply 8-bit elements by their scales, which are powers of two: a scale's exponent is added to each
    element's."""
    for row in range(rows):
        for k in range(depth):
            power = work.a_power[row, k * scales // depth]
            exponent = work.a_exp[row, k]
            if power >= INFINITE:
                work.a_exp[row, k] = UNDEFINED
            elif INFINITE > exponent != NOTHING:
                work.a_exp[row, k] = exponent + power
    for k in range(wide):
        for n in range(columns):
            power = work.b_power[k * scales // wide, n]
            exponent = work.b_exp[k, n]
            if power >= INFINITE:
                work.b_exp[k, n] = UNDEFINED
            elif INFINITE > exponent != NOTHING:
                work.b_exp[k, n] = exponent + power


@inner
def _open_row(work, memory, lane, column, columns, parts, step, accumulate):
    each = columns // parts
    for part in range(parts):
        for j in range(each):
            work.code[part * each + j] = memory.words[lane + part * step, column + j] if accumulate else np.int32(0)


@inner
def _close_row(work, memory, lane, column, columns, parts, step, registers, off, first_lane):
    """Write a row of D back; ``off``: where the registers begin whose bits say which lanes are left alone, -1 for
    none."""
    each = columns // parts
    for part in range(parts):
        if off >= 0:
            number = first_lane + lane + part * step
            if registers[off + (number >> 5) * at.ROW] >> (number & 31) & 1:
                continue
        for j in range(each):
            memory.words[lane + part * step, column + j] = work.code[part * each + j]


@inner
def check(state, memory, code, d, idesc):
    """Whether shape and formats are such that there are, and D's columns the block's: DONE, or BAD_TENSOR with the
    reason noted."""
    kind, two = code & ops.KIND_MASK, code & ops.TWO_BLOCKS != 0
    if is_deep(kind, idesc) and (idesc >> 2 & 1 or not state.rules[DEEP_NIBBLES]):
        return fault(state, ops.FAULT_DEEP, idesc)
    rows, columns = rows_of(idesc), columns_of(idesc)
    if shape_fault(code, rows, columns):
        return fault(state, ops.FAULT_SHAPE, idesc)
    a_form, b_form = format_of(kind, idesc >> 7 & 7, False), format_of(kind, idesc >> 10 & 7, False)
    if (
        a_form < 0
        or b_form < 0
        or (kind == ops.HALVES and a_form != b_form)
        or (kind == ops.NIBBLES and code & ops.SCALED == 0)
    ):
        return fault(state, ops.FAULT_FORMAT, idesc)
    result = idesc >> 4 & 3
    if code & ops.SCALED == 0 and (
        (result != D_S32) if kind == ops.INTEGERS else (result > D_F32 or (a_form == matrices.TF32 and result != D_F32))
    ):
        return fault(state, ops.FAULT_FORMAT, idesc)
    turned = idesc >> 15 & 3
    if turned and not (a_form <= matrices.E5M2 or a_form >= matrices.S8):
        return fault(state, ops.FAULT_FORMAT, idesc)
    own = rows // 2 if two else rows
    dealt = code & ops.WEIGHT_STATIONARY != 0 or two
    parts = 128 // own if dealt else np.int64(1)
    lane, column = d >> ops.LANE_SHIFT, d & _COLUMN_MASK
    if lane != 0 and not (own == 64 and not dealt and lane == 16):
        return fault(state, ops.FAULT_LANES, d)
    if not columns_allocated(memory, column, columns // parts):
        return fault(state, ops.FAULT_COLUMNS, d)
    return np.int64(at.DONE)


@inner
def _known_layout(descriptor, kind, idesc, turned):
    """Whether there is such a layout. Leading addresses are for rows of 48 bytes that go on in the next pattern of 128
    bytes."""
    if descriptor >> _ABSOLUTE_BIT & 1:
        return is_deep(kind, idesc) and not turned and descriptor >> 61 & 7 == matrices.SWIZZLE_128
    return layout_of(descriptor)[0] != 0


@inner
def bring_columns(state, work, code, descriptor, idesc, columns, low, high, shift, to, skipped):
    """Decode B, or the half of its columns that one of two blocks has, but for the first ``skipped``; DONE, or why
    not."""
    kind = code & ops.KIND_MASK
    form = format_of(kind, idesc >> 10 & 7, False)
    turned = idesc >> 16 & 1 != 0
    if not _known_layout(descriptor, kind, idesc, turned):
        return fault(state, ops.FAULT_DESCRIPTOR, descriptor)
    wide = depth_of(kind, form, idesc) << (idesc >> 2 & 1)
    for n in range(to, to + columns):
        work.b_odd[n] = 0
    place = bring(
        work, False, descriptor, turned, columns, wide, form, idesc >> 14 & 1 != 0, low, high, shift, np.int64(to), skipped,
    )  # fmt: skip
    if place >= 0:
        state.fault_bytes, state.fault_address = matrices.CHUNK, place
        return np.int64(at.BAD_ADDRESS)
    return np.int64(at.DONE)


@apart
def multiply(
    state, memory, words_host, work, registers, code, d, a, metadata, idesc, further, accumulate, rank, low, high, shift
):
    """Multiply the block's rows of A with the columns of B that ``work`` holds, into its D. ``a``: descriptor, or
    address in tensor memory; ``further``: where the registers begin that hold the addresses of the scales, or the lanes
    that are off; ``rank``: of two blocks, which. Returns DONE or why not."""
    kind, two = code & ops.KIND_MASK, code & ops.TWO_BLOCKS != 0
    stationary, in_memory = code & ops.WEIGHT_STATIONARY != 0, code & ops.A_IN_TENSOR_MEMORY != 0
    rows, columns = rows_of(idesc), columns_of(idesc)
    if two:
        rows //= 2
    dealt = stationary or two
    parts = 128 // rows if dealt else np.int64(1)
    step = rows if dealt else np.int64(0)
    form = format_of(kind, idesc >> 7 & 7, in_memory)
    depth, sparse = depth_of(kind, form, idesc), idesc >> 2 & 1
    negated = idesc >> 13 & 1 != 0
    for row in range(rows):
        work.a_odd[row] = 0
    if in_memory:
        lane0, column = a >> ops.LANE_SHIFT & _LANE_MASK, a & _COLUMN_MASK
        if not columns_allocated(memory, column, np.int64(12 if is_deep(kind, idesc) else 8)):
            return fault(state, ops.FAULT_COLUMNS, a)
        for row in range(rows):
            further_down = 1 if code & ops.A_SHIFTED and row < rows - 1 else 0
            lane = (lane0 + lane_of(row + further_down, rows, dealt)) & _LANE_MASK
            bring_row(work, row, depth, form, negated, words_host + 4 * (lane * ops.MEMORY_COLUMNS + column))
    else:
        turned = idesc >> 15 & 1 != 0
        if not _known_layout(a, kind, idesc, turned):
            return fault(state, ops.FAULT_DESCRIPTOR, a)
        place = bring(work, True, a, turned, rows, depth, form, negated, low, high, shift, np.int64(0), np.int64(0))
        if place >= 0:
            state.fault_bytes, state.fault_address = matrices.CHUNK, place
            return np.int64(at.BAD_ADDRESS)
    if sparse:
        if not columns_allocated(memory, metadata & _COLUMN_MASK, np.int64(2 if kind else 1)):
            return fault(state, ops.FAULT_COLUMNS, metadata)
        _choose(work, memory, rows, dealt, form, depth, metadata, idesc & 3)
    else:
        for row in range(rows):
            for k in range(depth):
                work.pick[row, k] = np.int32(k)
    scales = np.int64(1)
    if code & ops.SCALED:
        a_scales, b_scales = np.int64(registers[further]), np.int64(registers[further + at.ROW])
        each = columns // 2 if dealt and rows == 64 else columns
        deep = is_deep(kind, idesc)
        if kind == ops.NIBBLES:
            scales = depth // (16 if code & ops.SCALES_4X else 32)
        first_a, first_b = idesc >> 29 & 3, idesc >> 4 & 3
        split_scales = deep and (scales == 3 or (first_a | first_b) & 1 == 0)  # those that two words may have
        if (first_a + scales > 4 or first_b + scales > 4) and not split_scales:
            return fault(state, ops.FAULT_FORMAT, idesc)
        if not columns_allocated(memory, a_scales & _COLUMN_MASK, scale_columns(rows, first_a, scales)):
            return fault(state, ops.FAULT_COLUMNS, a_scales)
        if not columns_allocated(memory, b_scales & _COLUMN_MASK, scale_columns(each, first_b, scales)):
            return fault(state, ops.FAULT_COLUMNS, b_scales)
        _apply_scales(
            work, memory, rows, dealt and rows == 64, columns, scales, a_scales, b_scales, first_a, first_b,
            kind != ops.NIBBLES or idesc >> 23 & 1 != 0,
        )  # fmt: skip
        if kind == ops.NIBBLES:
            _double_values(work, rows, columns, depth, depth << sparse)
        else:
            _scale_exponents(work, rows, columns, depth, depth << sparse, scales)
    divide = code >> ops.SCALE_INPUT_SHIFT & 15
    result = idesc >> 4 & 3
    if code & ops.SCALED:
        result = np.int64(D_F32)
    block = min(depth, np.int64(_BLOCK_BYTES // 2 if form == matrices.F16 or form == matrices.BF16 else _BLOCK_BYTES))
    lane0, column = d >> ops.LANE_SHIFT, d & _COLUMN_MASK
    off = further if code & ops.LANES_OFF else np.int64(-1)
    for row in range(rows):
        lane = lane0 + lane_of(row, rows, dealt)
        _open_row(work, memory, lane, column, columns, parts, step, accumulate)
        if kind == ops.INTEGERS:
            sum_integers(work, row, depth, idesc >> 3 & 1 != 0, True, columns)
        elif kind == ops.NIBBLES:
            sum_groups(work, row, depth, max(depth // 16 // scales, np.int64(1)), columns)
        else:
            sum_floats(work, row, depth, block, result, columns, divide)
        _close_row(work, memory, lane, column, columns, parts, step, registers, off, rank * ops.MEMORY_LANES)
    return np.int64(at.DONE)


@inner
def _double_values(work, rows, columns, depth, wide):
    """Turn 4-bit floats into twice their value, whole numbers, in the exponents' planes."""
    for row in range(rows):
        for k in range(depth):
            work.a_exp[row, k] = _doubled(work.a_sig[row, k], work.a_exp[row, k])
    for k in range(wide):
        for n in range(columns):
            work.b_exp[k, n] = _doubled(work.b_sig[k, n], work.b_exp[k, n])


@inner
def _doubled(significand, exponent):
    if exponent == NOTHING:
        return np.int32(0)
    return np.int32(significand * np.float32(2 << exponent))
