"""Conversions of every size against exact fractions: saturation, NaN rules, one rounding."""

from fractions import Fraction

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    INTEGER_EDGES,
    M32,
    M64,
    TF32,
    edges,
    integral,
    saturate,
    signed,
    to_integer,
)

FORMATS = {"": F32, "F16": F16, "F64": F64, "BF16": BF16}
quick = settings(max_examples=5, deadline=None)


def codes(f):
    return lanes(edges(f), 2 * f.sign - 1)


def state_of(values):
    return {"R2": [v & M32 for v in values], "R3": [v >> 32 for v in values]}


@pytest.mark.by_day(40)
@pytest.mark.parametrize("source", ["", "F16", "F64"])
@pytest.mark.parametrize("target", ["S8", "U8", "S16", "U16", "", "U32", "S64", "U64"])
@pytest.mark.parametrize("mode", ["", "FLOOR", "CEIL", "TRUNC"])
@given(st.data())
@quick
def test_float_to_integer(source, target, mode, data):
    f = FORMATS[source]
    values = data.draw(codes(f))
    bits, is_signed = int((target or "S32")[1:]), not target.startswith("U")
    for zero in (False, True):
        parts = ["F2I", target, source, mode, "NTZ" if zero else ""]
        out = execute(".".join(p for p in parts if p) + " R0, R2", state_of(values))
        expected = [to_integer(f, v, bits, is_signed, mode or "ROUND", zero) for v in values]
        if bits == 64:
            assert out.pair == [e & M64 for e in expected]
        else:
            assert out.word == [e & M32 for e in expected]


@given(codes(F32))
@quick
def test_flushing_before_rounding_up_an_integer(values):
    out = execute("F2I.FTZ.CEIL.NTZ R0, R2", state_of(values))
    assert out.word == [to_integer(F32, F32.flush(v), 32, True, "CEIL", True) & M32 for v in values]
    out = execute("F2I.TRUNC.NTZ R0, -|R2|", state_of(values))
    assert out.word == [to_integer(F32, v | F32.sign, 32, True, "TRUNC", True) & M32 for v in values]


INTEGERS = st.lists(
    st.one_of(
        st.sampled_from(INTEGER_EDGES + [e << 32 for e in INTEGER_EDGES] + [e << 32 | 1 for e in INTEGER_EDGES]),
        st.integers(0, M64),
        st.integers(0, 63).map(lambda s: 1 << s),
        st.integers(24, 62).map(lambda s: (1 << s) + (1 << s - 24) + 1),
        st.integers(24, 62).map(lambda s: (1 << s) + (1 << s - 24)),
    ),
    min_size=32,
    max_size=32,
)


@pytest.mark.by_day(48)
@pytest.mark.parametrize("target", ["", "F16", "F64", "BF16"])
@pytest.mark.parametrize("source", ["S8", "U8", "S16", "U16", "", "U32", "S64", "U64"])
@pytest.mark.parametrize("mode", ["RN", "RM", "RP", "RZ"])
@given(INTEGERS)
@quick
def test_integer_to_float(target, source, mode, values):
    f = FORMATS[target]
    bits, is_signed = int((source or "S32")[1:]), not source.startswith("U")
    parts = ["I2F", target, source, "" if mode == "RN" else mode]
    out = execute(".".join(p for p in parts if p) + " R0, R2", state_of(values))
    mask = (1 << bits) - 1
    expected = [f.round(Fraction(signed(v, bits) if is_signed else v & mask), mode) for v in values]
    assert (out.pair if f is F64 else out.word) == expected


@given(INTEGERS)
@quick
def test_fast_conversion_and_byte_selectors(values):
    state = state_of(values)
    low = [v & M32 for v in values]
    assert execute("I2FP.F32.S32 R0, R2", state).word == [F32.round(Fraction(signed(v))) for v in low]
    assert execute("I2FP.F32.U32.RZ R0, R2", state).word == [F32.round(Fraction(v), "RZ") for v in low]
    for i in range(4):
        assert execute(f"I2F.U8 R0, R2.B{i}", state).word == [F32.round(Fraction(v >> 8 * i & 255)) for v in low]
    assert execute("I2F.S16 R0, R2.H1", state).word == [F32.round(Fraction(signed(v >> 16, 16))) for v in low]
    assert execute("UI2F.U32.RP UR0, UR2", {"UR2": low}).word == [F32.round(Fraction(v), "RP") for v in low]


def expected_float(source, target, code, mode="RN"):
    if source.is_nan(code):
        return None
    if source.is_infinite(code):
        return target.infinity | (target.sign if source.is_negative(code) else 0)
    return target.round(source.value(code), mode, source.is_negative(code))


