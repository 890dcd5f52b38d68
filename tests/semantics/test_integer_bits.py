"""Bit counts, bit fields, dot products, narrowing and packing against Python's integers."""

import pytest
from arith_harness import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import INTEGER_EDGES, M32, mask_of, saturate, signed

LANES = lanes(INTEGER_EDGES, M32)
few = settings(max_examples=20, deadline=None)


@given(LANES)
@few
def test_counting_and_reversing(a):
    state = {"R1": a, "UR1": a}
    assert execute("POPC R0, R1", state).word == [x.bit_count() for x in a]
    assert execute("POPC R0, ~R1", state).word == [32 - x.bit_count() for x in a]
    assert execute("UPOPC UR0, UR1", state).word == [x.bit_count() for x in a]
    assert execute("BREV R0, R1", state).word == [int(f"{x:032b}"[::-1], 2) for x in a]
    assert execute("IABS R0, R1", state).word == [abs(signed(x)) & M32 for x in a]
    assert execute("FLO.U32 R0, R1", state).word == [(x.bit_length() - 1) & M32 for x in a]
    expected = [32 - x.bit_length() if x else M32 for x in a]
    out = execute("FLO.U32.SH R0, P0, R1", state)
    assert out.word == expected
    assert out.predicates["P0"] == mask_of(a)
    magnitude = [(~x & M32) if x >> 31 else x for x in a]
    assert execute("FLO R0, R1", state).word == [(x.bit_length() - 1) & M32 for x in magnitude]


@given(LANES, LANES)
@few
def test_bit_fields(a, b):
    state = {"R1": a, "R2": b}
    clamp, wrap = [min(y, 32) for y in b], [y & 31 for y in b]
    start, wrapped = [min(x, 32) for x in a], [x & 31 for x in a]
    assert execute("BMSK R0, R1, R2", state).word == [(1 << w) - 1 << s & M32 for s, w in zip(start, clamp)]
    assert execute("BMSK.W R0, R1, R2", state).word == [(1 << w) - 1 << s & M32 for s, w in zip(wrapped, wrap)]
    assert execute("SGXT.U32 R0, R1, R2", state).word == [x & (1 << w) - 1 for x, w in zip(a, clamp)]
    expected = [signed(x, w) & M32 if w else 0 for x, w in zip(a, clamp)]
    assert execute("SGXT R0, R1, R2", state).word == expected
    expected = [signed(x, w) & M32 if w else 0 for x, w in zip(a, wrap)]
    assert execute("SGXT.W R0, R1, R2", state).word == expected


def _field(word, index, bits, is_signed):
    value = word >> index * bits & (1 << bits) - 1
    return signed(value, bits) if is_signed else value


