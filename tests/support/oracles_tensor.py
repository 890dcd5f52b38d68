"""Brute-force oracle of tensor-core products: matrices of codes, fragments by the PTX ISA's formulas, exact fractions.

Imports nothing from gpusim. A matrix is a dict (row, column) -> code. Generations differ by :class:`Generation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from oracles_arith import F16, F32, ZERO, Format

LANES = 32


@dataclass(frozen=True)
class Generation:
    """Fraction bits of an aligned sum, bytes of k that are summed at once; the same and the result's bits for FP8."""

    fraction_bits: int
    block_bytes: int
    fraction_bits_8: int
    result_bits_8: int = 23


#: arXiv 2511.10909 (MMA-Sim), table of NVIDIA architectures.
GENERATIONS = {
    (7, 5): Generation(24, 16, 24),
    (8, 0): Generation(24, 16, 24),
    (8, 9): Generation(24, 16, 13, 13),
    (9, 0): Generation(25, 32, 25),
    (12, 0): Generation(25, 32, 25),
}


def element_place(rows: int, bits: int, lane: int, i: int) -> tuple[int, int]:
    """Row and depth of element ``i`` of a lane's fragment of A (of B with ``rows`` 8: column and depth)."""
    group, thread, per_register = lane >> 2, lane & 3, 32 // bits
    register, inside = divmod(i, per_register)
    if rows == 8:
        return group, thread * per_register + inside + 4 * per_register * register
    row = group if register % 2 == 0 else group + 8
    return row, thread * per_register + inside + (4 * per_register if register >= 2 else 0)


def result_place(lane: int, i: int) -> tuple[int, int]:
    """Row and column of element ``i`` of a lane's fragment of C and D."""
    return (lane >> 2) + (8 if i >= 2 else 0), 2 * (lane & 3) + (i & 1)


def unpack(registers: list[list[int]], rows: int, bits: int) -> dict[tuple[int, int], int]:
    """(row, depth) -> code of a fragment given as registers of 32 words."""
    codes = {}
    per_register = 32 // bits
    for lane in range(LANES):
        for i in range(per_register * len(registers)):
            word = registers[i // per_register][lane]
            codes[element_place(rows, bits, lane, i)] = word >> bits * (i % per_register) & (1 << bits) - 1
    return codes


def unpack_result(registers: list[list[int]], bits: int) -> dict[tuple[int, int], int]:
    """(row, column) -> code of an accumulator fragment of 32-bit or 16-bit elements."""
    codes, per_register = {}, 32 // bits
    for lane in range(LANES):
        for i in range(per_register * len(registers)):
            word = registers[i // per_register][lane]
            codes[result_place(lane, i)] = word >> bits * (i % per_register) & (1 << bits) - 1
    return codes


def parts(f: Format, code: int) -> tuple[Fraction, int]:
    """Signed significand and exponent as the encoding has them; zero is (0, None)."""
    value = f.value(code)
    if value == 0:
        return Fraction(0), -(10**9)
    exponent = max((code & (f.sign - 1)) >> f.mantissa_bits, 1) - f.bias
    return value / Fraction(2) ** exponent, exponent


def cut(real: Fraction) -> int:
    """Towards zero."""
    whole = abs(real.numerator) // real.denominator
    return whole if real >= 0 else -whole


def block(
    f_a: Format, f_b: Format, acc: Format, a: list[int], b: list[int], c: int, bits: int, result_bits: int
) -> int:
    """One fused block: the accumulator's code after it."""
    if acc.is_nan(c) or any(f_a.is_nan(x) for x in a) or any(f_b.is_nan(y) for y in b):
        return acc.nan
    signs = set()
    if acc.is_infinite(c):
        signs.add(acc.is_negative(c))
    for x, y in zip(a, b, strict=True):
        if f_a.is_infinite(x) or f_b.is_infinite(y):
            if f_a.is_zero(x) or f_b.is_zero(y):
                return acc.nan
            signs.add(f_a.is_negative(x) != f_b.is_negative(y))
    if len(signs) == 2:
        return acc.nan
    if signs:
        return acc.infinity | (acc.sign if signs.pop() else 0)
    significand, exponent = parts(acc, c)
    terms = [(significand, max(exponent, -126))]
    for x, y in zip(a, b, strict=True):
        (s, e), (t, g) = parts(f_a, x), parts(f_b, y)
        terms.append((s * t, e + g))
    top = max(e for _, e in terms)
    total = sum(cut(s * Fraction(2) ** (bits + e - top)) for s, e in terms if s)
    real = Fraction(total) * Fraction(2) ** (top - bits)
    if acc == F16:
        return F16.round(real)
    if abs(real) >= Fraction(2) ** 128:
        return F32.infinity | (F32.sign if real < 0 else 0)
    code = F32.round(real, ZERO)
    return code & ~((1 << 23 - result_bits) - 1)


def product(
    f_a: Format, f_b: Format, acc: Format, element_bits: int, depth: int, a: dict, b: dict, c: dict, g: Generation
) -> dict[tuple[int, int], int]:
    """D of D = A x B + C; ``b`` is by (column, depth)."""
    at_once = min(8 * g.block_bytes // element_bits, depth)
    bits, result_bits = (g.fraction_bits_8, g.result_bits_8) if element_bits == 8 else (g.fraction_bits, 23)
    result = {}
    for (row, column), code in c.items():
        for start in range(0, depth, at_once):
            ks = range(start, start + at_once)
            left, right = [a[row, k] for k in ks], [b[column, k] for k in ks]
            code = block(f_a, f_b, acc, left, right, code, bits, result_bits)
        result[row, column] = code
    return result
