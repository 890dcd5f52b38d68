"""Byte permutation (PRMT): any four of eight bytes, each as it is or as its sign.

Source of the modes: PTX ISA, ``prmt``.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import inner

LOW = 0xFFFFFFFF


@inner
def permute_bytes(mode, xi, yi, zi, wi, lanes):
    """w = bytes of {z:x} chosen by the nibbles of y, or by ``mode`` (integer_ops.PERMUTE_MODES) and
    the two lowest bits of y, for the first ``lanes`` lanes."""
    for l in range(lanes):
        selector = np.int64(yi[0, l]) & LOW
        value = (np.int64(zi[0, l]) << 32) | (np.int64(xi[0, l]) & LOW)
        if mode != 0:
            selector = _mode_selector(mode, selector & 3)
        result = np.int64(0)
        for i in range(4):
            nibble = (selector >> (4 * i)) & 15
            byte = (value >> (8 * (nibble & 7))) & 255
            if nibble & 8:
                byte = -(byte >> 7) & 255
            result |= byte << (8 * i)
        wi[0, l] = np.int32(result)


@inner
def _mode_selector(mode, start):
    """The nibble selector that a named mode stands for, byte 0 in the lowest nibble."""
    if mode == 1:  # F4E: four bytes upwards from start
        return start | (start + 1) << 4 | (start + 2) << 8 | (start + 3) << 12
    if mode == 2:  # B4E: four bytes downwards, round the eight
        return start | (start + 7 & 7) << 4 | (start + 6 & 7) << 8 | (start + 5 & 7) << 12
    if mode == 3:  # RC8: one byte four times
        return start * 0x1111
    if mode == 4:  # ECL: byte index, but at least start
        return start | max(start, 1) << 4 | max(start, 2) << 8 | 3 << 12
    if mode == 5:  # ECR: byte index, but at most start
        return min(start, 1) << 4 | min(start, 2) << 8 | start << 12
    half = (start & 1) * 2  # RC16: one half twice
    return (half | (half + 1) << 4) * 0x101
