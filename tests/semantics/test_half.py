"""Packed half and bfloat16 instructions, bit by bit, against exact fractions."""

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import (
    BF16,
    F16,
    F32,
    M32,
    add,
    clamp01,
    compare,
    edges,
    fused,
    lane,
    mask_of,
    minmax,
    minmax_of_magnitudes,
    multiply,
)

MASK = st.one_of(st.sampled_from([0, M32]), st.integers(0, M32))
quick = settings(max_examples=8, deadline=None)
STYLES = [("", F16), (".BF16_V2", BF16)]


def words(f):
    return lanes(edges(f), 0xFFFF, 64).map(lambda halves: [h << 16 | w for h, w in zip(halves[:32], halves[32:])])


def packed(function, *columns):
    """Apply a function of codes to the low and to the high halves of words."""
    rows = zip(*columns)
    return [function(*(w >> 16 for w in row)) << 16 | function(*(w & 0xFFFF for w in row)) for row in rows]


@pytest.mark.parametrize("suffix,f", STYLES)
@given(st.data())
@quick
def test_arithmetic(suffix, f, data):
    a, b, c = (data.draw(words(f)) for _ in range(3))
    state = {"R1": a, "R2": b, "R3": c}
    assert execute(f"HADD2{suffix} R0, R1, R2", state).word == packed(lambda x, y: add(f, x, y), a, b)
    assert execute(f"HMUL2{suffix} R0, R1, R2", state).word == packed(lambda x, y: multiply(f, x, y), a, b)
    exact = packed(lambda x, y, z: fused(f, x, y, z), a, b, c)
    assert execute(f"HFMA2{suffix} R0, R1, R2, R3", state).word == exact
    assert execute(f"HFMA2.MMA{suffix} R0, R1, R2, R3", state).word == exact
    assert execute(f"HFMA2{suffix}.SAT R0, R1, R2, R3", state).word == packed(lambda x: clamp01(f, x), exact)
    relu = packed(lambda x: 0 if x & 0x8000 and not f.is_nan(x) else x, exact)
    assert execute(f"HFMA2{suffix}.RELU R0, R1, R2, R3", state).word == relu


@pytest.mark.parametrize("suffix,f", STYLES)
@pytest.mark.parametrize("place", range(3))
@given(st.data())
@quick
def test_an_element_outside_its_tensor_makes_the_product_zero(suffix, f, place, data):
    """PTX ISA, fma: .oob; the pattern is what tensor maps' copies were measured to fill with."""
    a, b, c = given = [data.draw(words(f)) for _ in range(3)]
    given[place][:16] = [w & 0xFFFF0000 | 0x7FF7 for w in given[place][:16]]
    exact = packed(lambda *x: 0 if 0x7FF7 in (w & 0x7FFF for w in x) else fused(f, *x), a, b, c)
    assert execute(f"HFMA2{suffix}.OOB R0, R1, R2, R3", {"R1": a, "R2": b, "R3": c}).word == exact


