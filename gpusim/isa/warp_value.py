"""A register of one warp as one value: 32 lanes that are loaded, computed with and stored together.

Mental model: arithmetic on a whole warp without a loop over its lanes. Compiled, a value is an LLVM vector of 32
words, two or more machine registers wide, so a body loads its sources before it stores its result and may write a
row that it reads; with Numba's JIT switched off it is an int32[32] array and each operation plain NumPy. Lane masks
are int64 with bit ``i`` for lane ``i``.

Floating-point results that are NaN are the GPU's NaN (0x7fffffff).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, register_model

from gpusim.isa.bodies.scalar import NAN32, fma32
from gpusim.isa.warp import LANES

_WORD, _PLACE, _BIT = ir.IntType(32), ir.IntType(64), ir.IntType(1)
_VECTOR = ir.VectorType(_WORD, LANES)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_LONGS = ir.VectorType(_PLACE, LANES)
_BITS = ir.VectorType(_BIT, LANES)
_NUMBERS = tuple(range(LANES))


class WarpValue(types.Type):
    """Numba's type of 32 words in machine registers."""

    def __init__(self) -> None:
        super().__init__("WarpValue")


@register_model(WarpValue)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


_VALUE, _MASK = WarpValue(), types.int64


def _splat(value: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * LANES)


def _unary(result: types.Type, argument: types.Type, emit: Callable, plain: Callable) -> Callable:
    """An operation of one value; ``emit(builder, a)`` writes its LLVM, ``plain(a)`` is the same in NumPy."""
    if config.DISABLE_JIT:
        return plain

    @intrinsic
    def operation(typing_context, a):
        def generate(context, builder, signature, arguments):
            return emit(builder, *arguments)

        return result(argument), generate

    return operation


def _binary(result: types.Type, argument: types.Type, emit: Callable, plain: Callable) -> Callable:
    """An operation of two values of one type, as :func:`_unary`."""
    if config.DISABLE_JIT:
        return plain

    @intrinsic
    def operation(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            return emit(builder, *arguments)

        return result(argument, argument), generate

    return operation


def _ternary(result: types.Type, first: types.Type, argument: types.Type, emit: Callable, plain: Callable) -> Callable:
    """An operation of three values, as :func:`_unary`; the first may have a type of its own."""
    if config.DISABLE_JIT:
        return plain

    @intrinsic
    def operation(typing_context, a, b, c):
        def generate(context, builder, signature, arguments):
            return emit(builder, *arguments)

        return result(first, argument, argument), generate

    return operation


# ---- to and from memory, scalars, masks ----------------------------------------------------------


def _emit_load(builder, address):
    return builder.load(builder.inttoptr(address, ir.PointerType(_VECTOR)), align=4)


def _plain_load(address):
    return np.frombuffer((ctypes.c_int32 * LANES).from_address(int(address)), np.int32).copy()


def _emit_splat(builder, word):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), builder.trunc(word, _WORD), ir.Constant(_WORD, 0))
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _splat(0))


def _plain_splat(word):
    return np.full(LANES, int(word) & 0xFFFFFFFF, np.uint32).view(np.int32)


def _emit_mask(builder, bits):
    return builder.zext(builder.bitcast(bits, _WORD), _PLACE)


def _plain_mask(bits):
    return np.int64(np.packbits(bits, bitorder="little").view(np.uint32)[0])


def _bits_of(builder, mask):
    return builder.bitcast(builder.trunc(mask, _WORD), _BITS)


def _plain_bits(mask):
    return (int(mask) >> np.arange(LANES)) & 1


def _emit_ramp(builder, first, step):
    steps = builder.mul(_emit_splat(builder, step), ir.Constant(_VECTOR, _NUMBERS))
    return builder.add(_emit_splat(builder, first), steps)


def _plain_ramp(first, step):
    return _plain_splat(first) + _plain_splat(step) * np.arange(LANES, dtype=np.int32)


