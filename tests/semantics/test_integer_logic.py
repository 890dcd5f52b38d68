"""Logic, shifts, permutation, comparison, selection, minimum and maximum against Python's integers."""

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import INTEGER_EDGES, M32, funnel, join, lane, lop3, mask_of, prmt, relation, signed

LANES = lanes(INTEGER_EDGES, M32)
MASK = st.one_of(st.sampled_from([0, M32, 1, 0x80000000]), st.integers(0, M32))
few = settings(max_examples=25, deadline=None)
quick = settings(max_examples=8, deadline=None)


@given(LANES, LANES, LANES, st.integers(0, 255), MASK)
@few
def test_lop3_is_its_truth_table(a, b, c, table, p):
    state = {"R1": a, "R2": b, "R3": c, "P1": p}
    expected = [lop3(table, x, y, z) for x, y, z in zip(a, b, c)]
    out = execute(f"LOP3.LUT P0, R0, R1, R2, R3, {table:#x}, !PT", state)
    assert out.word == expected
    assert out.predicates["P0"] == mask_of(expected)
    out = execute(f"LOP3.LUT P0, RZ, R1, R2, R3, {table:#x}, P1", state)
    assert out.predicates["P0"] == mask_of(expected) | p
    out = execute(f"LOP3.LUT.PAND P0, RZ, R1, R2, R3, {table:#x}, P1", state)
    assert out.predicates["P0"] == mask_of(expected) & p


@given(MASK, MASK, MASK, st.integers(0, 255), st.integers(0, 255))
@few
def test_plop3_is_two_truth_tables(p, q, r, first, second):
    text = f"PLOP3.LUT P3, P4, P0, !P1, P2, {first:#x}, {second:#x}"
    out = execute(text, {"P0": p, "P1": q, "P2": r})
    assert out.predicates["P3"] == lop3(first, p, q ^ M32, r)
    assert out.predicates["P4"] == lop3(second, p, q ^ M32, r)


SHIFTS = [
    f"SHF.{side}{wrap}.{kind}{high}"
    for side in "LR"
    for wrap in ("", ".W")
    for kind in ("U32", "S32", "U64", "S64")
    for high in ("", ".HI")
]


@pytest.mark.parametrize("opcode", SHIFTS)
@given(LANES, LANES, LANES)
@quick
def test_funnel_shifts(opcode, a, b, c):
    parts = opcode.split(".")
    kind = next(p for p in parts if p[1:] in ("32", "64"))

    def expect(x, y, z):
        return funnel(parts[1] == "R", "HI" in parts, kind[0] == "S", int(kind[1:]), "W" in parts, x, y, z)

    state = {"R1": a, "R2": b, "R3": c}
    assert execute(f"{opcode} R0, R1, R2, R3", state).word == [expect(*row) for row in zip(a, b, c)]
    assert execute(f"{opcode} R0, R1, R2, RZ", state).word == [expect(x, y, 0) for x, y in zip(a, b)]
    assert execute(f"{opcode} R0, RZ, R2, R3", state).word == [expect(0, y, z) for y, z in zip(b, c)]
    assert execute(f"{opcode} R0, R1, 0x3f, R3", state).word == [expect(x, 63, z) for x, z in zip(a, c)]


