"""One instruction of each arithmetic row, and what it computes, in plain Python.

Mental model: ``{u}IADD3 {d}, {a}, {b}, {c}`` is written once and run on both datapaths where the table has both rows:
with ``u`` empty on vector registers and with ``U`` on uniform ones. An oracle takes the operands a, b, c as bit
patterns (of ``kinds``) and the three source predicates s as bits, and gives the results in the order of ``results``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from oracles_arith import (
    F16,
    F32,
    F64,
    M32,
    M64,
    add,
    clamp01,
    compare,
    funnel,
    fused,
    integral,
    lop3,
    minmax,
    multiply,
    prmt,
    saturate,
    signed,
    to_integer,
)

ONE = F32.bias << 23


@dataclass(frozen=True)
class ArithmeticCase:
    """``kinds`` of a, b, c: i a word, w a pair, f FP32, g a pair of FP32, h two halves, d FP64. ``results``: d a word,
    D a pair, N a pair that is
    any NaN where a NaN is due (whose, has a test of its own), p and q the predicates of that name."""

    text: str
    oracle: Callable[[int, int, int, int], tuple[int, ...]]
    kinds: str = "iii"
    results: str = "d"

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0].split(".")[0].removeprefix("{u}")


def case(text: str, oracle: Callable, kinds: str = "iii", results: str = "d") -> ArithmeticCase:
    """A case whose oracle may give one result bare."""

    def results_of(a: int, b: int, c: int, s: int) -> tuple[int, ...]:
        found = oracle(a, b, c, s)
        return found if isinstance(found, tuple) else (found,)

    return ArithmeticCase(text, results_of, kinds, results)


def halves(function: Callable) -> Callable:
    """A function of 16-bit floats on both halves of words."""

    def packed(a: int, b: int, c: int, s: int) -> int:
        low = function(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF, s)
        return function(a >> 16, b >> 16, c >> 16, s) << 16 | low

    return packed


def pairs(function: Callable) -> Callable:
    """A function of FP32 numbers on both words of pairs."""

    def paired(a: int, b: int, c: int, s: int) -> int:
        return function(a >> 32, b >> 32, c >> 32) << 32 | function(a & M32, b & M32, c & M32)

    return paired


def chosen(s: int, *values: int, key: Callable = signed) -> int:
    """Minimum where the first predicate holds, else maximum."""
    return (min if s & 1 else max)(values, key=key)


def set_and(name: str, f) -> Callable:
    """p and q of a floating comparison joined by AND with the first predicate."""

    def both(a: int, b: int, c: int, s: int) -> tuple[int, int]:
        holds = compare(f, name, a, b)
        return int(holds and s & 1), int(not holds and s & 1)

    return both


def truth(table: int, s: int) -> int:
    """An entry of a truth table of three predicates, the first one the highest bit of the index."""
    return table >> ((s & 1) * 4 + (s >> 1 & 1) * 2 + (s >> 2 & 1)) & 1


def reciprocal(a: int) -> int:
    """MUFU.RCP: 1/x rounded once; denormals are zeros on either side."""
    sign = a & F32.sign
    if F32.is_nan(a):
        return F32.nan
    if F32.is_infinite(a):
        return sign
    if F32.is_zero(a) or F32.is_denormal(a):
        return sign | F32.infinity
    return F32.flush(F32.round(1 / F32.value(a)))


def multiply_scaled(a: int, b: int, power: int, mode: str = "RN") -> int:
    """FMUL.D2 and its like: the product times 2**power, rounded once."""
    if F32.is_nan(multiply(F32, a, b)) or F32.is_infinite(a) or F32.is_infinite(b):
        return multiply(F32, a, b)
    real = F32.value(a) * F32.value(b) * Fraction(2) ** power
    return F32.round(real, mode, negative_zero=F32.is_negative(a) != F32.is_negative(b))


def needs_slow_division(a: int, b: int) -> int:
    """FCHK: far from the ends of the range a division is fast, with zeros, infinities and NaNs it is not."""
    return int(any((code >> 23 & 255) in (0, 255) for code in (a, b)))


def far_from_the_ends(code: int) -> int:
    """An FP32 number within 2**-16 to 2**15, or zero, or infinity, or NaN."""
    exponent = code >> 23 & 255
    return code if exponent == 255 else code & F32.sign if exponent == 0 else code & 0x87FFFFFF | 0x38000000


def rounded(a: int, mode: str) -> int:
    """FRND: to an integral value, the sign of a zero kept."""
    if F32.is_nan(a):
        return F32.nan
    if F32.is_infinite(a):
        return a
    return F32.round(Fraction(integral(F32.value(a), mode))) | a & F32.sign


def bytes_of(word: int, is_signed: bool = False) -> list[int]:
    return [signed(word >> 8 * i, 8) if is_signed else word >> 8 * i & 255 for i in range(4)]


def half_to_single(code: int) -> int:
    return add(F16, code, F16.sign, out=F32)


def single_to_half(code: int) -> int:
    if F32.is_nan(code):
        return F16.nan
    if F32.is_infinite(code):
        return F16.infinity | (F16.sign if F32.is_negative(code) else 0)
    return F16.round(F32.value(code), negative_zero=F32.is_negative(code))


def two_bytes(a: int, b: int, c: int) -> int:
    """F2IP.S8: two FP32 numbers as bytes below the low half of c."""
    low, high = (to_integer(F32, code, 8, True, "ROUND", True) & 255 for code in (b, a))
    return (c << 16 | high << 8 | low) & M32


ARITHMETIC = (
    case("{u}IADD3 {d}, {a}, -{b}, {c}", lambda a, b, c, s: a - b + c & M32),
    case("{u}IADD3 {d}, {p}, {t}, {a}, {b}, {z}", lambda a, b, c, s: (a + b & M32, a + b >> 32), results="dp"),
    case("{u}IADD3.X {d}, {t}, {t}, {a}, {b}, {z}, {s}, !{t}", lambda a, b, c, s: a + b + (s & 1) & M32),
    case("{u}IADD {d}, {a}, -{b}", lambda a, b, c, s: a - b & M32),
    case("{u}VIADD {d}, {a}, {b}", lambda a, b, c, s: a + b & M32),
    case("{u}IMAD {d}, {a}, {b}, {c}", lambda a, b, c, s: a * b + c & M32),
    case("{u}IMAD.WIDE {d}, {a}, {b}, {c}", lambda a, b, c, s: signed(a) * signed(b) + c & M64, "iiw", "D"),
    case("{u}IMAD.HI.U32 {d}, {a}, {b}, {c}", lambda a, b, c, s: (a * b + c >> 32) & M32, "iiw"),
    case("{u}LEA {d}, {a}, {b}, 0x5", lambda a, b, c, s: (a << 5) + b & M32),
    case("{u}LEA.HI {d}, {a}, {b}, {c}, 0x5", lambda a, b, c, s: ((c << 32 | a) << 5 >> 32) + b & M32),
    case("{u}LOP3.LUT {p}, {d}, {a}, {b}, {c}, 0xca, !{t}",
         lambda a, b, c, s: (lop3(0xCA, a, b, c), int(lop3(0xCA, a, b, c) != 0)), results="dp"),
    case("{u}SHF.R.W.U32 {d}, {a}, {b}, {c}", lambda a, b, c, s: funnel(True, False, False, 32, True, a, b, c)),
    case("{u}SHF.L.U64.HI {d}, {a}, {b}, {c}", lambda a, b, c, s: funnel(False, True, False, 64, False, a, b, c)),
    case("{u}SHF.R.S32.HI {d}, {z}, {b}, {c}", lambda a, b, c, s: funnel(True, True, True, 32, False, 0, b, c)),
    case("{u}ISETP.LT.AND {p}, {q}, {a}, {b}, {s}", lambda a, b, c, s: (
        int(signed(a) < signed(b) and s & 1), int(signed(a) >= signed(b) and s & 1)), results="pq"),
    case("{u}ISETP.GE.U32.XOR {p}, {t}, {a}, {b}, {s}", lambda a, b, c, s: int(a >= b) ^ s & 1, results="p"),
    case("{u}SEL {d}, {a}, {b}, {s}", lambda a, b, c, s: a if s & 1 else b),
    case("{u}IMNMX {d}, {a}, {b}, {s}", lambda a, b, c, s: chosen(s, a, b)),
    case("{u}VIMNMX.U32 {d}, {a}, {b}, {s}", lambda a, b, c, s: chosen(s, a, b, key=int)),
    case("{u}VIMNMX3 {d}, {a}, {b}, {c}, {s}", lambda a, b, c, s: chosen(s, a, b, c)),
    case("{u}VIADDMNMX {d}, {a}, {b}, {c}, {s}", lambda a, b, c, s: chosen(s, a + b & M32, c)),
    case("{u}MOV {d}, {a}", lambda a, b, c, s: a),
    case("{u}MOV.64 {d}, {a}", lambda a, b, c, s: a, "wii", "D"),
    case("{u}PRMT {d}, {a}, {b}, {c}", lambda a, b, c, s: prmt("", a, b, c)),
    case("{u}PLOP3.LUT {p}, {q}, {s}, {s2}, {s3}, 0x96, 0x2b",
         lambda a, b, c, s: (truth(0x96, s), truth(0x2B, s)), results="pq"),
    case("{u}POPC {d}, {a}", lambda a, b, c, s: a.bit_count()),
    case("{u}FLO.U32 {d}, {a}", lambda a, b, c, s: a.bit_length() - 1 & M32),
    case("{u}FLO.SH {d}, {a}", lambda a, b, c, s: 32 - x.bit_length() if (x := ~a & M32 if a >> 31 else a) else M32),
    case("{u}BREV {d}, {a}", lambda a, b, c, s: int(f"{a:032b}"[::-1], 2)),
    case("{u}IABS {d}, {a}", lambda a, b, c, s: abs(signed(a)) & M32),
    case("{u}BMSK {d}, {a}, {b}", lambda a, b, c, s: (1 << min(b, 32)) - 1 << min(a, 32) & M32),
    case("{u}SGXT.U32 {d}, {a}, {b}", lambda a, b, c, s: a & (1 << min(b, 32)) - 1),
    case("{u}IDP.4A.S8.U8 {d}, {a}, {b}, {c}",
         lambda a, b, c, s: sum(x * y for x, y in zip(bytes_of(a, True), bytes_of(b))) + c & M32),
    case("VABSDIFF.U32 {d}, {a}, {b}, {c}", lambda a, b, c, s: abs(a - b) + c & M32),
    case("VABSDIFF4.U8.ACC {d}, {a}, {b}, {c}",
         lambda a, b, c, s: sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b))) + c & M32),
    case("I2I.S8.S32.SAT {d}, {a}", lambda a, b, c, s: saturate(signed(a), 8, True) & M32),
    case("I2IP.U8.S32.SAT {d}, {a}, {b}, {c}", lambda a, b, c, s: (
        c << 16 | saturate(signed(a), 8, False) << 8 | saturate(signed(b), 8, False)) & M32),
    case("{u}FADD {d}, {a}, -{b}", lambda a, b, c, s: add(F32, a, b ^ F32.sign), "ffi"),
    case("{u}FADD.FTZ.RZ {d}, |{a}|, {b}", lambda a, b, c, s: F32.flush(
        add(F32, F32.flush(a & ~F32.sign), F32.flush(b), "RZ")), "ffi"),
    case("{u}FMUL {d}, {a}, {b}", lambda a, b, c, s: multiply(F32, a, b), "ffi"),
    case("{u}FMUL.D2 {d}, {a}, -{b}", lambda a, b, c, s: multiply_scaled(a, b ^ F32.sign, -1), "ffi"),
    case("{u}FMUL.M8.RM {d}, {a}, {b}", lambda a, b, c, s: multiply_scaled(a, b, 3, "RM"), "ffi"),
    case("{u}FMUL.FTZ.D4.SAT {d}, {a}, {b}", lambda a, b, c, s: clamp01(
        F32, F32.flush(multiply_scaled(F32.flush(a), F32.flush(b), -2))), "ffi"),
    case("{u}FFMA {d}, {a}, -{b}, {c}", lambda a, b, c, s: fused(F32, a, b ^ F32.sign, c), "fff"),
    case("{u}FADD2 {d}, {a}.F32x2.HI_LO, {b}.F32x2.HI_LO", pairs(lambda a, b, c: add(F32, a, b)), "ggi", "D"),
    case("{u}FMUL2 {d}, {a}.F32x2.HI_LO, {b}.F32x2.HI_LO", pairs(lambda a, b, c: multiply(F32, a, b)), "ggi", "D"),
    case("{u}FFMA2 {d}, {a}.F32x2.HI_LO, {b}.F32x2.HI_LO, {c}.F32x2.HI_LO",
         pairs(lambda a, b, c: fused(F32, a, b, c)), "ggg", "D"),
    case("{u}FMNMX {d}, {a}, {b}, {s}", lambda a, b, c, s: minmax(F32, s & 1, a, b), "ffi"),
    case("{u}FMNMX3 {d}, {a}, {b}, {c}, {s}",
         lambda a, b, c, s: minmax(F32, s & 1, minmax(F32, s & 1, a, b), c), "fff"),
    case("{u}FSEL {d}, {a}, -{b}, {s}", lambda a, b, c, s: a if s & 1 else b ^ F32.sign, "ffi"),
    case("{u}FSETP.LTU.AND {p}, {q}, {a}, {b}, {s}", set_and("LTU", F32), "ffi", "pq"),
    case("{u}FSET.BF.GE.AND {d}, {a}, {b}, {s}",
         lambda a, b, c, s: ONE if compare(F32, "GE", a, b) and s & 1 else 0, "ffi"),
    case("FCHK {p}, {a}, {b}", lambda a, b, c, s: needs_slow_division(a, b), "FFi", "p"),
    case("MUFU.RCP {d}, {a}", lambda a, b, c, s: reciprocal(a), "fii"),
    case("{u}F2I.TRUNC.NTZ {d}, {a}", lambda a, b, c, s: to_integer(F32, a, 32, True, "TRUNC", True) & M32, "fii"),
    case("{u}I2F.U32.RP {d}, {a}", lambda a, b, c, s: F32.round(Fraction(a), "RP")),
    case("{u}I2FP.F32.S32 {d}, {a}", lambda a, b, c, s: F32.round(Fraction(signed(a)))),
    case("{u}F2F.F16.F32 {d}, {a}", lambda a, b, c, s: single_to_half(a), "fii"),
    case("{u}FRND.FLOOR {d}, {a}", lambda a, b, c, s: rounded(a, "FLOOR"), "fii"),
    case("{u}F2FP.F16.F32.PACK_AB {d}, {a}, {b}", lambda a, b, c, s: single_to_half(a) << 16 | single_to_half(b), "ffi"),
    case("{u}F2IP.S8.F32.NTZ {d}, {a}, {b}, {c}", lambda a, b, c, s: two_bytes(a, b, c), "ffi"),
    case("{u}HADD2 {d}, {a}, {b}", halves(lambda a, b, c, s: add(F16, a, b)), "hhi"),
    case("{u}HMUL2 {d}, {a}, {b}", halves(lambda a, b, c, s: multiply(F16, a, b)), "hhi"),
    case("{u}HFMA2 {d}, {a}, {b}, {c}", halves(lambda a, b, c, s: fused(F16, a, b, c)), "hhh"),
    case("{u}FHADD {d}, {a}, {c}", lambda a, b, c, s: add(F32, half_to_single(a & 0xFFFF), c), "hif"),
    case("{u}FHFMA {d}, {a}, {b}, {c}", lambda a, b, c, s: fused(
        F32, half_to_single(a & 0xFFFF), half_to_single(b & 0xFFFF), c), "hhf"),
    case("HSETP2.LT.AND {p}, {q}, {a}, {b}, {s}", lambda a, b, c, s: tuple(
        int(compare(F16, "LT", a >> i & 0xFFFF, b >> i & 0xFFFF) and s & 1) for i in (0, 16)), "hhi", "pq"),
    case("HSET2.BF.NE.AND {d}, {a}, {b}, {s}",
         halves(lambda a, b, c, s: 0x3C00 if compare(F16, "NE", a, b) and s & 1 else 0), "hhi"),
    case("HMNMX2 {d}, {a}, {b}, {s}", halves(lambda a, b, c, s: minmax(F16, s & 1, a, b)), "hhi"),
    case("VHMNMX {d}, {a}, {b}, {c}, {s}",
         halves(lambda a, b, c, s: minmax(F16, s & 1, minmax(F16, s & 1, a, b), c)), "hhh"),
    case("DADD {d}, {a}, -{b}", lambda a, b, c, s: add(F64, a, b ^ F64.sign), "ddi", "N"),
    case("DMUL {d}, {a}, {b}", lambda a, b, c, s: multiply(F64, a, b), "ddi", "N"),
    case("DFMA.RM {d}, {a}, {b}, {c}", lambda a, b, c, s: fused(F64, a, b, c, "RM"), "ddd", "N"),
    case("DSETP.GEU.AND {p}, {q}, {a}, {b}, {s}", set_and("GEU", F64), "ddi", "pq"),
    case("DMNMX {d}, {a}, {b}, {s}", lambda a, b, c, s: minmax(F64, s & 1, a, b), "ddi", "D"),
)  # fmt: skip