NAMES = {"F16": F16, "F32": F32, "F64": F64}


@pytest.mark.by_day(16)
@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("mode", ["RN", "RM", "RP", "RZ"])
@given(st.data())
@quick
def test_float_to_float(source, target, mode, data):
    values = data.draw(codes(NAMES[source]))
    parts = ["F2F", target, source, "" if mode == "RN" else mode]
    out = execute(".".join(p for p in parts if p) + " R0, R2", state_of(values))
    f = NAMES[target]
    for got, value in zip(out.pair if f is F64 else out.word, values):
        expected = expected_float(NAMES[source], f, value, mode)
        assert f.is_nan(got) if expected is None else got == expected


@pytest.mark.parametrize("name", ["", "F16", "F64"])
@pytest.mark.parametrize("mode", ["", "FLOOR", "CEIL", "TRUNC"])
@given(st.data())
@quick
def test_rounding_to_integral(name, mode, data):
    f = FORMATS[name]
    values = data.draw(codes(f))
    parts = ["FRND", name, mode]
    out = execute(".".join(p for p in parts if p) + " R0, R2", state_of(values))
    for got, v in zip(out.pair if f is F64 else out.word, values):
        if f.is_nan(v):
            assert f.is_nan(got)
        elif f.is_infinite(v):
            assert got == v
        else:
            assert got == f.round(Fraction(integral(f.value(v), mode or "ROUND")), "RN", f.is_negative(v))


@pytest.mark.parametrize("text,f", [("F16.F32", F16), ("BF16.F32", BF16)])
@pytest.mark.parametrize("mode", ["RN", "RZ"])
@pytest.mark.parametrize("relu", [False, True])
@given(codes(F32), codes(F32))
@quick
def test_packing_two_floats(text, f, mode, relu, a, b):
    suffix = (".RELU" if relu else "") + ("" if mode == "RN" else "." + mode)
    out = execute(f"F2FP{suffix}.{text}.PACK_AB R0, R1, R2", {"R1": a, "R2": b})

    def one(code):
        expected = expected_float(F32, f, code, mode)
        if expected is None:
            return f.nan
        return 0 if relu and expected & f.sign else expected

    assert out.word == [one(x) << 16 | one(y) for x, y in zip(a, b)]
    out = execute(f"F2FP{suffix}.{text}.MERGE_C R0, R2, RZ", {"R2": b})
    assert out.word == [one(y) for y in b]
    out = execute(f"F2FP{suffix}.{text}.MERGE_C R0, R2, R1", {"R1": a, "R2": b})
    assert out.word == [(x & 0xFFFF) << 16 | one(y) for x, y in zip(a, b)]


@pytest.mark.parametrize("text,f", [("E4M3", E4M3), ("E5M2", E5M2)])
@given(codes(F32), codes(F32), lanes((0, M32), M32))
@quick
def test_packing_eight_bit_floats_saturates_to_finite(text, f, a, b, c):
    def one(code):
        if F32.is_nan(code):
            return f.nan
        sign = f.sign if F32.is_negative(code) else 0
        if F32.is_infinite(code):
            return sign | f.top
        rounded = f.round(abs(F32.value(code)))
        return sign | min(rounded, f.top)

    pair = [one(x) << 8 | one(y) for x, y in zip(a, b)]
    state = {"R1": a, "R2": b, "R3": c}
    text = f"F2FP.SATFINITE.{text}.F32.PACK_AB_MERGE_C R0, R1, R2, R3"
    assert execute(text, state).word == [(z << 16 | p) & M32 for z, p in zip(c, pair)]


@given(codes(F32), codes(F32))
@quick
def test_packing_floats_as_small_integers(a, b):
    out = execute("F2IP.S8.F32.NTZ R0, R1, R2, RZ", {"R1": a, "R2": b})
    low = [to_integer(F32, v, 8, True, "ROUND", True) & 255 for v in b]
    high = [to_integer(F32, v, 8, True, "ROUND", True) & 255 for v in a]
    assert out.word == [h << 8 | v for h, v in zip(high, low)]
    assert saturate(300, 8, True) == 127


def test_what_no_row_understands_is_refused():
    for text in ("F2I.S128 R0, R2", "I2F.F32.S32.FOO R0, R2", "F2F.F32.F64.FLOOR R0, R2", "I2F R0, -R2"):
        assert lower(text) is None


@given(codes(F32))
@quick
def test_tf32_keeps_ten_mantissa_bits(values):
    def one(code, mode):
        if F32.is_nan(code):
            return 0x7FFFE000
        if F32.is_infinite(code):
            return code
        return TF32.round(F32.value(code), mode, F32.is_negative(code)) << 13

    assert execute("F2FP.TF32.F32.PACK_B R0, R2", state_of(values)).word == [one(v, "RN") for v in values]
    assert execute("F2FP.TF32.F32.PACK_B.RZ R0, R2", state_of(values)).word == [one(v, "RZ") for v in values]