#: load(address): the 32 words from a host address on
load = _unary(_VALUE, _MASK, _emit_load, _plain_load)
#: splat(word int64): its low 32 bits in each lane
splat = _unary(_VALUE, _MASK, _emit_splat, _plain_splat)
#: ones(mask): 1 in the lanes of a mask, 0 in the others
ones = _unary(
    _VALUE, _MASK, lambda b, mask: b.zext(_bits_of(b, mask), _VECTOR), lambda mask: _plain_bits(mask).astype(np.int32)
)
#: ramp(first int64, step int64): first + lane * step, 32 bits
ramp = _binary(_VALUE, _MASK, _emit_ramp, _plain_ramp)
#: choose(mask, a, b): a in the lanes of the mask, b in the others
choose = _ternary(
    _VALUE,
    _MASK,
    _VALUE,
    lambda b, mask, one, other: b.select(_bits_of(b, mask), one, other),
    lambda mask, one, other: np.where(_plain_bits(mask) != 0, one, other),
)

if config.DISABLE_JIT:

    def store(address, value):
        """Write the 32 words at a host address."""
        ctypes.memmove(int(address), np.ascontiguousarray(value, np.int32).ctypes.data, 4 * LANES)

else:

    @intrinsic
    def store(typing_context, address, value):
        """Write the 32 words at a host address."""

        def generate(context, builder, signature, arguments):
            builder.store(arguments[1], builder.inttoptr(arguments[0], ir.PointerType(_VECTOR)), align=4)
            return context.get_dummy_value()

        return types.void(_MASK, _VALUE), generate


# ---- integers ------------------------------------------------------------------------------------


def _emit_shift(operation: str, filler: int):
    """A shift by unsigned amounts that saturate: beyond 31 the result is that of 31 (filler 31) or 0."""

    def emit(builder, value, amount):
        inside = builder.icmp_unsigned("<", amount, _splat(32))
        if filler:
            return getattr(builder, operation)(value, builder.select(inside, amount, _splat(filler)))
        shifted = getattr(builder, operation)(value, builder.and_(amount, _splat(31)))
        return builder.select(inside, shifted, _splat(0))

    return emit


def _plain_shift(kind, right):
    def shift(value, amount):
        far = np.minimum(amount.view(np.uint32), 32).astype(np.int64)
        wide = value.view(kind).astype(np.int64)
        return (wide >> far if right else wide << far).astype(np.uint64).astype(np.uint32).view(np.int32)

    return shift


def _emit_high(extend: str):
    def emit(builder, a, b):
        product = builder.mul(getattr(builder, extend)(a, _LONGS), getattr(builder, extend)(b, _LONGS))
        return builder.trunc(builder.lshr(product, ir.Constant(_LONGS, [32] * LANES)), _VECTOR)

    return emit


def _plain_high(kind):
    def high(a, b):
        product = a.view(kind).astype(np.int64) * b.view(kind).astype(np.int64)
        return (product.view(np.uint64) >> np.uint64(32)).astype(np.uint32).view(np.int32)

    return high


def _compare(emit_bits: Callable, plain: Callable) -> Callable:
    """A comparison of two values: the mask of the lanes where it holds."""
    return _binary(
        _MASK, _VALUE, lambda b, x, y: _emit_mask(b, emit_bits(b, x, y)), lambda x, y: _plain_mask(plain(x, y))
    )


add = _binary(_VALUE, _VALUE, lambda b, x, y: b.add(x, y), lambda x, y: x + y)
multiply = _binary(_VALUE, _VALUE, lambda b, x, y: b.mul(x, y), lambda x, y: x * y)
both = _binary(_VALUE, _VALUE, lambda b, x, y: b.and_(x, y), lambda x, y: x & y)
either = _binary(_VALUE, _VALUE, lambda b, x, y: b.or_(x, y), lambda x, y: x | y)
differ = _binary(_VALUE, _VALUE, lambda b, x, y: b.xor(x, y), lambda x, y: x ^ y)
#: high_signed, high_unsigned(x, y): the upper word of the 64-bit product
high_signed = _binary(_VALUE, _VALUE, _emit_high("sext"), _plain_high(np.int32))
high_unsigned = _binary(_VALUE, _VALUE, _emit_high("zext"), _plain_high(np.uint32))
#: shifts by unsigned amounts, which may be 32 or more
left = _binary(_VALUE, _VALUE, _emit_shift("shl", 0), _plain_shift(np.uint32, False))
right_zeros = _binary(_VALUE, _VALUE, _emit_shift("lshr", 0), _plain_shift(np.uint32, True))
right_signs = _binary(_VALUE, _VALUE, _emit_shift("ashr", 31), _plain_shift(np.int32, True))
#: masks of the lanes where it holds: less as signed numbers, below as unsigned ones
less = _compare(lambda b, x, y: b.icmp_signed("<", x, y), lambda x, y: x < y)
below = _compare(lambda b, x, y: b.icmp_unsigned("<", x, y), lambda x, y: x.view(np.uint32) < y.view(np.uint32))
equal = _compare(lambda b, x, y: b.icmp_signed("==", x, y), lambda x, y: x == y)


