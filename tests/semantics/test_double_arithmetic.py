"""FP64 arithmetic and comparison, bit by bit, against exact fractions; every rounding mode."""

import pytest
from arith_harness import execute, lower
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import F64, M32, M64, add, compare, edges, fused, join, lane, mask_of, minmax, multiply

ANY = st.integers(0, M64)
CODE = st.one_of(st.sampled_from(edges(F64)), ANY)
#: numbers of like size, where sums cancel and products nearly tie
NEAR = st.builds(lambda low, sign: 0x3FEFFFFFFFFFFFF0 + low | sign << 63, st.integers(0, 64), st.integers(0, 1))
#: numbers whose products leave the normal range
SMALL = st.builds(lambda e, m: e << 52 | m, st.integers(0, 520), st.integers(0, (1 << 52) - 1))
LANES = lanes(edges(F64), 2**64 - 1)
NEARS = st.lists(NEAR, min_size=32, max_size=32)
SMALLS = st.lists(st.one_of(SMALL, st.sampled_from(edges(F64))), min_size=32, max_size=32)
MASK = st.one_of(st.sampled_from([0, M32]), st.integers(0, M32))
few = settings(max_examples=12, deadline=None)
SIGN = 1 << 63


def pairs(**registers):
    """State with 64-bit values in register pairs: ``pairs(R2=values)`` fills R2 and R3."""
    state = {}
    for name, values in registers.items():
        first = int(name[1:])
        state[f"R{first}"] = [v & M32 for v in values]
        state[f"R{first + 1}"] = [v >> 32 for v in values]
    return state


def same(got, expected):
    """Equal bits, or both NaN (payloads have a test of their own)."""
    return all(g == e or F64.is_nan(g) and F64.is_nan(e) for g, e in zip(got, expected))


@pytest.mark.parametrize("mode", ["RN", "RM", "RP", "RZ"])
@given(st.one_of(LANES, NEARS, SMALLS), st.one_of(LANES, NEARS, SMALLS), st.one_of(LANES, NEARS, SMALLS))
@few
def test_add_multiply_and_fused_round_once(mode, a, b, c):
    suffix = "" if mode == "RN" else "." + mode
    state = pairs(R2=a, R4=b, R6=c)
    assert same(execute(f"DADD{suffix} R0, R2, R4", state).pair, [add(F64, x, y, mode) for x, y in zip(a, b)])
    assert same(execute(f"DMUL{suffix} R0, R2, R4", state).pair, [multiply(F64, x, y, mode) for x, y in zip(a, b)])
    assert same(
        execute(f"DFMA{suffix} R0, R2, R4, R6", state).pair,
        [fused(F64, x, y, z, mode) for x, y, z in zip(a, b, c)],
    )
    near = [multiply(F64, x, y) ^ SIGN for x, y in zip(a, b)]
    state = pairs(R2=a, R4=b, R6=near)
    assert same(
        execute(f"DFMA{suffix} R0, R2, R4, R6", state).pair,
        [fused(F64, x, y, z, mode) for x, y, z in zip(a, b, near)],
    )


@given(LANES, LANES)
@few
def test_signs_absolute_values_and_immediates(a, b):
    state = pairs(R2=a, R4=b)
    rest = SIGN - 1
    assert same(execute("DADD R0, -|R2|, R4", state).pair, [add(F64, x & rest | SIGN, y) for x, y in zip(a, b)])
    assert same(execute("DADD R0, -RZ, |R4|", state).pair, [add(F64, SIGN, y & rest) for y in b])
    third = 0x3FD80000 << 32
    assert same(execute("DMUL R0, R2, 0x3fd80000", state).pair, [multiply(F64, x, third) for x in a])


def test_a_nan_is_passed_on_quiet_and_an_invalid_operation_gives_the_default_one():
    signalling, quiet, infinity = 0x7FF0000000000123, 0xFFF8000000000456, 0x7FF0000000000000
    a = [signalling, 0x3FF0000000000000, signalling, infinity, 0] + [0] * 27
    b = [0x3FF0000000000000, quiet, quiet, infinity | SIGN, infinity] + [0] * 27
    state = pairs(R2=a, R4=b)
    kept = [0x7FF8000000000123, quiet, 0x7FF8000000000123]
    assert execute("DADD R0, R2, R4", state).pair[:4] == [*kept, 0xFFF8000000000000]
    assert execute("DMUL R0, R2, R4", state).pair[:3] == kept
    assert execute("DMUL R0, R2, R4", state).pair[4] == 0xFFF8000000000000
    assert execute("DFMA.RP R0, R2, R4, RZ", state).pair[:3] == kept


@pytest.mark.parametrize(
    "name", ["LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"]
)
@given(LANES, LANES, MASK, st.sampled_from(["AND", "OR", "XOR"]))
@settings(max_examples=6, deadline=None)
def test_comparisons(name, a, b, p, joint):
    b = [y if i % 3 else x for i, (x, y) in enumerate(zip(a, b))]
    hits = [compare(F64, name, x, y) for x, y in zip(a, b)]
    bits = [bool(lane(p, i)) for i in range(32)]
    out = execute(f"DSETP.{name}.{joint} P0, P1, R2, R4, P2", pairs(R2=a, R4=b) | {"P2": p})
    assert out.predicates["P0"] == mask_of(join(joint, h, q) for h, q in zip(hits, bits))
    assert out.predicates["P1"] == mask_of(join(joint, not h, q) for h, q in zip(hits, bits))


@given(LANES, LANES)
@few
def test_minimum_and_maximum_as_compiled_code_uses_them(a, b):
    """DSETP.MIN's first predicate selects; its second says that the result is the second NaN, quieted."""
    b = [y if i % 3 else x ^ SIGN for i, (x, y) in enumerate(zip(a, b))]
    for name, small in (("MIN", True), ("MAX", False)):
        out = execute(f"DSETP.{name}.AND P0, P1, R2, R4, PT", pairs(R2=a, R4=b)).predicates
        chosen = [x if lane(out["P0"], i) else y for i, (x, y) in enumerate(zip(a, b))]
        both = [F64.is_nan(x) and F64.is_nan(y) for x, y in zip(a, b)]
        assert out["P1"] == mask_of(both)
        assert all(c == minmax(F64, small, x, y) for c, x, y, n in zip(chosen, a, b, both) if not n)


def test_of_two_nans_the_canonical_one_is_least_and_greatest():
    state = pairs(R2=[0xFFFAD0DB4BC29BA0] * 32, R4=[0x7FF8000000000123] * 32)
    for predicate in ("PT", "!PT"):
        assert execute(f"DMNMX R0, R2, R4, {predicate}", state).pair == [F64.nan] * 32


def test_what_no_row_understands_is_refused():
    for text in ("DADD.FTZ R0, R2, R4", "DFMA R0, R2, R4", "DSETP.MIN.OR P0, P1, R2, R4, PT"):
        assert lower(text) is None
