"""FP32 arithmetic, comparison, minimum and maximum, bit by bit, against exact fractions."""

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import (
    F32,
    M32,
    add,
    clamp01,
    compare,
    edges,
    fused,
    join,
    lane,
    mask_of,
    minmax,
    minmax_of_magnitudes,
    multiply,
)

LANES = lanes(edges(F32), M32)
NEAR = lanes((0,), 0x1FFFFF).map(lambda offsets: [0x3F700000 + offset for offset in offsets])
MASK = st.one_of(st.sampled_from([0, M32]), st.integers(0, M32))
few = settings(max_examples=20, deadline=None)
quick = settings(max_examples=6, deadline=None)
MODES = ["RN", "RM", "RP", "RZ"]
OPTIONS = ["", ".FTZ", ".SAT", ".FTZ.SAT"]


def optioned(function, options, *codes):
    """Apply .FTZ and .SAT around an exact operation."""
    if ".FTZ" in options:
        codes = [F32.flush(c) for c in codes]
    result = function(*codes)
    if ".FTZ" in options:
        result = F32.flush(result)
    return clamp01(F32, result) if ".SAT" in options else result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", OPTIONS)
@given(LANES, LANES, LANES, NEAR)
@quick
def test_add_multiply_and_fused_round_once(mode, options, a, b, c, near):
    suffix = options + ("" if mode == "RN" else "." + mode)
    for x, y, z in ((a, b, c), (near, near[::-1], c), (near, near[::-1], [v ^ 0x80000000 for v in near])):
        state = {"R1": x, "R2": y, "R3": z}
        assert execute(f"FADD{suffix} R0, R1, R2", state).word == [
            optioned(lambda p, q: add(F32, p, q, mode), options, *row) for row in zip(x, y)
        ]
        assert execute(f"FMUL{suffix} R0, R1, R2", state).word == [
            optioned(lambda p, q: multiply(F32, p, q, mode), options, *row) for row in zip(x, y)
        ]
        assert execute(f"FFMA{suffix} R0, R1, R2, R3", state).word == [
            optioned(lambda p, q, r: fused(F32, p, q, r, mode), options, *row) for row in zip(x, y, z)
        ]


@given(LANES, LANES, LANES)
@few
def test_signs_and_absolute_values_belong_to_the_operands(a, b, c):
    state = {"R1": a, "R2": b, "R3": c}
    sign, rest = 0x80000000, 0x7FFFFFFF
    assert execute("FADD R0, -|R1|, R2", state).word == [add(F32, x & rest | sign, y) for x, y in zip(a, b)]
    assert execute("FFMA R0, -R1, |R2|, -R3", state).word == [
        fused(F32, x ^ sign, y & rest, z ^ sign) for x, y, z in zip(a, b, c)
    ]
    assert execute("FADD R0, |R1|, -RZ", state).word == [add(F32, x & rest, sign) for x in a]
    assert execute("FMUL R0, R1, 0x4b800000", state).word == [multiply(F32, x, 0x4B800000) for x in a]


@given(LANES, LANES, LANES, LANES, LANES, LANES)
@quick
def test_pairs_are_two_lanes_of_their_own(a, b, c, d, e, f):
    state = {"R2": a, "R3": b, "R4": c, "R5": d, "R6": e, "R7": f}
    out = execute("FFMA2 R0, R2, R4, R6", state).words.tolist()
    assert out[0] == [fused(F32, x, y, z) for x, y, z in zip(a, c, e)]
    assert out[1] == [fused(F32, x, y, z) for x, y, z in zip(b, d, f)]
    out = execute("FADD2 R0, R2, R4", state).words.tolist()
    assert out[1] == [add(F32, x, y) for x, y in zip(b, d)]
    sign = 0x80000000
    out = execute("FFMA2 R0, -R2.F32, R4.F32x2.LO_HI, -R6.F32x2.HI_LO.NP", state).words.tolist()
    assert out[0] == [fused(F32, x ^ sign, y, z ^ sign) for x, y, z in zip(a, d, e)]
    assert out[1] == [fused(F32, x ^ sign, y, z) for x, y, z in zip(a, c, f)]
    out = execute("FMUL2 R0, R2.F32x2.HI_LO.NP, 0x40000000", state).words.tolist()
    assert out[1] == [multiply(F32, y ^ sign, 0x40000000) for y in b]