def _emit_reduce(operation: str):
    """One number of all lanes."""

    def emit(builder, value):
        name, kind = f"llvm.vector.reduce.{operation}.v32i32", ir.FunctionType(_WORD, [_VECTOR])
        known = builder.module.globals.get(name)
        return builder.zext(builder.call(known or ir.Function(builder.module, kind, name), [value]), _PLACE)

    return emit


#: lowest, highest, any_bits(x): least and greatest unsigned word, all words joined by OR
lowest = _unary(_MASK, _VALUE, _emit_reduce("umin"), lambda x: np.int64(x.view(np.uint32).min()))
highest = _unary(_MASK, _VALUE, _emit_reduce("umax"), lambda x: np.int64(x.view(np.uint32).max()))
any_bits = _unary(_MASK, _VALUE, _emit_reduce("or"), lambda x: np.int64(np.bitwise_or.reduce(x.view(np.uint32))))


# ---- floating point ------------------------------------------------------------------------------


def _emit_float(operation: Callable) -> Callable:
    """An operation of FP32 numbers whose NaN is the GPU's."""

    def emit(builder, *values):
        result = operation(builder, *(builder.bitcast(value, _FLOATS) for value in values))
        return builder.select(
            builder.fcmp_unordered("uno", result, result), _splat(NAN32), builder.bitcast(result, _VECTOR)
        )

    return emit


def _plain_float(operation: Callable) -> Callable:
    def plain(*values):
        with np.errstate(all="ignore"):
            result = np.asarray(operation(*(value.view(np.float32) for value in values)), np.float32)
        return np.where(np.isnan(result), np.int32(NAN32), result.view(np.int32))

    return plain


def _emit_fused(builder, x, y, z):
    name, kind = "llvm.fma.v32f32", ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), [x, y, z])


def _fused_each(x, y, z):
    return [fma32(a, b, c) for a, b, c in zip(x, y, z, strict=True)]


def _compare_floats(sign: str, plain: Callable) -> Callable:
    return _compare(
        lambda b, x, y: b.fcmp_ordered(sign, b.bitcast(x, _FLOATS), b.bitcast(y, _FLOATS)),
        lambda x, y: plain(x.view(np.float32), y.view(np.float32)),
    )


def _emit_flush(builder, value):
    denormal = builder.icmp_signed("==", builder.and_(value, _splat(0x7F800000)), _splat(0))
    return builder.select(denormal, builder.and_(value, _splat(-0x80000000)), value)


def _plain_flush(value):
    return np.where(value & 0x7F800000 == 0, value & np.int32(-0x80000000), value)


float_add = _binary(_VALUE, _VALUE, _emit_float(lambda b, x, y: b.fadd(x, y)), _plain_float(lambda x, y: x + y))
float_multiply = _binary(_VALUE, _VALUE, _emit_float(lambda b, x, y: b.fmul(x, y)), _plain_float(lambda x, y: x * y))
#: float_fused(x, y, z): x * y + z with one rounding
float_fused = _ternary(_VALUE, _VALUE, _VALUE, _emit_float(_emit_fused), _plain_float(_fused_each))
#: flush(x): denormals replaced by the zero of their sign
flush = _unary(_VALUE, _VALUE, _emit_flush, _plain_flush)
#: masks of the lanes where it holds; never where one side is NaN
float_less = _compare_floats("<", lambda x, y: x < y)
float_equal = _compare_floats("==", lambda x, y: x == y)
float_greater = _compare_floats(">", lambda x, y: x > y)
