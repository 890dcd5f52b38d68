"""Adders, multiply-add and LEA against Python's integers, carries included."""

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import INTEGER_EDGES, M32, M64, lane, mask_of, signed

LANES = lanes(INTEGER_EDGES, M32)
MASK = st.one_of(st.sampled_from([0, M32, 1, 0x80000000]), st.integers(0, M32))
few = settings(max_examples=25, deadline=None)


@given(LANES, LANES, LANES)
@few
def test_three_words_add_with_any_signs(a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    assert execute("IADD3 R0, R1, -R2, R3", state).word == [(x - y + z) & M32 for x, y, z in zip(a, b, c)]
    assert execute("IADD3 R0, -R1, R2, RZ", state).word == [(y - x) & M32 for x, y in zip(a, b)]
    assert execute("IADD3 R0, PT, PT, R1, 0xfffffffe, -R3", state).word == [(x - 2 - z) & M32 for x, z in zip(a, c)]
    assert execute("VIADD R0, R1, -R2", state).word == [(x - y) & M32 for x, y in zip(a, b)]
    assert execute("IADD R0, -R1, 0x40800000", state).word == [(0x40800000 - x) & M32 for x in a]


@given(LANES, LANES, LANES, LANES, LANES, LANES)
@few
def test_a_carry_chain_adds_three_64_bit_numbers(a0, a1, b0, b1, c0, c1):
    state = {"R2": a0, "R3": a1, "R4": b0, "R5": b1, "R6": c0, "R7": c1}
    low = execute("IADD3 R8, P0, P1, R2, R4, R6", state)
    high = execute("IADD3.X R9, R3, R5, R7, P0, P1", state | low.predicates)
    wide = [(h << 32 | lo) for lo, h in zip(low.word, high.word)]
    expected = [
        ((x1 << 32 | x0) + (y1 << 32 | y0) + (z1 << 32 | z0)) & M64
        for x0, x1, y0, y1, z0, z1 in zip(a0, a1, b0, b1, c0, c1)
    ]
    assert wide == expected


@given(LANES, LANES, LANES, LANES)
@few
def test_a_borrow_chain_subtracts_64_bit_numbers(a0, a1, b0, b1):
    state = {"R2": a0, "R3": a1, "R4": b0, "R5": b1}
    low = execute("IADD3 R8, P0, R2, -R4, RZ", state)
    expected = [((x1 << 32 | x0) - (y1 << 32 | y0)) & M64 for x0, x1, y0, y1 in zip(a0, a1, b0, b1)]
    for text in ("IADD3.X R9, R3, ~R5, RZ, P0, !PT", "IMAD.X R9, R3, 0x1, ~R5, P0"):
        high = execute(text, state | low.predicates)
        assert [(h << 32 | lo) for lo, h in zip(low.word, high.word)] == expected
    low = execute("IADD R8, P0, R2, -R4", state)
    high = execute("IADD.X R9, R3, ~R5, P0", state | low.predicates)
    assert [(h << 32 | lo) for lo, h in zip(low.word, high.word)] == expected


@given(LANES, LANES, MASK)
@few
def test_the_carry_of_an_extended_add_leaves_it(a, b, carry):
    result = execute("IADD3.X R0, P1, R2, R3, RZ, P0, !PT", {"R2": a, "R3": b, "P0": carry})
    totals = [x + y + lane(carry, i) for i, (x, y) in enumerate(zip(a, b))]
    assert result.word == [t & M32 for t in totals]
    assert result.predicates["P1"] == mask_of(t >> 32 for t in totals)


@given(LANES, LANES, LANES, LANES)
@few
def test_64_bit_adds_of_sm_120(a0, a1, b0, b1):
    state = {"R2": a0, "R3": a1, "R4": b0, "R5": b1}
    pairs = [((x1 << 32 | x0), (y1 << 32 | y0)) for x0, x1, y0, y1 in zip(a0, a1, b0, b1)]
    assert execute("IADD.64 R6, R2, R4", state).pair == [(x + y) & M64 for x, y in pairs]
    assert execute("IADD.64 R6, -R2, R4", state).pair == [(y - x) & M64 for x, y in pairs]
    assert execute("IADD.64 R6, R2, -0x40", state).pair == [(x - 0x40) & M64 for x, _ in pairs]
    assert execute("IADD.64 R6, -R2, 0x40", state).pair == [(0x40 - x) & M64 for x, _ in pairs]
    uniform = {"UR4": a0, "UR5": a1, "UR6": b0, "UR7": b1}
    text = "UIADD3.64 UR8, UPT, UPT, -UR4, UR6, URZ"
    assert execute(text, uniform).pair == [(y - x) & M64 for x, y in pairs]


@given(LANES, LANES, LANES, LANES)
@few
def test_multiply_add_low_wide_and_high(a, b, c, d):
    state = {"R2": a, "R3": b, "R4": c, "R5": d}
    rows = list(zip(a, b, [x | y << 32 for x, y in zip(c, d)]))
    assert execute("IMAD R0, R2, R3, R4", state).word == [(x * y + z) & M32 for x, y, z in rows]
    assert execute("IMAD R0, R2, R3, -R4", state).word == [(x * y - z) & M32 for x, y, z in rows]
    assert execute("IMAD.SHL.U32 R0, R2, 0x100, RZ", state).word == [x << 8 & M32 for x in a]
    assert execute("IMAD.IADD R0, R2, 0x1, -R3", state).word == [(x - y) & M32 for x, y in zip(a, b)]
    assert execute("IMAD.MOV R0, RZ, RZ, -R3", state).word == [-y & M32 for y in b]
    unsigned = [x * y + z for x, y, z in rows]
    plus = [signed(x) * signed(y) + z for x, y, z in rows]
    assert execute("IMAD.WIDE.U32 R8, R2, R3, R4", state).pair == [v & M64 for v in unsigned]
    assert execute("IMAD.WIDE R8, R2, R3, R4", state).pair == [v & M64 for v in plus]
    assert execute("IMAD.WIDE R8, R2, -0x7, RZ", state).pair == [signed(x) * -7 & M64 for x in a]
    assert execute("IMAD.HI.U32 R8, R2, R3, R4", state).word == [v >> 32 & M32 for v in unsigned]
    assert execute("IMAD.HI R8, R2, R3, R4", state).word == [v >> 32 & M32 for v in plus]
    assert execute("IMAD.HI.U32 R8, R2, R3, RZ", state).word == [x * y >> 32 for x, y, _ in rows]


@given(LANES, LANES, LANES, LANES, MASK)
@few
def test_multiply_add_carries_in_and_out(a, b, c, d, carry):
    state = {"R2": a, "R3": b, "R4": c, "R5": d, "P0": carry}
    rows = [(x, y, z | w << 32, lane(carry, i)) for i, (x, y, z, w) in enumerate(zip(a, b, c, d))]
    out = execute("IMAD.WIDE.U32 R8, P1, R2, R3, R4", state)
    totals = [x * y + z for x, y, z, _ in rows]
    assert out.pair == [t & M64 for t in totals]
    assert out.predicates["P1"] == mask_of(t >> 64 for t in totals)
    out = execute("IMAD.HI.U32 R8, P1, R2, R3, R4", state)
    assert out.word == [t >> 32 & M32 for t in totals]
    assert out.predicates["P1"] == mask_of(t >> 64 for t in totals)
    out = execute("IMAD.WIDE.U32.X R8, P1, R2, R3, R4, P0", state)
    totals = [x * y + z + p for x, y, z, p in rows]
    assert out.pair == [t & M64 for t in totals]
    assert out.predicates["P1"] == mask_of(t >> 64 for t in totals)
    assert execute("IMAD.X R8, R2, R3, ~R4, P0", state).word == [(x * y + (~z & M32) + p) & M32 for x, y, z, p in rows]


@given(LANES, LANES, st.integers(0, 31))
@few
def test_lea_shifts_and_adds_with_carry(a, b, s):
    state = {"R2": a, "R3": b}
    out = execute(f"LEA R0, P0, R2, R3, {s:#x}", state)
    totals = [(x << s & M32) + y for x, y in zip(a, b)]
    assert out.word == [t & M32 for t in totals]
    assert out.predicates["P0"] == mask_of(t >> 32 for t in totals)
    assert execute(f"LEA R0, -R2, R3, {s:#x}", state).word == [(y - (x << s)) & M32 for x, y in zip(a, b)]
    assert execute(f"LEA R0, R2, -R3, {s:#x}", state).word == [((x << s) - y) & M32 for x, y in zip(a, b)]


@given(LANES, LANES, LANES, LANES, st.integers(0, 31))
@few
def test_lea_pairs_compute_64_bit_addresses(a0, a1, b0, b1, s):
    state = {"R2": a0, "R3": a1, "UR4": b0, "UR5": b1}
    low = execute(f"LEA R6, P0, R2, UR4, {s:#x}", state)
    high = execute(f"LEA.HI.X R7, R2, UR5, R3, {s:#x}, P0", state | low.predicates)
    expected = [(((x1 << 32 | x0) << s) + (y1 << 32 | y0)) & M64 for x0, x1, y0, y1 in zip(a0, a1, b0, b1)]
    assert [h << 32 | lo for lo, h in zip(low.word, high.word)] == expected
    high = execute(f"LEA.HI.X.SX32 R7, R2, UR5, {s:#x}, P0", state | low.predicates)
    expected = [((signed(x0) << s) + (y1 << 32 | y0)) & M64 for x0, y0, y1 in zip(a0, b0, b1)]
    assert [h << 32 | lo for lo, h in zip(low.word, high.word)] == expected


@given(LANES, LANES, LANES, st.integers(0, 31))
@few
def test_lea_high_alone(a, b, c, s):
    state = {"R2": a, "R3": b, "R4": c}
    expected = [(((z << 32 | x) << s >> 32 & M32) + y) for x, y, z in zip(a, b, c)]
    out = execute(f"LEA.HI R0, P0, R2, R3, R4, {s:#x}", state)
    assert out.word == [e & M32 for e in expected]
    assert out.predicates["P0"] == mask_of(e >> 32 for e in expected)
    expected = [((signed(x) << s >> 32) + y) & M32 for x, y in zip(a, b)]
    assert execute(f"LEA.HI.SX32 R0, R2, R3, {s:#x}", state).word == expected


@pytest.mark.parametrize(
    "text",
    [
        "IADD3.FOO R0, R1, R2, R3",
        "IMAD.HI R0, -R1, R2, R3",
        "IADD3 R0, R1.H0_H0, R2, R3",
        "LEA.HI R0, -R1, R2, R3, 0x2",
        "IADD3 R0, R1, R2, R3, P0",
    ],
)
def test_what_no_row_understands_is_refused(text):
    assert lower(text) is None
