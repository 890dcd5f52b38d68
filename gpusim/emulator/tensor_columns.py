"""Columns of B that a weight-stationary product takes as zeros: the zero-column mask of tcgen05.mma.ws.

Mental model: D's columns are dealt to one, two or four groups of lanes (of 128, 64 and 32 rows), and each group has a pattern of its own: spans
of columns that count and spans of zeros in turn, beginning with either, the first ones left out. What the descriptor's column shift does is not
written down well enough to be emulated.

Source: PTX ISA, "Zero-Column Mask Descriptor" (fields and sub-masks). That a sub-mask begins with a whole span, whose first columns the start
count leaves out, is how its table is read here.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.tensor_matrices import put
from gpusim.isa.jit import inner

_FIRST_SPAN, _ANY, _COUNTED, _ZEROS, _SHIFT = 32, 39, 40, 48, 56


@inner
def column_shift(mask):
    """The column shift of a zero-column mask."""
    return mask >> _SHIFT & 63


@inner
def is_zero(mask, part, column):
    """Whether the mask makes a zero of column number ``column`` of the group ``part``."""
    if not mask >> _ANY & 1:
        return False
    counted, zeros = (mask >> _COUNTED & 0xFF) + 1, (mask >> _ZEROS & 0xFF) + 1
    within = (column + (mask >> (8 * part) & 0xFF)) % (counted + zeros)
    if mask >> (_FIRST_SPAN + part) & 1:
        return within < zeros
    return within >= counted


@inner
def zero_columns(work, mask, columns, parts, depth, form):
    """Make zeros of the ``columns`` columns of B in ``work`` that ``mask`` names; ``parts``: groups that they are dealt to."""
    each = columns // parts
    for n in range(columns):
        if is_zero(mask, n // each, n % each):
            work.b_odd[n] = 0
            for k in range(depth):
                put(work, False, np.int64(n), np.int64(k), np.int64(0), form, False)
