"""Elements of a bulk copy: where a byte lies in swizzled shared memory, what fills what is out of bounds, and
reductions.

Mental model: a swizzle exchanges 16-byte parts (or larger atoms) of a row of 128 bytes by the address's next three
bits, so that a column of rows lies in different banks: it is an exclusive or of the shared address with some of its own
upper bits. Patterns: PTX ISA, "Swizzling modes". TF32 loads round to the nearest, ties to even; NaN fill is 0x7FFF,
0x7FFFFFFF and so on: neither is published.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.atomics import _add_float, _add_halves, _below, _combine, _extreme_halves
from gpusim.emulator.pointers import load16, load32, load64, store16, store32, store64
from gpusim.isa import bulk_ops as bulk
from gpusim.isa import float_ops
from gpusim.isa import system_ops as ops
from gpusim.isa.bodies.scalar import bits64_of, double_of
from gpusim.isa.jit import inner
from gpusim.isa.lane_masks import signed32

_LOW = 0xFFFFFFFF
#: Swizzles, by their numbers in cuda.h, of atoms that are not 16 bytes; of one the halves of 16 bytes change places
#: too.
FLIPPED, _ATOM_64 = 5, 6


@inner
def swizzled(place, swizzle):
    """The shared address at which what would lie at ``place`` without the swizzle lies with it."""
    if swizzle == 0:
        return place
    if swizzle <= 3:
        return place ^ (place >> 3 & ((1 << swizzle) - 1) << 4)
    if swizzle == _ATOM_64:
        return place ^ (place >> 1 & 0x40)
    moved = place ^ (place >> 2 & 0x60)  # atoms of 32 bytes
    return moved ^ (place >> 4 & 8) if swizzle == FLIPPED else moved  # in every other row


@inner
def fill_pattern(kind, fill):
    """Eight bytes of what stands for elements out of bounds."""
    if fill == 0:
        return np.int64(0)
    if kind == bulk.F16 or kind == bulk.BF16:
        return np.int64(0x7FFF7FFF7FFF7FFF)
    return np.int64(0x7FFFFFFFFFFFFFFF) if kind == bulk.F64 else np.int64(0x7FFFFFFF7FFFFFFF)


@inner
def _loaded32(word, kind):
    """An FP32 element as a load delivers it; bits as int64."""
    magnitude = word & 0x7FFFFFFF
    if kind != bulk.TF32 and magnitude < 0x00800000:
        return word & 0x80000000
    if kind == bulk.F32_FTZ or magnitude >= 0x7F800000:
        return word
    return (word + 0xFFF + (word >> 13 & 1)) & 0xFFFFE000


@inner
def loaded(value, kind):
    """Two FP32 elements as a load delivers them."""
    if kind != bulk.F32_FTZ and kind != bulk.TF32 and kind != bulk.TF32_FTZ:
        return value
    return _loaded32(value >> 32 & _LOW, kind) << 32 | _loaded32(value & _LOW, kind)


@inner
def has_reduction(operation, kind):
    """Whether elements of a type may be reduced so (PTX ISA, cp.reduce.async.bulk)."""
    integer = kind == bulk.U32 or kind == bulk.S32 or kind == bulk.U64 or kind == bulk.S64
    half = kind == bulk.F16 or kind == bulk.BF16
    if operation == ops.INC or operation == ops.DEC:
        return kind == bulk.U32
    if operation == ops.ADD:
        return integer or half or kind == bulk.F32 or kind == bulk.F32_FTZ or kind == bulk.F64
    if operation == ops.MIN or operation == ops.MAX:
        return integer or half
    return integer


@inner
def reduce_element(target, source, operation, kind):
    """Combine the element at host address ``source`` into the one at ``target``; returns the bytes of one."""
    if kind == bulk.F16 or kind == bulk.BF16:
        style = float_ops.F16 if kind == bulk.F16 else float_ops.BF16
        old, operand = np.int32(load16(target)), np.int32(load16(source))
        if operation == ops.ADD:
            store16(target, _add_halves(old, operand, style))
        else:
            store16(target, _extreme_halves(old, operand, style, operation == ops.MIN))
        return np.int64(2)
    if kind == bulk.U64 or kind == bulk.S64 or kind == bulk.F64:
        first, second = np.int64(load64(target)), np.int64(load64(source))
        if kind == bulk.F64:
            store64(target, bits64_of(double_of(first) + double_of(second)))
        elif kind == bulk.U64 and (operation == ops.MIN or operation == ops.MAX):
            store64(target, first if _below(first, second) == (operation == ops.MIN) else second)
        else:
            store64(target, _combine(operation, first, second))
        return np.int64(8)
    held, given = load32(target), load32(source)
    if kind == bulk.F32 or kind == bulk.F32_FTZ:
        # PTX ISA: "Current implementation of cp.reduce.async.bulk.add.f32 flushes subnormal inputs and results".
        store32(target, signed32(_add_float(held, given, True)))
        return np.int64(4)
    a, b = np.int64(held), np.int64(given)
    if kind == bulk.U32:
        a, b = a & _LOW, b & _LOW
    store32(target, signed32(_combine(operation, a, b)))
    return np.int64(4)
