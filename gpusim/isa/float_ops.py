"""Codes of the floating bodies' flags: formats, roundings, options."""

from __future__ import annotations

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