@pytest.mark.parametrize("text,f", [("E4M3", E4M3), ("E5M2", E5M2)])
@pytest.mark.parametrize("relu", [False, True])
def test_every_eight_bit_float_unpacks_exactly_and_packs_again(text, f, relu):
    option = "RELU." if relu else ""
    every = [(255 - c) << 8 | c for c in range(256)]
    for start in range(0, 256, 32):
        values = every[start : start + 32]

        def half(code):
            if f.is_nan(code):
                return F16.nan
            if relu and code & 0x80:
                return 0
            if f.is_infinite(code):
                return F16.infinity | (code & 0x80) << 8
            return F16.round(f.value(code), "RN", f.is_negative(code))

        expected = [half(v >> 8) << 16 | half(v & 255) for v in values]
        assert execute(f"F2FP.{option}F16.{text}.UNPACK_B R0, R2", {"R2": values}).word == expected
        shifted = {"R2": [v << 16 for v in values]}
        assert execute(f"F2FP.{option}F16.{text}.UNPACK_B R0, R2.H1", shifted).word == expected

        def back(code):
            if F16.is_nan(code):
                return f.nan
            if F16.is_infinite(code):
                return f.top | (f.sign if F16.is_negative(code) else 0)
            return f.round(F16.value(code), "RN", F16.is_negative(code))

        repacked = execute(f"F2FP.SATFINITE.{text}.F16.UNPACK_B_MERGE_C R0, R1, R3", {"R1": expected, "R3": values})
        assert repacked.word == [
            (v << 16 | back(w >> 16) << 8 | back(w & 0xFFFF)) & M32 for v, w in zip(values, expected)
        ]


@pytest.mark.parametrize("limit,suffix", [(254, ".SATFINITE"), (255, "")])
@pytest.mark.parametrize("mode", ["RP", "RZ"])
@given(codes(F32), codes(F32), lanes((0, M32), M32))
@quick
def test_packing_scales_rounds_to_a_power_of_two(limit, suffix, mode, a, b, c):
    def one(code):
        magnitude = code & 0x7FFFFFFF
        if F32.is_nan(code):
            return 255
        if F32.is_infinite(code):
            return limit
        real = F32.value(magnitude)
        below = [n for n in range(255) if Fraction(2) ** (n - 127) <= real]
        at_most = below[-1] if below else 0
        exact = not below or Fraction(2) ** (at_most - 127) == real
        return at_most if exact or mode == "RZ" else min(at_most + 1, limit)

    text = f"F2FP{suffix}.E8.F32.PACK_AB_MERGE_C.{mode} R0, R1, R2, R3"
    pair = [one(x) << 8 | one(y) for x, y in zip(a, b)]
    assert execute(text, {"R1": a, "R2": b, "R3": c}).word == [(z << 16 | p) & M32 for z, p in zip(c, pair)]
    # Two bfloat16 numbers are FP32 ones whose lower bits are zero.
    text = f"F2FP{suffix}.E8.BF16.UNPACK_B_MERGE_C.{mode} R0, R1, R3"
    pair = [one(x & 0xFFFF0000) << 8 | one(x << 16 & M32) for x in a]
    assert execute(text, {"R1": a, "R3": c}).word == [(z << 16 | p) & M32 for z, p in zip(c, pair)]


@pytest.mark.parametrize("text,f,place", [("E2M1", E2M1, 4), ("E2M3", E2M3, 8), ("E3M2", E3M2, 8)])
@pytest.mark.parametrize("relu", [False, True])
@given(codes(F32), codes(F32), codes(F32))
@quick
def test_floats_of_four_and_six_bits_pack_and_unpack(text, f, place, relu, a, b, c):
    """PTX ISA, cvt: always to nearest and to finite; a NaN becomes the largest number, .relu makes negatives +0. A pair
    goes below what was there: of four pairs of 4 bits, or two of 6, the compiler makes a word so."""

    def one(code):
        if F32.is_nan(code):
            return f.top
        if F32.is_negative(code) and relu:
            return 0
        sign = f.sign if F32.is_negative(code) else 0
        magnitude = f.top if F32.is_infinite(code) else f.round(abs(F32.value(code)))
        return sign | min(magnitude, f.top)

    def half(code):
        return 0 if relu and code & f.sign else F16.round(f.value(code), "RN", f.is_negative(code))

    option = ".RELU" if relu else ""
    packed = [(z << 2 * place | one(x) << place | one(y)) & M32 for x, y, z in zip(a, b, c)]
    name = f"F2FP.SATFINITE{option}.{text}.F32.PACK_AB_MERGE_C"
    assert execute(f"{name} R0, R1, R2, R3", {"R1": a, "R2": b, "R3": c}).word == packed
    every = [(i * 2 + 1) % (2 * f.sign) << place | (i * 2) % (2 * f.sign) for i in range(32)]
    expected = [half(v >> place) << 16 | half(v & (1 << place) - 1) for v in every]
    assert execute(f"F2FP{option}.F16.{text}.UNPACK_B R0, R1", {"R1": every}).word == expected
    if not relu:
        again = [(z << 2 * place | v) & M32 for v, z in zip(every, c)]
        name = f"F2FP.SATFINITE.{text}.F16.UNPACK_B_MERGE_C"
        assert execute(f"{name} R0, R1, R3", {"R1": expected, "R3": c}).word == again