@given(words(F16), words(F16), words(F16))
@quick
def test_signs_selectors_and_immediates(a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    low = [x & 0xFFFF for x in a]
    assert execute("HADD2 R0, |R1|.H0_H0, -R2.H1_H1", state).word == [
        add(F16, x & 0x7FFF, (y >> 16) ^ 0x8000) * 0x10001 for x, y in zip(a, b)
    ]
    assert execute("HFMA2 R0, R1.H0_H0, 0x3c003800, R3", state).word == [
        fused(F16, x, 0x3C00, z >> 16) << 16 | fused(F16, x, 0x3800, z & 0xFFFF) for x, z in zip(low, c)
    ]
    assert execute("HADD2 R0, R1.H0_H1, R2", state).word == [
        add(F16, x & 0xFFFF, y >> 16) << 16 | add(F16, x >> 16, y & 0xFFFF) for x, y in zip(a, b)
    ]


@given(words(F16), words(F16))
@quick
def test_widening_to_single_precision(a, b):
    state = {"R1": a, "R2": b}
    one = 0x8000
    assert execute("HADD2.F32 R0, -RZ, R1.H0_H0", state).word == [add(F16, one, x & 0xFFFF, out=F32) for x in a]
    assert execute("HADD2.F32 R0, -RZ, -R1.H1_H1", state).word == [
        add(F16, one, (x >> 16) ^ 0x8000, out=F32) for x in a
    ]
    assert execute("HADD2.F32 R0, R1.H0_H0, R2.H1_H1", state).word == [
        add(F16, x & 0xFFFF, y >> 16, out=F32) for x, y in zip(a, b)
    ]


@given(words(F16), words(F16), words(F16))
@quick
def test_flushing_denormals(a, b, c):
    state = {"R1": a, "R2": b, "R3": c}

    def flushed(x, y, z):
        return F16.flush(fused(F16, F16.flush(x), F16.flush(y), F16.flush(z)))

    assert execute("HFMA2.FTZ R0, R1, R2, R3", state).word == packed(flushed, a, b, c)


@pytest.mark.parametrize("pattern", [0x3F800000, 0xC0490FDB, 0x80000001, 0x00000000, 0x80008000, 0x7BFFFBFF])
def test_the_compiler_moves_constants_through_the_half_pipe(pattern):
    assert execute(f"HFMA2.MMA R0, -RZ, RZ, {pattern:#x}", {}).word == [pattern] * 32
    assert execute(f"HFMA2 R0, RZ, -RZ, {pattern:#x}", {}).word == [pattern] * 32


def test_a_constant_beside_a_positive_zero_product_loses_the_sign_of_its_zeros():
    assert execute("HFMA2 R0, RZ, RZ, 0x80003c00", {}).word == [0x00003C00] * 32


@pytest.mark.parametrize("suffix,f", STYLES)
@pytest.mark.parametrize(
    "name", ["LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"]
)
@given(st.data())
@settings(max_examples=4, deadline=None)
def test_comparisons(suffix, f, name, data):
    a, b, p = data.draw(words(f)), data.draw(words(f)), data.draw(MASK)
    b = [y if i % 3 else x for i, (x, y) in enumerate(zip(a, b))]
    state = {"R1": a, "R2": b, "P2": p}
    low = [compare(f, name, x & 0xFFFF, y & 0xFFFF) for x, y in zip(a, b)]
    high = [compare(f, name, x >> 16, y >> 16) for x, y in zip(a, b)]
    out = execute(f"HSETP2{suffix}.{name}.AND P0, P1, R1, R2, P2", state).predicates
    assert out == {"P0": mask_of(low) & p, "P1": mask_of(high) & p}
    out = execute(f"HSETP2{suffix}.{name}.OR P0, P1, R1, R2, !P2", state).predicates
    assert out == {"P0": mask_of(low) | p ^ M32, "P1": mask_of(high) | p ^ M32}
    out = execute(f"HSETP2{suffix}.{name}.H_AND.AND P0, P1, R1, R2, PT", state).predicates
    both = mask_of(low) & mask_of(high)
    assert out == {"P0": both, "P1": both ^ M32}
    one = 0x3C00 if f is F16 else 0x3F80
    assert execute(f"HSET2.BF{suffix}.{name}.AND R0, R1, R2, PT", state).word == [
        (one << 16 if h else 0) | (one if w else 0) for w, h in zip(low, high)
    ]


@pytest.mark.parametrize("suffix,f", STYLES)
@given(st.data())
@quick
def test_minimum_and_maximum(suffix, f, data):
    a, b, p = data.draw(words(f)), data.draw(words(f)), data.draw(MASK)
    state = {"R1": a, "R2": b, "P0": p}
    for nan in (False, True):
        expected = []
        for i, (x, y) in enumerate(zip(a, b)):
            small = bool(lane(p, i))
            low = minmax(f, small, x & 0xFFFF, y & 0xFFFF, nan)
            expected.append(minmax(f, small, x >> 16, y >> 16, nan) << 16 | low)
        option = ".NAN" if nan else ""
        assert execute(f"HMNMX2{suffix}{option} R0, R1, R2, P0", state).word == expected
        signed = [
            minmax_of_magnitudes(f, bool(lane(p, i)), x >> 16, y >> 16, 1 << 15, nan) << 16
            | minmax_of_magnitudes(f, bool(lane(p, i)), x & 0xFFFF, y & 0xFFFF, 1 << 15, nan)
            for i, (x, y) in enumerate(zip(a, b))
        ]
        assert execute(f"HMNMX2{suffix}{option}.XORSIGN R0, |R1|, |R2|, P0", state).word == signed


def test_what_no_row_understands_is_refused():
    for text in ("HADD2 R0, R1.B0, R2", "HFMA2.F32.SAT R0, R1, R2, R3", "HADD2.RZ R0, R1, R2"):
        assert lower(text) is None


@pytest.mark.parametrize("suffix,f", [("", F16), (".BF16", BF16)])
@pytest.mark.parametrize("mode", ["RN", "RM", "RP", "RZ"])
@given(st.data())
@settings(max_examples=4, deadline=None)
def test_halves_into_single_precision_sums(suffix, f, mode, data):
    a, b = data.draw(words(f)), data.draw(words(f))
    code = st.one_of(st.sampled_from(edges(F32)), st.integers(0, M32))
    c = data.draw(st.lists(code, min_size=32, max_size=32))
    state = {"R1": a, "R2": b, "R3": c}
    suffix += "" if mode == "RN" else "." + mode

    def single(word):
        return add(f, word & 0xFFFF, f.sign, out=F32)

    one = F32.bias << 23
    assert execute(f"FHADD{suffix} R0, R1, -R3", state).word == [
        fused(F32, single(x), one, z ^ F32.sign, mode) for x, z in zip(a, c)
    ]
    assert execute(f"FHFMA{suffix} R0, R1, R2, R3", state).word == [
        fused(F32, single(x), single(y), z, mode) for x, y, z in zip(a, b, c)
    ]


@given(lanes(edges(F32), M32))
@quick
def test_a_single_cut_to_half_by_adding_zero(a):
    expected = [F16.nan if F32.is_nan(x) else narrowed(x) for x in a]
    out = execute("HADD2 R0, R2.F32, -RZ.H0_H0", {"R2": a}).word
    assert [w & 0xFFFF for w in out] == expected
    out = execute("HADD2.SAT R0, R2.F32, -RZ.H0_H0", {"R2": a}).word
    assert [w & 0xFFFF for w in out] == [clamped(x) for x in expected]


def clamped(code):
    """Into 0 to 1: what is no number, and either zero, is +0."""
    if F16.is_nan(code) or F16.is_negative(code):
        return 0
    return min(code, F16.bias << 10)


def narrowed(code):
    if F32.is_infinite(code):
        return F16.infinity | (F16.sign if F32.is_negative(code) else 0)
    return F16.round(F32.value(code), "RZ", F32.is_negative(code))