@pytest.mark.parametrize("left", ["S8", "U8"])
@pytest.mark.parametrize("right", ["S8", "U8"])
@given(LANES, LANES, LANES)
@settings(max_examples=8, deadline=None)
def test_dot_products(left, right, a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    one, two = left[0] == "S", right[0] == "S"
    four = [z + sum(_field(x, i, 8, one) * _field(y, i, 8, two) for i in range(4)) & M32 for x, y, z in zip(a, b, c)]
    assert execute(f"IDP.4A.{left}.{right} R0, R1, R2, R3", state).word == four
    wide = left.replace("8", "16")
    for part, first in (("LO", 0), ("HI", 2)):
        pair = [
            z + sum(_field(x, i, 16, one) * _field(y, first + i, 8, two) for i in range(2)) & M32
            for x, y, z in zip(a, b, c)
        ]
        assert execute(f"IDP.2A.{part}.{wide}.{right} R0, R1, R2, R3", state).word == pair


@given(LANES, LANES, LANES)
@few
def test_absolute_differences(a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    rows = list(zip(a, b, c))
    assert execute("VABSDIFF R0, R1, R2, R3", state).word == [abs(signed(x) - signed(y)) + z & M32 for x, y, z in rows]
    assert execute("VABSDIFF.U32 R0, R1, R2, R3", state).word == [abs(x - y) + z & M32 for x, y, z in rows]
    gaps = [[abs(_field(x, i, 8, False) - _field(y, i, 8, False)) for i in range(4)] for x, y, _ in rows]
    assert execute("VABSDIFF4.U8 R0, R1, R2, RZ", state).word == [
        sum(g << 8 * i for i, g in enumerate(gap)) for gap in gaps
    ]
    assert execute("VABSDIFF4.U8.ACC R0, R1, R2, R3", state).word == [sum(gap) + z & M32 for gap, z in zip(gaps, c)]
    gaps = [[abs(_field(x, i, 8, True) - _field(y, i, 8, True)) for i in range(4)] for x, y, _ in rows]
    packed = [sum(g << 8 * i for i, g in enumerate(gap)) for gap in gaps]
    assert execute("VABSDIFF4 R0, R1, R2, RZ", state).word == packed, (
        "bytes without a suffix are signed (PTX vabsdiff4.s32)"
    )
    assert execute("VABSDIFF4.ACC R0, R1, R2, R3", state).word == [sum(gap) + z & M32 for gap, z in zip(gaps, c)]


@pytest.mark.parametrize("target", ["S8", "U8", "S16", "U16"])
@given(LANES, LANES, LANES)
@settings(max_examples=8, deadline=None)
def test_narrowing_and_packing(target, a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    bits, is_signed = int(target[1:]), target[0] == "S"
    cut = [(signed(x, bits) if is_signed else x & (1 << bits) - 1) & M32 for x in a]
    assert execute(f"I2I.{target}.S32 R0, R1", state).word == cut
    assert execute(f"I2I.{target}.S32.SAT R0, R1", state).word == [
        saturate(signed(x), bits, is_signed) & M32 for x in a
    ]
    low = (1 << bits) - 1

    def cell(word):
        return saturate(signed(word), bits, is_signed) & low

    packed = [(z << 2 * bits | cell(x) << bits | cell(y)) & M32 for x, y, z in zip(a, b, c)]
    assert execute(f"I2IP.{target}.S32.SAT R0, R1, R2, R3", state).word == packed


@given(LANES, LANES, LANES, st.integers(0, 255), st.integers(0, 255))
@few
def test_logic_on_signs(a, b, c, first, second):
    out = execute(f"PLOP3.LUT P0, P1, R1.SIGN, R2.SIGN, R3.SIGN, {first:#x}, {second:#x}", {"R1": a, "R2": b, "R3": c})
    index = [(x >> 31) * 4 + (y >> 31) * 2 + (z >> 31) for x, y, z in zip(a, b, c)]
    assert out.predicates == {
        "P0": mask_of(first >> i & 1 for i in index),
        "P1": mask_of(second >> i & 1 for i in index),
    }


@given(LANES, LANES)
@few
def test_saturating_and_packed_adds(a, b):
    state = {"R1": a, "R2": b}
    assert execute("VIADD.S32.ISAT R0, R1, -R2", state).word == [
        saturate(signed(x) - signed(y), 32, True) & M32 for x, y in zip(a, b)
    ]
    assert execute("VIADD.U8x4 R0, R1, -R2", state).word == [
        sum((_field(x, i, 8, False) - _field(y, i, 8, False) & 255) << 8 * i for i in range(4)) for x, y in zip(a, b)
    ]
    assert execute("VIADD.U16x2 R0, R1, R2", state).word == [
        sum((_field(x, i, 16, False) + _field(y, i, 16, False) & 0xFFFF) << 16 * i for i in range(2))
        for x, y in zip(a, b)
    ]
    for kind in ("U8x4", "S8x4"):
        assert execute(f"VIMNMX.{kind} R0, R1, R2, PT", state).word == [
            sum(
                (min(_field(x, i, 8, kind[0] == "S"), _field(y, i, 8, kind[0] == "S")) & 255) << 8 * i for i in range(4)
            )
            for x, y in zip(a, b)
        ]
