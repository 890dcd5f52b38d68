"""Bodies of the tensor cores: sparse products (``.SP``) and block-scaled ones (``.SF``).

Mental model: a sparse A holds two of each four elements of a row (of TF32 one of two), and metadata says which; so each
element is multiplied with that element of B's column. A block-scaled product is one of matrices whose elements have
been multiplied by the scale of their block of 16 or 32 along k, which is exact. Both then go the way of
:mod:`gpusim.isa.bodies.tensor`; that a sparse product's block has as many products as a dense one's is a guess.

Operands that stand in no source slot are read at rows beside source A: a flag says how many rows on.

Metadata (PTX ISA, "Sparse matrix storage"; CUTLASS's reordering of it): two bits for each element, lowest first. Of
16 bits and more: 16 bits for a row and 16 columns, row g in the lower half of lane 4 g + s + c's word, row g + 8 in the
upper one, c counting 16 columns on. Of 8 bits: 32 bits for a row and 32 columns, row g in lane 4 g + s + 2 c, row g + 8
in the next lane. Pairs of 4-bit elements count as one. s: from the selector.

Scales (PTX ISA, "Block scaling"; CuTe's SM120 traits): of row g in a byte of lane 4 g + 2 a, of row g + 8 in the next
lane, of column g in a byte of lane 4 g + b. A uniform register says which byte and a in bits 0..1 and 2, which byte and
b in bits 3..4 and 5..6 (read off compiled code).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import float_ops
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies import tensor_rules as rule
from gpusim.isa.bodies.tensor import (
    A_EXP,
    A_SIG,
    B_EXP,
    B_SIG,
    INFINITE,
    INPUT_BITS,
    LANES,
    NOTHING,
    UNDEFINED,
    add_block,
    gather,
    load_addend,
    split,
    split_accumulator,
    store_result,
    write_accumulator,
)
from gpusim.isa.bodies.tensor_integer import B_PLACE, gather_integers
from gpusim.isa.body import matrix_body
from gpusim.isa.jit import inner

#: Where a row's or column's chosen elements of B are put together.
CHOSEN = 1024
CHOSEN_INTEGERS = 2048


@inner
def _word_beside(x, rows, lane):
    """The word ``rows`` registers on from source A; 0 for one that is not written (RZ)."""
    if rows == ops.NOT_BESIDE:
        return np.int64(0)
    return np.int64(x[np.uint64(rows), lane]) & 0xFFFFFFFF


@inner
def _chosen_column(x, rows, selector, bits, row, j):
    """Which column of the whole matrix element ``j`` of ``row`` of a sparse A stands in; ``bits``: of an element."""
    lane, upper = 4 * (row & 7), row >> 3
    if bits >= 16:
        unit = j * (bits // 16)  # TF32 counts as two halves
        chunk = unit >> 3
        word = _word_beside(x, rows, lane + selector + chunk) >> (16 * upper)
        index = word >> (2 * (unit & 7)) & 3
        column = 4 * (unit >> 1) + index
        return column >> 1 if bits == 32 else column
    unit = j >> 1 if bits == 4 else j
    chunk = unit >> 4
    word = _word_beside(x, rows, lane + selector + 2 * chunk + upper)
    column = 4 * (unit >> 1) + (word >> (2 * (unit & 15)) & 3)
    return 2 * column + (j & 1) if bits == 4 else column


@inner
def _elements(style):
    if style == float_ops.TF32:
        return 1
    return 2 if style == float_ops.F16 or style == float_ops.BF16 else 4


@inner
def _chain(row, column, depth, block, z, w, lane, j, form, fraction_bits, result_bits, work):
    """One element of D: blocks of products one after another."""
    code = load_addend(z, lane, j, form)
    for start in range(0, depth, block):
        significand, exponent = split_accumulator(code, form)
        total, top = add_block(work, row + start, column + start, block, significand, exponent, fraction_bits)
        code = write_accumulator(total, top, fraction_bits, form, result_bits)
    store_result(w, lane, j, code, form)


@inner
def _choose(x, rows, selector, bits, row, place, depth, work):
    """Put together those elements of the column of B at ``place`` that a row of a sparse A is multiplied with."""
    for k in range(depth):
        chosen = place + _chosen_column(x, rows, selector, bits, row, k)
        work[B_SIG + CHOSEN + k] = work[B_SIG + chosen]
        work[B_EXP + CHOSEN + k] = work[B_EXP + chosen]


@matrix_body
def multiply_sparse_floats(f, x, y, z, w, rules, work):
    """``f``: format of A, of B (bits 8 on), steps of A (16 on), accumulator (20 on), selector (24 on); metadata beside
    A."""
    a_style, b_style, steps, form, selector = f[0] & 255, f[0] >> 8 & 255, f[0] >> 16 & 15, f[0] >> 20 & 15, f[0] >> 24
    elements = _elements(a_style)
    gather(x, a_style, 2, steps, elements, A_SIG, A_EXP, work)
    gather(y, b_style, 1, 2 * steps, elements, B_SIG, B_EXP, work)
    depth, wide = 4 * elements * steps, 8 * elements * steps
    block = min(rules[rule.BLOCK_BYTES] * elements // 4, depth)
    fraction_bits, result_bits = np.int64(rules[rule.FRACTION_BITS]), np.int64(23)
    if elements == 4:
        fraction_bits, result_bits = np.int64(rules[rule.FRACTION_BITS_8]), np.int64(rules[rule.RESULT_BITS_8])
    for lane in range(LANES):
        for j in range(4):
            row, column = (lane >> 2) + 8 * (j >> 1), 2 * (lane & 3) + (j & 1)
            _choose(x, f[1], selector, 32 // elements, row, column * wide, depth, work)
            _chain(row * depth, CHOSEN, depth, block, z, w, lane, j, form, fraction_bits, result_bits, work)


@matrix_body
def multiply_sparse_integers(f, x, y, z, w, rules, work):
    """``f``: bits of an element, signs (8 on), steps of A (16 on), saturate (20 on), selector (24 on); metadata beside
    A."""
    bits, signs, steps, saturate, selector = f[0] & 255, f[0] >> 8 & 255, f[0] >> 16 & 15, f[0] >> 20 & 15, f[0] >> 24
    gather_integers(x, bits, signs & ops.A_SIGNED, 2, steps, 0, work)
    gather_integers(y, bits, signs & ops.B_SIGNED, 1, 2 * steps, B_PLACE, work)
    depth, wide = 128 // bits * steps, 256 // bits * steps
    for lane in range(LANES):
        for j in range(4):
            row, column = (lane >> 2) + 8 * (j >> 1), 2 * (lane & 3) + (j & 1)
            total = np.int64(z[j, lane])
            for k in range(depth):
                chosen = B_PLACE + column * wide + _chosen_column(x, f[1], selector, bits, row, k)
                total += np.int64(work[row * depth + k]) * np.int64(work[chosen])
            if saturate:
                total = min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
            w[j, lane] = np.int32(total)


@inner
def _apply_scale(work, sig, exp, place, count, code, style):
    """Multiply ``count`` elements by a scale: a power of two (E8M0), or an unsigned number of E4M3."""
    for k in range(place, place + count):
        exponent = np.int64(work[exp + k])
        if style == float_ops.E8M0:
            if code == 255:
                work[sig + k], work[exp + k] = 0, UNDEFINED
            elif exponent < INFINITE and exponent != NOTHING:
                work[exp + k] = np.int32(exponent + code - 127)
        else:
            factor, power = split(code & 0x7F, float_ops.E4M3)
            if power == UNDEFINED or exponent == UNDEFINED:
                work[sig + k], work[exp + k] = 0, UNDEFINED
            elif factor == 0:
                work[sig + k], work[exp + k] = 0, NOTHING
            elif exponent < INFINITE and exponent != NOTHING:
                work[sig + k] = np.int32(
                    np.int64(work[sig + k]) * factor >> INPUT_BITS
                )  # exact: few bits on both sides
                work[exp + k] = np.int32(exponent + power)


@inner
def _scale_both(x, a_rows, b_rows, where, a_depth, b_depth, scales, style, work):
    """Multiply A and B by the scales of their rows and columns, each ``scales`` along k."""
    for row in range(16):
        word = _word_beside(x, a_rows, 4 * (row & 7) + 2 * (where >> 2 & 1) + (row >> 3)) >> (8 * (where & 3))
        part = a_depth // scales
        for i in range(scales):
            _apply_scale(work, A_SIG, A_EXP, row * a_depth + i * part, part, word >> (8 * i) & 255, style)
    for column in range(8):
        word = _word_beside(x, b_rows, 4 * column + (where >> 5 & 3)) >> (8 * (where >> 3 & 3))
        part = b_depth // scales
        for i in range(scales):
            _apply_scale(work, B_SIG, B_EXP, column * b_depth + i * part, part, word >> (8 * i) & 255, style)


@matrix_body
def multiply_scaled(f, x, y, z, w, rules, work):
    """``f[0]``: format of A, of B (bits 8 on), elements a register (16 on), scales along k (20 on), format of a scale
    (24 on); beside A: scales of A, scales of B, where they lie."""
    a_style, b_style, elements, scales, style = (
        f[0] & 255,
        f[0] >> 8 & 255,
        f[0] >> 16 & 15,
        f[0] >> 20 & 15,
        f[0] >> 24,
    )
    gather(x, a_style, 2, 2, elements, A_SIG, A_EXP, work)
    gather(y, b_style, 1, 2, elements, B_SIG, B_EXP, work)
    depth = 8 * elements
    where = _word_beside(x, f[3], 0)
    _scale_both(x, f[1], f[2], where, depth, depth, scales, style, work)
    block = min(rules[rule.BLOCK_BYTES] * elements // 4, depth)
    fraction_bits, result_bits = np.int64(rules[rule.FRACTION_BITS_8]), np.int64(rules[rule.RESULT_BITS_8])
    form = ops.ACCUMULATE_F32
    for lane in range(LANES):
        for j in range(4):
            row, column = (lane >> 2) + 8 * (j >> 1), 2 * (lane & 3) + (j & 1)
            _chain(row * depth, column * depth, depth, block, z, w, lane, j, form, fraction_bits, result_bits, work)


@matrix_body
def multiply_sparse_scaled(f, x, y, z, w, rules, work):
    """Sparse and scaled: a block of the whole matrix that has one scale is twice as long as a dense product's. ``f[0]``
    as of :func:`multiply_scaled`; beside A: metadata and behind it scales of A, scales of B, where the scales lie. The
    metadata of all that there is comes from all four lanes."""
    a_style, b_style, elements, scales, style = (
        f[0] & 255,
        f[0] >> 8 & 255,
        f[0] >> 16 & 15,
        f[0] >> 20 & 15,
        f[0] >> 24,
    )
    gather(x, a_style, 2, 2, elements, A_SIG, A_EXP, work)
    gather(y, b_style, 1, 4, elements, B_SIG, B_EXP, work)
    depth, wide = 8 * elements, 16 * elements
    scales_of_a = f[1] if f[1] == ops.NOT_BESIDE else f[1] + 1
    _scale_both(x, scales_of_a, f[2], _word_beside(x, f[3], 0), depth, wide, scales, style, work)
    block = min(rules[rule.BLOCK_BYTES] * elements // 4, depth)
    fraction_bits, result_bits = np.int64(rules[rule.FRACTION_BITS_8]), np.int64(rules[rule.RESULT_BITS_8])
    for lane in range(LANES):
        for j in range(4):
            row, column = (lane >> 2) + 8 * (j >> 1), 2 * (lane & 3) + (j & 1)
            _choose(x, f[1], 0, 32 // elements, row, column * wide, depth, work)
            _chain(
                row * depth, CHOSEN, depth, block, z, w, lane, j, ops.ACCUMULATE_F32, fraction_bits, result_bits, work
            )
