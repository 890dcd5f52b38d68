"""Numbers of the FP32, conversion and MUFU bodies, and the codes of their flags."""

from __future__ import annotations

from gpusim.isa.opcodes import FLOAT_BASE

# FP32 arithmetic: alu_float.py
ADD = FLOAT_BASE + 0
MULTIPLY = FLOAT_BASE + 1
FUSED = FLOAT_BASE + 2
MINMAX = FLOAT_BASE + 3
MINMAX3 = FLOAT_BASE + 4
COMPARE = FLOAT_BASE + 5
SET = FLOAT_BASE + 6
CHECK_DIVISION = FLOAT_BASE + 7
SELECT_FLUSHED = FLOAT_BASE + 8
ADD_PAIR = FLOAT_BASE + 9
MULTIPLY_PAIR = FLOAT_BASE + 10
FUSED_PAIR = FLOAT_BASE + 11
SWIZZLED_ADD = FLOAT_BASE + 12
ADD3 = FLOAT_BASE + 13

# Multi-function unit: alu_mufu.py
MUFU_BASE = FLOAT_BASE + 40
MUFU = {
    name: MUFU_BASE + i
    for i, name in enumerate(("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH", "RCP64H", "RSQ64H"))
}
RCP, RSQ, SQRT, EX2, LG2, SIN, COS, TANH, RCP64H, RSQ64H = range(MUFU_BASE, MUFU_BASE + 10)
TANH_HALVES = MUFU_BASE + 10
EX2_HALVES = MUFU_BASE + 11

# Conversions: alu_convert.py, alu_pack.py
CONVERT_BASE = FLOAT_BASE + 80
CONVERT = CONVERT_BASE + 0
PACK = CONVERT_BASE + 1
UNPACK = CONVERT_BASE + 2
PACK_INTEGER = CONVERT_BASE + 3
TO_TF32 = CONVERT_BASE + 4

#: ``how`` of the FP32 bodies: rounding mode in bits 0..1, then these.
FLUSH, SATURATE = 4, 8
ROUNDINGS = {"RN": 0, "RM": 1, "RP": 2, "RZ": 3}
#: Rounding to an integer, by its own names.
INTEGER_ROUNDINGS = {"ROUND": 0, "FLOOR": 1, "CEIL": 2, "TRUNC": 3}
#: Minimum and maximum: any NaN wins; the sign is the product of the signs.
PROPAGATE_NAN, XOR_SIGN = 2, 4

#: Floating formats.
F32, F64, F16, BF16, E4M3, E5M2, TF32, E8M0, E2M1, E2M3, E3M2 = range(11)

#: Types of a conversion: a floating format, or this plus 2 * bits + signed; sources add 256 times the
#: bit where a narrow one begins in its word.
INTEGER_KIND = 32
INTEGERS = {
    name: INTEGER_KIND + 2 * int(name[1:]) + (name[0] == "S")
    for name in ("S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64")
}
#: Options of a conversion.
FLUSH_SOURCE, FLUSH_RESULT, CLAMP, NAN_TO_ZERO, INTEGRAL = 1, 2, 4, 8, 16