def stochastic(f, code, random, bits, relu, finite):
    """PTX ISA, cvt .rs: towards zero, or away from it where the random bits, added to the uppermost bits cut off,
    carry."""
    if F32.is_nan(code):
        return f.nan if f.nan is not None else f.top
    if F32.is_negative(code) and relu:
        return 0
    sign = f.sign if F32.is_negative(code) else 0
    if F32.is_infinite(code):
        return sign | (f.top if finite else f.infinity)
    real = abs(F32.value(code))
    below = f.round(real, "RZ")
    if below >= f.top:
        below = f.top
        step = f.value(f.top) - f.value(f.top - 1)
        if not finite and real + step * Fraction(random, 2**bits) >= f.value(f.top) + step:
            return sign | f.infinity
        return sign | below
    step = f.value(below + 1) - f.value(below)
    return sign | below + (real + step * Fraction(random, 2**bits) >= f.value(below + 1))


@pytest.mark.parametrize("text,f,bits", [("F16", F16, 13), ("BF16", BF16, 16)])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("finite", [False, True])
@given(codes(F32), codes(F32), st.lists(st.integers(0, M32), min_size=32, max_size=32))
@quick
def test_stochastic_rounding_to_halves(text, f, bits, relu, finite, a, b, random):
    option = (".SATFINITE" if finite else "") + (".RELU" if relu else "")
    out = execute(f"F2FP{option}.{text}.F32.PACK_AB.RS R0, R1, R2, R3", {"R1": a, "R2": b, "R3": random})
    mask = (1 << bits) - 1
    assert out.word == [
        stochastic(f, x, r >> 16 & mask, bits, relu, finite) << 16 | stochastic(f, y, r & mask, bits, relu, finite)
        for x, y, r in zip(a, b, random)
    ]


@pytest.mark.parametrize("text,f", [("E4M3", E4M3), ("E5M2", E5M2), ("E2M1", E2M1), ("E2M3", E2M3), ("E3M2", E3M2)])
@pytest.mark.parametrize("relu", [False, True])
@given(codes(F32), codes(F32), codes(F32), codes(F32), st.lists(st.integers(0, M32), min_size=32, max_size=32))
@quick
def test_stochastic_rounding_of_four_numbers_is_two_instructions(text, f, relu, a, b, c, d, random):
    width = 4 if f is E2M1 else 8
    name = f"F2FP.SATFINITE{'.RELU' if relu else ''}.{text}.F32.PACK_AB_MERGE_C.RS"
    first = execute(f"{name} R0, R1, R2, R3", {"R1": a, "R2": b, "R3": random}).word
    out = execute(f"{name} R0, R1, R2, R3", {"R1": c, "R2": d, "R3": first}).word
    # bytes of the random word: of a, b, c and d
    order = (3, 1, 2, 0) if f is E2M1 else (3, 2, 1, 0)
    expected = [
        sum(
            stochastic(f, x, r >> 8 * byte & 255, 8, relu, True) << (3 - i) * width
            for i, (x, byte) in enumerate(zip(numbers, order))
        )
        for *numbers, r in zip(a, b, c, d, random)
    ]
    assert [word & (1 << 4 * width) - 1 for word in out] == expected


def test_every_scale_unpacks_to_its_power_of_two():
    def bfloat(code):
        return BF16.nan if code == 255 else BF16.round(Fraction(2) ** (code - 127), "RN", False)

    every = [(255 - c) << 8 | c for c in range(256)]
    for start in range(0, 256, 32):
        values = every[start : start + 32]
        expected = [bfloat(v >> 8) << 16 | bfloat(v & 255) for v in values]
        assert execute("F2FP.BF16.E8.UNPACK_B R0, R2", {"R2": values}).word == expected
