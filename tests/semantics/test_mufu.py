"""The multi-function unit within the errors that the CUDA Programming Guide documents, special values
exactly, and FP64 seeds good enough for the compiler's Newton steps."""

import math

import ml_dtypes
import numpy as np
import pytest
from arith_harness import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_values import lanes
from oracles_arith import F32, M32, edges

CODES = lanes(edges(F32), M32)
TURNS = st.lists(st.floats(-8, 8, width=32), min_size=32, max_size=32)
few = settings(max_examples=25, deadline=None)
NAN, INF, NEGATIVE = F32.nan, F32.infinity, F32.sign


def real(code: int) -> float:
    return float(np.array(code, np.uint32).view(np.float32))


def code_of(value: float) -> int:
    return int(np.array(value, np.float32).view(np.uint32))


def ulps(got: int, expected: float) -> float:
    """Distance in units of the last place of the expected FP32 value."""
    unit = math.ulp(abs(expected)) * 2**29 if expected else 2.0**-149
    return abs(real(got) - expected) / max(unit, 2.0**-149)


FUNCTIONS = {
    "RCP": lambda x: 1 / x,
    "RSQ": lambda x: 1 / math.sqrt(x),
    "SQRT": math.sqrt,
    "LG2": math.log2,
    "EX2": lambda x: 2.0**x,
    "TANH": math.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(CODES)
@few
def test_within_one_ulp_of_the_true_value(name, codes):
    if name in ("RSQ", "SQRT", "LG2"):
        codes = [c & ~NEGATIVE for c in codes]
    got = execute(f"MUFU.{name} R0, R1", {"R1": codes}).word
    for code, result in zip(codes, got):
        if F32.is_nan(code):
            assert result == NAN
        if F32.is_denormal(code) or F32.is_zero(code) or F32.is_infinite(code) or F32.is_nan(code):
            continue
        x = real(code)
        if name == "EX2" and not -126 < x < 128:
            continue
        expected = FUNCTIONS[name](x)
        if abs(expected) < 2.0**-126 and name != "TANH":
            assert result & ~NEGATIVE == 0, "denormal results are flushed"
        else:
            assert ulps(result, expected) <= 0.51


@given(TURNS)
@few
def test_sine_and_cosine_take_turns(values):
    codes = [code_of(v) for v in values]
    for name, function in (("SIN", math.sin), ("COS", math.cos)):
        got = execute(f"MUFU.{name} R0, R1", {"R1": codes}).word
        for code, result in zip(codes, got):
            if not F32.is_denormal(code):
                turn = math.remainder(real(code), 1.0)
                assert abs(real(result) - function(2 * math.pi * turn)) < 2.0**-24


def test_special_values():
    zero, one, two = 0, 0x3F800000, 0x40000000
    table = {
        "RCP": {zero: INF, NEGATIVE: INF | NEGATIVE, INF: 0, INF | NEGATIVE: NEGATIVE, 1: INF, two: 0x3F000000},
        "RSQ": {zero: INF, NEGATIVE: INF | NEGATIVE, INF: 0, one | NEGATIVE: NAN, 5: INF},
        "SQRT": {zero: zero, NEGATIVE: NEGATIVE, INF: INF, one | NEGATIVE: NAN, 0x40800000: two},
        "LG2": {zero: INF | NEGATIVE, NEGATIVE: INF | NEGATIVE, INF: INF, one: 0, one | NEGATIVE: NAN, two: one},
        "EX2": {zero: one, NEGATIVE: one, INF: INF, INF | NEGATIVE: 0, one: two, 0x43000000: INF, 0xC3000000: 0},
        "SIN": {zero: zero, NEGATIVE: NEGATIVE, INF: NAN, 0x3E800000: one, 0x4B800000: zero, 0x3F000000: zero},
        "COS": {zero: one, INF: NAN, 0x3F000000: one | NEGATIVE, 0x3E800000: zero},
        "TANH": {zero: zero, NEGATIVE: NEGATIVE, INF: one, INF | NEGATIVE: one | NEGATIVE, 1: 1},
    }  # fmt: skip
    for name, cases in table.items():
        for code, expected in cases.items():
            assert execute(f"MUFU.{name} R0, R1", {"R1": [code] * 32}).word[0] == expected, (name, hex(code))


def test_the_sign_and_absolute_value_of_the_source():
    assert execute("MUFU.EX2 R0, -|R1|", {"R1": [0x3F800000] * 32}).word[0] == 0x3F000000


@given(st.lists(st.floats(min_value=1e-290, max_value=1e290), min_size=32, max_size=32))
@few
def test_double_seeds_are_close_enough_for_newton_steps(values):
    bits = [int(np.float64(v).view(np.uint64)) for v in values]
    state = {"R1": [b >> 32 for b in bits]}
    for name, function in (("RCP64H", lambda x: 1 / x), ("RSQ64H", lambda x: 1 / math.sqrt(x))):
        got = execute(f"MUFU.{name} R0, R1", state).word
        for b, high in zip(bits, got):
            x = float(np.array(b >> 32 << 32, np.uint64).view(np.float64))
            seed = float(np.array(high << 32, np.uint64).view(np.float64))
            assert abs(seed / function(x) - 1) < 2.0**-20


def test_double_seeds_of_special_values():
    infinity = 0x7FF00000
    for name in ("RCP64H", "RSQ64H"):
        got = execute(f"MUFU.{name} R0, R1", {"R1": [0, infinity, 0x7FF80000, 1, 0x3FF00000] + [0] * 27}).word
        assert got[0] == infinity and got[1] == 0 and got[3] == infinity and got[4] == 0x3FF00000
        assert got[2] & 0x7FF80000 == 0x7FF80000
    assert execute("MUFU.RSQ64H R0, R1", {"R1": [0xBFF00000] * 32}).word[0] & 0x7FF80000 == 0x7FF80000


@pytest.mark.parametrize(("style", "of"), [("F16", np.float16), ("BF16", ml_dtypes.bfloat16)])
def test_exponentials_of_both_halves_go_by_either_name(style, of):
    """sm_103's F16x2 and BF16x2 (ex2.approx.f16x2, .ftz.bf16x2) are what other architectures have as a _V2."""
    values = np.linspace(-4, 4, 64).astype(of)
    got = execute(f"MUFU.EX2.{style}x2 R0, R1", {"R1": values.view(np.uint32).tolist()}).word
    right = np.exp2(values.astype(np.float64)).astype(of)
    assert got == right.view(np.uint32).tolist()
    if style == "BF16":
        assert execute("MUFU.EX2.BF16_V2 R0, R1", {"R1": values.view(np.uint32).tolist()}).word == got
