"""Brute-force oracles for arithmetic instructions: plain Python integers and fractions.

Imports nothing from gpusim. Integer oracles take and give unsigned 32-bit patterns (64-bit ones say so);
floating oracles take and give bit patterns of a :class:`Format` and round a Fraction by definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF
INTEGER_EDGES = [
    0, 1, 2, 3, 7, 8, 15, 16, 30, 31, 32, 33, 47, 48, 62, 63, 64, 65, 0x7F, 0x80, 0xFF, 0x100,
    0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x80008000, 0x7FFF7FFF, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000,
    0x80000001, 0xAAAAAAAA, 0x55555555, 0xFFFF0000, 0xFFFFFF80, 0xFFFFFFFE, 0xFFFFFFFF,
]  # fmt: skip


def signed(value: int, bits: int = 32) -> int:
    """The two's complement value of a pattern."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def mask_of(lanes) -> int:
    """Lane mask of a sequence of truth values."""
    return sum(1 << i for i, on in enumerate(lanes) if on)


def lane(mask: int, index: int) -> int:
    return mask >> index & 1


# ---- integers --------------------------------------------------------------------------------------


def lop3(table: int, a: int, b: int, c: int) -> int:
    return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def funnel(right: bool, high: bool, is_signed: bool, width: int, wrap: bool, x: int, y: int, z: int) -> int:
    amount = y % width if wrap else min(y, width)
    value = z << 32 | x
    if right:
        value = (signed(value, 64) if is_signed else value) >> amount
    else:
        value <<= amount
    return (value >> 32 if high else value) & M32


