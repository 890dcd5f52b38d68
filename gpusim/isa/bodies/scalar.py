"""Scalar pieces of floating arithmetic that the bodies share: bits, one-rounding FMA, exact rounding.

Mental model: the host's IEEE arithmetic is the GPU's, but for NaN patterns, flushing and directed
rounding, which are done here. Compiled, the bit casts and fused multiply-adds are single LLVM
operations; with JIT off the same functions are plain Python and give the same bits.

Directed rounding computes the round-to-nearest result and the sign of what it lost, then steps to the
neighbour if the direction asks for it: exact, with no change of the host's rounding mode.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from gpusim.isa.jit import inner

NEAREST, DOWN, UP, ZERO = 0, 1, 2, 3
#: Codes of the rounding modifiers, as the bodies' flags carry them.
NAN32 = 0x7FFFFFFF
#: Quiet NaN that FP64 gives for an invalid operation (inf - inf, 0 * inf).
INVALID64 = -0x0008000000000000
QUIET64 = 0x0008000000000000
SMALLEST_NORMAL32 = 1.1754943508222875e-38


def _fused_operation(float_type):
    @intrinsic
    def fused(typingctx, a, b, c):
        def codegen(context, builder, signature, arguments):
            return builder.fma(*arguments)

        return float_type(float_type, float_type, float_type), codegen

    return fused


def _cast_operation(source_type, target_type, ir_type):
    @intrinsic
    def cast(typingctx, value):
        def codegen(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], ir_type)

        return target_type(source_type), codegen

    return cast


if config.DISABLE_JIT:

    def _fused_exactly(a, b, c):
        """The real number a * b + c as a Fraction, or None if not finite or zero."""
        if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
            return None
        return Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))

    def fma64(a, b, c):
        exact = _fused_exactly(a, b, c)
        if exact is None or exact == 0:
            # a non-finite or zero result needs no rounding (an underflowed product cannot cancel c)
            product = np.float64(a) * np.float64(b)
            if exact is None and math.isfinite(a) and math.isfinite(b):
                return np.float64(c)
            return product + np.float64(c) if exact is None or product == 0 else np.float64(0.0)
        try:
            return np.float64(float(exact))
        except OverflowError:
            return np.float64(math.inf if exact > 0 else -math.inf)

    def fma32(a, b, c):
        exact = _fused_exactly(a, b, c)
        if exact is None or exact == 0:
            return np.float32(fma64(a, b, c))
        nearest = fma64(a, b, c)
        lost = 0 if math.isinf(nearest) else exact - Fraction(float(nearest))
        return np.float32(_odd(nearest, np.float64((lost > 0) - (lost < 0))))

    def float_of(word):
        return np.array(word, np.int64).astype(np.int32).view(np.float32)[()]

    def bits_of(value):
        return np.float32(value).view(np.int32)

    def double_of(word):
        return np.array(word, np.int64).view(np.float64)[()]

    def bits64_of(value):
        return np.float64(value).view(np.int64)

else:
    fma32 = _fused_operation(types.float32)
    fma64 = _fused_operation(types.float64)
    float_of = _cast_operation(types.int32, types.float32, ir.FloatType())
    bits_of = _cast_operation(types.float32, types.int32, ir.IntType(32))
    double_of = _cast_operation(types.int64, types.float64, ir.DoubleType())
    bits64_of = _cast_operation(types.float64, types.int64, ir.IntType(64))


@inner
def _odd(value, lost):
    """``value`` with its last bit set if something was ``lost``: rounding it again is then exact."""
    if lost == 0.0 or not math.isfinite(value):
        return value
    bits = bits64_of(value)
    if bits & 1 == 0:
        away = (lost > 0.0) == (value > 0.0)
        bits = bits + 1 if away else bits - 1
    return double_of(bits)


@inner
def sum_error(a, b, total):
    """What a + b = total (FP64, rounded to nearest) lost, exactly."""
    part = total - a
    return (a - (total - part)) + (b - part)


@inner
def step32(value, upwards):
    """The neighbour of an FP32 value; infinities stay when stepped outwards."""
    bits = np.int64(bits_of(value))
    if value == np.float32(0.0):
        bits = np.int64(1) if upwards else np.int64(-0x7FFFFFFF)
    elif value == np.float32(np.inf) and upwards or value == np.float32(-np.inf) and not upwards:
        return value
    elif (value > np.float32(0.0)) == upwards:
        bits += 1
    else:
        bits -= 1
    return float_of(np.int32(bits))


@inner
def step64(value, upwards):
    """The neighbour of an FP64 value; infinities stay when stepped outwards."""
    bits = bits64_of(value)
    if value == 0.0:
        bits = np.int64(1) if upwards else np.int64(-0x7FFFFFFFFFFFFFFF)
    elif value == np.inf and upwards or value == -np.inf and not upwards:
        return value
    elif (value > 0.0) == upwards:
        bits += 1
    else:
        bits -= 1
    return double_of(bits)


@inner
def narrow32(value, lost, mode):
    """Round the real number value + lost (FP64; lost is less than half an ulp) to FP32."""
    if mode == NEAREST:
        return np.float32(_odd(value, lost))
    result = np.float32(value)
    rest = value - np.float64(result)
    if rest == 0.0:
        rest = lost
    if rest == 0.0 or rest != rest:
        return result
    if mode == ZERO:
        if rest < 0.0 and result > np.float32(0.0):
            return step32(result, False)
        if rest > 0.0 and result < np.float32(0.0):
            return step32(result, True)
        return result
    if mode == DOWN and rest < 0.0:
        return step32(result, False)
    if mode == UP and rest > 0.0:
        return step32(result, True)
    return result


@inner
def adjust64(result, rest, mode):
    """Step an FP64 result rounded to nearest, whose exact value is result + rest, as ``mode`` says."""
    if rest == 0.0 or rest != rest or mode == NEAREST:
        return result
    if mode == ZERO:
        if rest < 0.0 and result > 0.0:
            return step64(result, False)
        if rest > 0.0 and result < 0.0:
            return step64(result, True)
        return result
    if mode == DOWN and rest < 0.0:
        return step64(result, False)
    if mode == UP and rest > 0.0:
        return step64(result, True)
    return result


@inner
def flush32(word):
    """FP32 bits (int64 or int32) with a denormal replaced by the zero of its sign."""
    return word & 0x80000000 if word & 0x7F800000 == 0 else word