COMPARISONS = ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"]


@pytest.mark.parametrize("name", COMPARISONS)
@given(LANES, LANES, MASK, st.sampled_from(["AND", "OR", "XOR"]), st.sampled_from(["", ".FTZ"]))
@quick
def test_comparisons(name, a, b, p, joint, flush):
    b = [y if i % 3 else x for i, (x, y) in enumerate(zip(a, b))]
    state = {"R1": a, "R2": b, "P2": p}
    pairs = [(F32.flush(x), F32.flush(y)) if flush else (x, y) for x, y in zip(a, b)]
    hits = [compare(F32, name, x, y) for x, y in pairs]
    bits = [bool(lane(p, i)) for i in range(32)]
    out = execute(f"FSETP.{name}{flush}.{joint} P0, P1, R1, R2, P2", state)
    joined = [join(joint, h, q) for h, q in zip(hits, bits)]
    assert out.predicates["P0"] == mask_of(joined)
    assert out.predicates["P1"] == mask_of(join(joint, not h, q) for h, q in zip(hits, bits))
    assert execute(f"FSET.BF.{name}{flush}.{joint} R0, R1, R2, P2", state).word == [
        0x3F800000 if h else 0 for h in joined
    ]
    assert execute(f"FSET.{name}{flush}.{joint} R0, R1, R2, P2", state).word == [M32 if h else 0 for h in joined]


@given(LANES, LANES, LANES, MASK)
@few
def test_minimum_and_maximum(a, b, c, p):
    state = {"R1": a, "R2": b, "R3": c, "P0": p}
    least = [bool(lane(p, i)) for i in range(32)]
    rows = list(zip(a, b, c, least))
    assert execute("FMNMX R0, R1, R2, P0", state).word == [minmax(F32, k, x, y) for x, y, _, k in rows]
    assert execute("FMNMX.NAN R0, R1, R2, P0", state).word == [minmax(F32, k, x, y, nan=True) for x, y, _, k in rows]
    assert execute("FMNMX.FTZ R0, R1, R2, P0", state).word == [
        minmax(F32, k, F32.flush(x), F32.flush(y)) for x, y, _, k in rows
    ]
    assert execute("FMNMX3 R0, R1, R2, R3, P0", state).word == [
        minmax(F32, k, minmax(F32, k, x, y), z) for x, y, z, k in rows
    ]
    for option, nan in (("", False), (".NAN", True)):
        signed = [minmax_of_magnitudes(F32, k, x, y, 1 << 31, nan) for x, y, _, k in rows]
        assert execute(f"FMNMX{option}.XORSIGN R0, |R1|, |R2|, P0", state).word == signed
    assert execute("FMNMX.XORSIGN R0, |R1|, 0x3f800000, PT", state).word == [
        minmax_of_magnitudes(F32, True, x, 0x3F800000, 1 << 31) for x in a
    ]


def test_a_sign_that_no_bars_take_away_is_refused():
    """XORSIGN reads signs from before the bars; what it does without them nobody has said."""
    for operands in ("R1, |R2|", "-|R1|, |R2|", "|R1|, 0xbf800000"):
        assert lower(f"FMNMX.XORSIGN R0, {operands}, PT") is None


@given(LANES, LANES, MASK)
@few
def test_selection_keeps_every_bit(a, b, p):
    state = {"R1": a, "R2": b, "P0": p}
    pick = [bool(lane(p, i)) for i in range(32)]
    assert execute("FSEL R0, R1, R2, P0", state).word == [x if k else y for x, y, k in zip(a, b, pick)]
    assert execute("FSEL R0, -R1, |R2|, !P0", state).word == [
        y & 0x7FFFFFFF if k else x ^ 0x80000000 for x, y, k in zip(a, b, pick)
    ]
    assert execute("FSEL.FTZ R0, R1, R2, P0", state).word == [F32.flush(x if k else y) for x, y, k in zip(a, b, pick)]


def test_what_no_row_understands_is_refused():
    for text in ("FADD R0, ~R1, R2", "FFMA.M8 R0, R1, R2, R3", "FADD R0, R1.H0_H0, R2", "MUFU.FOO R0, R1"):
        assert lower(text) is None