def prmt(mode: str, x: int, selector: int, z: int) -> int:
    data = [(z << 32 | x) >> 8 * i & 255 for i in range(8)]
    i = selector & 3
    table = {
        "F4E": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "B4E": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "RC8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
        "ECL": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ECR": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "RC16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    if mode:
        return sum(data[b] << 8 * n for n, b in enumerate(table[mode][i]))
    result = 0
    for n in range(4):
        nibble = selector >> 4 * n & 15
        byte = data[nibble & 7]
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * n
    return result


def relation(name: str, x, y) -> bool:
    """Comparison of two ordered numbers by its SASS name."""
    return {
        "F": False, "LT": x < y, "EQ": x == y, "LE": x <= y, "GT": x > y, "NE": x != y, "GE": x >= y,
        "T": True,
    }[name]  # fmt: skip


def join(name: str, a: bool, b: bool) -> bool:
    return {"AND": a and b, "OR": a or b, "XOR": a != b}[name]


def saturate(value: int, bits: int, is_signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(low, min(high, value))


# ---- floating point ---------------------------------------------------------------------------------

NEAREST, DOWN, UP, ZERO = "RN", "RM", "RP", "RZ"


@dataclass(frozen=True)
class Format:
    """An IEEE-like binary format; ``nan`` is the pattern that the GPU gives for NaN results."""

    exponent_bits: int
    mantissa_bits: int
    nan: int
    has_infinity: bool = True
    largest: int = -1

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def top(self) -> int:
        return self.largest if self.largest >= 0 else self.infinity - 1

    @property
    def bias(self) -> int:
        return (1 << self.exponent_bits - 1) - 1

    def is_nan(self, code: int) -> bool:
        magnitude = code & (self.sign - 1)
        return magnitude > (self.infinity if self.has_infinity else self.top)

    def is_infinite(self, code: int) -> bool:
        return self.has_infinity and code & (self.sign - 1) == self.infinity

    def is_negative(self, code: int) -> bool:
        return bool(code & self.sign)

    def is_zero(self, code: int) -> bool:
        return code & (self.sign - 1) == 0

    def is_denormal(self, code: int) -> bool:
        return 0 < code & (self.sign - 1) < 1 << self.mantissa_bits

    def value(self, code: int) -> Fraction:
        """The real number of a finite code."""
        magnitude = code & (self.sign - 1)
        exponent, fraction = divmod(magnitude, 1 << self.mantissa_bits)
        if exponent:
            fraction += 1 << self.mantissa_bits
        else:
            exponent = 1
        real = Fraction(fraction) * Fraction(2) ** (exponent - self.bias - self.mantissa_bits)
        return -real if code & self.sign else real

    def round(self, real: Fraction, mode: str = NEAREST, negative_zero: bool = False) -> int:
        """The code of a real number; an exact zero has the sign that ``negative_zero`` says."""
        if real == 0:
            return self.sign if negative_zero else 0
        sign = self.sign if real < 0 else 0
        real = abs(real)
        exponent = real.numerator.bit_length() - real.denominator.bit_length()
        if real < Fraction(2) ** exponent:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        units = real / Fraction(2) ** (exponent - self.mantissa_bits)
        low = units.numerator // units.denominator
        rest = units - low
        if mode == NEAREST:
            low += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1)
        elif (mode == UP and not sign) or (mode == DOWN and sign):
            low += rest > 0
        code = ((exponent - 1 + self.bias) << self.mantissa_bits) + low
        if code > self.top:
            inward = mode == ZERO or (mode == DOWN and not sign) or (mode == UP and sign)
            if inward:
                return sign | self.top
            return sign | (self.infinity if self.has_infinity else self.nan)
        return sign | code

    def flush(self, code: int) -> int:
        return code & self.sign if self.is_denormal(code) else code


F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
F32 = Format(8, 23, 0x7FFFFFFF)
TF32 = Format(8, 10, 0x3FFFF)
F64 = Format(11, 52, 0xFFF8000000000000)
E4M3 = Format(4, 3, 0x7F, has_infinity=False, largest=0x7E)
E5M2 = Format(5, 2, 0x7F)
#: Without infinity and NaN: ``nan`` is what a NaN becomes.
E2M1 = Format(2, 1, 0x7, has_infinity=False, largest=0x7)
E2M3 = Format(2, 3, 0x1F, has_infinity=False, largest=0x1F)
E3M2 = Format(3, 2, 0x1F, has_infinity=False, largest=0x1F)


def fused(f: Format, a: int, b: int, c: int, mode: str = NEAREST, out: Format | None = None) -> int:
    """a * b + c with one rounding, into ``out``; NaN results are ``out.nan``."""
    out = out or f
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return out.nan
    sign = f.is_negative(a) != f.is_negative(b)
    if f.is_infinite(a) or f.is_infinite(b):
        if f.is_zero(a) or f.is_zero(b) or (f.is_infinite(c) and f.is_negative(c) != sign):
            return out.nan
        return out.infinity | (out.sign if sign else 0)
    if f.is_infinite(c):
        return out.infinity | (out.sign if f.is_negative(c) else 0)
    real = f.value(a) * f.value(b) + f.value(c)
    both = sign and f.is_negative(c)
    product_zero = f.is_zero(a) or f.is_zero(b)
    if product_zero and f.is_zero(c):
        negative = both or (mode == DOWN and (sign or f.is_negative(c)))
    else:
        negative = mode == DOWN
    return out.round(real, mode, negative)


def multiply(f: Format, a: int, b: int, mode: str = NEAREST) -> int:
    sign = f.is_negative(a) != f.is_negative(b)
    return fused(f, a, b, f.sign if sign else 0, mode)


def add(f: Format, a: int, b: int, mode: str = NEAREST, out: Format | None = None) -> int:
    one = f.bias << f.mantissa_bits
    return fused(f, a, one, b, mode, out)


def clamp01(f: Format, code: int) -> int:
    """.SAT"""
    if f.is_nan(code) or f.is_negative(code):
        return 0
    one = f.bias << f.mantissa_bits
    return min(code, one)


def order(f: Format, code: int) -> int:
    """A key that sorts codes as numbers, -0 below +0."""
    return -(code & (f.sign - 1)) - 1 if code & f.sign else code


def minmax(f: Format, small: bool, a: int, b: int, nan: bool = False) -> int:
    if f.is_nan(a) and f.is_nan(b) or nan and (f.is_nan(a) or f.is_nan(b)):
        return f.nan
    if f.is_nan(a):
        return b
    if f.is_nan(b):
        return a
    return (min if small else max)(a, b, key=lambda code: order(f, code))


def minmax_of_magnitudes(f: Format, small: bool, a: int, b: int, sign: int, nan: bool = False) -> int:
    """min.xorsign.abs and max.xorsign.abs (PTX ISA): of ``|a|`` and ``|b|``, negative where one of a and b is."""
    found = minmax(f, small, a & sign - 1, b & sign - 1, nan)
    return found if f.is_nan(found) and found == f.nan else found | (a ^ b) & sign


def compare(f: Format, name: str, a: int, b: int) -> bool:
    """Ordered and unordered comparisons by their SASS names."""
    if name in ("F", "T"):
        return name == "T"
    unordered = f.is_nan(a) or f.is_nan(b)
    if name in ("NUM", "NAN"):
        return unordered == (name == "NAN")
    if unordered:
        return name.endswith("U")
    key = [(Fraction(2) ** 5000 * (-1 if f.is_negative(c) else 1)) if f.is_infinite(c) else f.value(c) for c in (a, b)]
    return relation(name.removesuffix("U") if name not in ("EQU", "NEU") else name[:2], *key)


def integral(real: Fraction, mode: str) -> int:
    """Rounding to an integer: ROUND (nearest even), FLOOR, CEIL, TRUNC."""
    low = real.numerator // real.denominator
    if mode == "FLOOR":
        return low
    if mode == "CEIL":
        return -((-real.numerator) // real.denominator)
    if mode == "TRUNC":
        return low if real >= 0 else -((-real.numerator) // real.denominator)
    rest = real - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1))


def to_integer(f: Format, code: int, bits: int, is_signed: bool, mode: str, nan_to_zero: bool) -> int:
    """Saturating conversion; the value as a Python int."""
    if f.is_nan(code):
        if nan_to_zero:
            return 0
        return signed(1 << bits - 1, bits) if is_signed else 1 << bits - 1
    if f.is_infinite(code):
        return saturate(-(1 << 200) if f.is_negative(code) else 1 << 200, bits, is_signed)
    return saturate(integral(f.value(code), mode), bits, is_signed)


def edges(f: Format) -> list[int]:
    """Codes where things go wrong: zeros, denormals, ones, halves, powers, extremes, infinities, NaNs."""
    m, bias = f.mantissa_bits, f.bias
    exponents = [0, 1, 2, 10, 22, 23, 24, 30, 31, 32, 52, 53, 62, 63, 64, 100]
    codes = {0, 1, 2, (1 << m) - 1, 1 << m, (1 << m) + 1, f.top, f.top - 1}
    for e in exponents:
        for biased in (bias + e, bias - e):
            if 0 < biased << m <= f.top:
                codes |= {biased << m, (biased << m) + 1, (biased << m) - 1, (biased << m) | 1 << m - 1}
    if f.has_infinity:
        codes |= {f.infinity, f.infinity + 1, f.infinity | 1 << m - 1}
    codes.add(f.nan & (f.sign - 1))
    codes = {c for c in codes if 0 <= c < f.sign}
    return sorted(codes) + sorted(c | f.sign for c in codes)