@pytest.mark.parametrize("mode", ["", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16"])
@given(LANES, LANES, LANES)
@quick
def test_byte_permutation(mode, a, b, c):
    opcode = "PRMT." + mode if mode else "PRMT"
    state = {"R1": a, "R2": b, "R3": c}
    expected = [prmt(mode, *row) for row in zip(a, b, c)]
    assert execute(f"{opcode} R0, R1, R2, R3", state).word == expected
    if not mode:
        expected = [prmt("", x, 0x9910, 0) for x in a]
        assert execute("PRMT R0, R1, 0x9910, RZ", state).word == expected


@pytest.mark.parametrize("name", ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"])
@pytest.mark.parametrize("joint", ["AND", "OR", "XOR"])
@given(LANES, LANES, MASK)
@quick
def test_comparisons_join_a_predicate(name, joint, a, b, p):
    b = [y if i % 3 else x for i, (x, y) in enumerate(zip(a, b))]
    state = {"R1": a, "R2": b, "P2": p}
    for kind, read in (("", signed), (".U32", int)):
        out = execute(f"ISETP.{name}{kind}.{joint} P0, P1, R1, R2, P2", state)
        hits = [relation(name, read(x), read(y)) for x, y in zip(a, b)]
        bits = [bool(lane(p, i)) for i in range(32)]
        assert out.predicates["P0"] == mask_of(join(joint, h, q) for h, q in zip(hits, bits))
        assert out.predicates["P1"] == mask_of(join(joint, not h, q) for h, q in zip(hits, bits))


@pytest.mark.parametrize("name", ["LT", "EQ", "LE", "GT", "NE", "GE"])
@pytest.mark.parametrize("kind", ["", ".U32"])
@given(LANES, LANES, LANES, LANES)
@quick
def test_64_bit_comparisons_in_two_steps_or_one(name, kind, a0, a1, b0, b1):
    b1 = [y if i % 2 else x for i, (x, y) in enumerate(zip(a1, b1))]
    b0 = [y if i % 4 else x for i, (x, y) in enumerate(zip(a0, b0))]
    state = {"R2": a0, "R3": a1, "R4": b0, "R5": b1}
    low = execute(f"ISETP.{name}.U32.AND P0, PT, R2, R4, PT", state)
    high = execute(f"ISETP.{name}{kind}.AND.EX P1, PT, R3, R5, PT, P0", state | low.predicates)
    read = int if kind else lambda v: signed(v, 64)
    hits = [relation(name, read(x1 << 32 | x0), read(y1 << 32 | y0)) for x0, x1, y0, y1 in zip(a0, a1, b0, b1)]
    assert high.predicates["P1"] == mask_of(hits)
    wide = ".U64" if kind else ".S64"
    assert execute(f"ISETP.{name}{wide}.AND P1, PT, R2, R4, PT", state).predicates["P1"] == mask_of(hits)


@given(LANES, LANES, LANES, MASK)
@few
def test_selection_and_moves(a, b, c, p):
    state = {"R2": a, "R3": c, "R4": b, "R5": a, "P0": p}
    pick = [bool(lane(p, i)) for i in range(32)]
    assert execute("SEL R0, R2, R4, P0", state).word == [x if k else y for x, y, k in zip(a, b, pick)]
    assert execute("SEL R0, R2, 0x63400000, !P0", state).word == [0x63400000 if k else x for x, k in zip(a, pick)]
    assert execute("SEL.64 R0, R2, R4, P0", state).pair == [
        (z << 32 | x) if k else (x << 32 | y) for x, y, z, k in zip(a, b, c, pick)
    ]
    for written, value in (("0xffffffff", 2**32 - 1), ("-0x4", 2**64 - 4), ("-0x80000000", 2**64 - 2**31)):
        assert execute(f"SEL.64 R0, RZ, {written}, P0", state).pair == [0 if k else value for k in pick]
    assert execute("MOV R0, R2", state).word == a
    assert execute("UMOV UR0, 0x7fda8279", state).word == [0x7FDA8279] * 32
    assert execute("MOV.64 R0, R2", state).pair == [z << 32 | x for x, z in zip(a, c)]


def test_a_partial_byte_mask_of_mov_is_refused():
    assert lower("MOV R0, R1, 0x3") is None
    assert lower("MOV R0, R1, 0xf") is not None


@given(LANES, LANES, LANES, MASK)
@few
def test_minimum_and_maximum(a, b, c, p):
    state = {"R2": a, "R3": b, "R4": b, "R5": c, "R6": c, "P0": p}
    least = [bool(lane(p, i)) for i in range(32)]
    for kind, read in (("", signed), (".U32", int)):
        rows = list(zip(a, b, c, least))

        def choose(small, *values, read=read):
            return (min if small else max)(values, key=read) & M32

        for name in ("IMNMX", "VIMNMX"):
            assert execute(f"{name}{kind} R0, R2, R4, P0", state).word == [choose(k, x, y) for x, y, _, k in rows]
        assert execute(f"VIMNMX{kind} R0, PT, PT, R2, 0x116, !PT", state).word == [choose(False, x, 0x116) for x in a]
        assert execute(f"VIMNMX3{kind} R0, R2, R4, R5, P0", state).word == [choose(k, x, y, z) for x, y, z, k in rows]
        assert execute(f"VIADDMNMX{kind} R0, R2, R4, R5, P0", state).word == [
            choose(k, x + y & M32, z) for x, y, z, k in rows
        ]
        assert execute(f"VIADDMNMX{kind} R0, R2, -R4, R5, P0", state).word == [
            choose(k, x - y & M32, z) for x, y, z, k in rows
        ]
    assert execute("VIMNMX.RELU R0, R2, R4, P0", state).word == [
        max(0, min(signed(x), signed(y)) if k else max(signed(x), signed(y))) for x, y, _, k in rows
    ]
    for kind, read in (("S64", lambda v: signed(v, 64)), ("U64", int)):
        expected = [(min if k else max)(y << 32 | x, z << 32 | y, key=read) for x, y, z, k in rows]
        assert execute(f"IMNMX.{kind} PT, PT, R10, R2, R4, P0, !PT", state).pair == expected


@given(LANES, LANES, LANES, MASK)
@few
def test_minimum_and_maximum_of_halves(a, b, c, p):
    state = {"R2": a, "R3": b, "R4": c, "P0": p}
    for kind, read in (("S16x2", lambda v: signed(v, 16)), ("U16x2", lambda v: v & 0xFFFF)):

        def packed(small, *words, read=read):
            low = (min if small else max)(read(w) for w in words) & 0xFFFF
            high = (min if small else max)(read(w >> 16) for w in words) & 0xFFFF
            return high << 16 | low

        least = [bool(lane(p, i)) for i in range(32)]
        assert execute(f"VIMNMX.{kind} R0, R2, R3, P0", state).word == [packed(k, x, y) for x, y, k in zip(a, b, least)]
        assert execute(f"VIMNMX3.{kind} R0, R2, R3, R4, P0", state).word == [
            packed(k, x, y, z) for x, y, z, k in zip(a, b, c, least)
        ]
