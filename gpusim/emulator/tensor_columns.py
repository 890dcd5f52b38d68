"""Columns of B that a weight-stationary product takes as zeros: the zero-column mask of tcgen05.mma.ws.

Mental model: D's columns are dealt to one, two or four groups of lanes (of 128, 64 and 32 rows), and each group has a
pattern of its own: spans of columns that count and spans of zeros in turn, beginning with either, the first ones left
out. A column shift has the product begin that many columns into B; the mask is of D's columns all the same.

Source: PTX ISA, "Zero-Column Mask Descriptor", whose examples 2 to 4 have as many columns that count as the field "use
span" says, and as many zeros as "skip span" says (its table has the two the other way round). That a sub-mask begins
with a whole span, of which the start count leaves columns out, all but the last at most, is what a simulator that was
tried against an SM100 does (numsim of TVM's TIRx).
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.tensor_matrices import put
from gpusim.isa.jit import inner

_FIRST_SPAN, _ANY, _ZEROS, _COUNTED, _SHIFT = 32, 39, 40, 48, 56


@inner
def column_shift(mask):
    """The column shift of a zero-column mask."""
    return mask >> _SHIFT & 63


@inner
def most_shift(descriptor):
    """How far an instruction descriptor of a weight-stationary product allows columns to be shifted (its bits 30 and
    31)."""
    code = descriptor >> 30 & 3
    return np.int64(4) << code if code else np.int64(0)


@inner
def is_zero(mask, part, column):
    """Whether the mask makes a zero of column number ``column`` of the group ``part``."""
    if not mask >> _ANY & 1:
        return False
    counted, zeros = (mask >> _COUNTED & 0xFF) + 1, (mask >> _ZEROS & 0xFF) + 1
    zeros_first = mask >> (_FIRST_SPAN + part) & 1 != 0
    start = min(mask >> (8 * part) & 0xFF, (zeros if zeros_first else counted) - 1)
    within = (column + start) % (counted + zeros)
    if zeros_first:
        return within < zeros
    return within >= counted


@inner
def zero_columns(work, mask, columns, parts, depth, form):
    """Make zeros of the ``columns`` columns of B in ``work`` that ``mask`` names; ``parts``: groups that they are dealt
    to."""
    each = columns // parts
    for n in range(columns):
        if is_zero(mask, n // each, n % each):
            work.b_odd[n] = 0
            for k in range(depth):
                put(work, False, np.int64(n), np.int64(k), np.int64(0), form, False)
