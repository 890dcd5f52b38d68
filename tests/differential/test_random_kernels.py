"""Kernels that nobody wrote: Hypothesis draws integer programs with branches and loops, and Python's
own integers say what each thread must compute, on every architecture.

A drawn program is Python source over a handful of 64-bit variables. It runs twice: as a kernel, where
``narrow32`` and its like are casts on the device, and as plain Python, where they wrap integers.
"""

from __future__ import annotations

import linecache
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda, int8, int16, int32, int64, uint8, uint16, uint32, uint64

from gpusim.capturing import capture
from gpusim.isa.architectures import GENERATIONS

pytestmark = pytest.mark.usefixtures("without_source_lines")

ARCHITECTURES = tuple(row.name for row in GENERATIONS)
VARIABLES = ("a", "b", "c", "d")
THREADS = 64


def _cast(kind):
    @cuda.jit(device=True)
    def cast(x):
        return int64(kind(x))

    return cast


@cuda.jit(device=True)
def _unsigned_divide(x, y):
    return int64(uint64(x) // uint64(y))


@cuda.jit(device=True)
def _unsigned_less(x, y):
    return uint64(x) < uint64(y)


@cuda.jit(device=True)
def _shift_right_unsigned(x, by):
    return int64(uint64(x) >> uint64(by))


@cuda.jit(device=True)
def _high_product(x, y):
    return int64((int64(int32(x)) * int64(int32(y))) >> 32)


@cuda.jit(device=True)
def _count_bits(x):
    return int64(cuda.popc(uint64(x)))


@cuda.jit(device=True)
def _leading_zeros(x):
    return int64(cuda.clz(uint64(x)))


ON_DEVICE = {
    "i8": _cast(int8), "u8": _cast(uint8), "i16": _cast(int16), "u16": _cast(uint16),
    "i32": _cast(int32), "u32": _cast(uint32), "w": _cast(int64),
    "udiv": _unsigned_divide, "ult": _unsigned_less, "ushr": _shift_right_unsigned,
    "mulhi": _high_product, "popc": _count_bits, "clz": _leading_zeros, "cuda": cuda,
}  # fmt: skip


def _signed(bits):
    return lambda x: (int(x) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


_w, _i32 = _signed(64), _signed(32)
_MASK = 2**64 - 1
IN_PYTHON = {
    "i8": _signed(8), "u8": lambda x: x & 0xFF, "i16": _signed(16), "u16": lambda x: x & 0xFFFF,
    "i32": _i32, "u32": lambda x: x & 0xFFFFFFFF, "w": _w,
    "udiv": lambda x, y: _w((x & _MASK) // (y & _MASK)), "ult": lambda x, y: (x & _MASK) < (y & _MASK),
    "ushr": lambda x, by: _w((x & _MASK) >> by), "mulhi": lambda x, y: (_i32(x) * _i32(y)) >> 32,
    "popc": lambda x: (x & _MASK).bit_count(), "clz": lambda x: 64 - (x & _MASK).bit_length(),
}  # fmt: skip

CONSTANTS = st.sampled_from(
    [
        0,
        1,
        2,
        3,
        5,
        7,
        10,
        31,
        32,
        100,
        255,
        65535,
        2**31 - 1,
        2**31,
        2**32,
        2**40 + 1,
        -1,
        -2,
        -128,
        -(2**31),
        -(2**63) + 1,
    ]
)
LEAVES = st.one_of(st.sampled_from(VARIABLES), CONSTANTS.map(lambda v: f"({v})"), st.just("t"))


def _extend(inner):
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from("+-*&|^"), pairs).map(lambda x: f"w({x[1][0]} {x[0]} {x[1][1]})"),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 1000), st.booleans()).map(
            lambda x: f"w({x[1]} {x[0]} {-x[2] if x[3] else x[2]})"
        ),
        st.tuples(st.sampled_from(["//", "%"]), pairs).map(
            # A divisor that is never 0 or -1: the one overflow of the division stays out.
            lambda x: f"w({x[1][0]} {x[0]} (({x[1][1]} & 65535) + 2))"
        ),
        pairs.map(lambda x: f"udiv({x[0]}, w({x[1]} | 1))"),
        pairs.map(lambda x: f"w({x[0]} << ({x[1]} & 63))"),
        pairs.map(lambda x: f"({x[0]} >> ({x[1]} & 63))"),
        pairs.map(lambda x: f"ushr({x[0]}, {x[1]} & 63)"),
        pairs.map(lambda x: f"min({x[0]}, {x[1]})"),
        pairs.map(lambda x: f"max({x[0]}, {x[1]})"),
        pairs.map(lambda x: f"mulhi({x[0]}, {x[1]})"),
        st.tuples(st.sampled_from(["i8", "u8", "i16", "u16", "i32", "u32", "popc", "clz"]), inner).map(
            lambda x: f"{x[0]}({x[1]})"
        ),
        inner.map(lambda x: f"w(-{x})"),
        inner.map(lambda x: f"(~{x})"),
        st.tuples(inner, inner, inner, inner, st.sampled_from(["<", "<=", "==", "!=", ">"])).map(
            lambda x: f"({x[0]} if {x[1]} {x[4]} {x[2]} else {x[3]})"
        ),
        st.tuples(inner, inner, inner, inner).map(lambda x: f"({x[0]} if ult({x[1]}, {x[2]}) else {x[3]})"),
    )


EXPRESSIONS = st.recursive(LEAVES, _extend, max_leaves=8)
CONDITIONS = st.tuples(EXPRESSIONS, st.sampled_from(["<", "==", "!=", ">="]), EXPRESSIONS).map(" ".join)


def _indent(lines):
    return ["    " + line for line in lines]


@st.composite
def blocks(draw, depth=0, loop=0):
    """Source lines of a block; loops run a bounded, thread-dependent number of rounds."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["set", "set", "if", "loop", "leave"] if depth < 3 else ["set", "leave"]))
        if kind == "set" or (kind == "leave" and not loop):
            lines.append(f"{draw(st.sampled_from(VARIABLES))} = {draw(EXPRESSIONS)}")
        elif kind == "if":
            lines.append(f"if {draw(CONDITIONS)}:")
            lines += _indent(draw(blocks(depth + 1, loop)))
            if draw(st.booleans()):
                lines.append("else:")
                lines += _indent(draw(blocks(depth + 1, loop)))
        elif kind == "loop":
            bound = draw(st.sampled_from(["3", "(t & 7)", "(a & 3)", "((b ^ t) & 7)"]))
            lines.append(f"for k{depth} in range({bound}):")
            lines += _indent(draw(blocks(depth + 1, loop + 1)))
        else:
            lines.append(f"if {draw(CONDITIONS)}:")
            lines.append(f"    {draw(st.sampled_from(['break', 'continue']))}")
    return lines


def _compile(source, namespace):
    """The function ``program`` of the source; its lines stay readable in error messages."""
    name = f"<program {zlib.crc32(source.encode()):08x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = dict(namespace)
    exec(compile(source, name, "exec"), scope)
    return scope["program"]


def _sources(body):
    state = ", ".join(VARIABLES)
    device = ["def program(inputs, out):", "    t = cuda.grid(1)", "    if t >= inputs.shape[0]:", "        return"]
    device += [f"    {v} = inputs[t, {i}]" for i, v in enumerate(VARIABLES)]
    device += _indent(body) + [f"    out[t, {i}] = {v}" for i, v in enumerate(VARIABLES)]
    python = [f"def program(t, {state}):", *_indent(body), f"    return {state}"]
    return "\n".join(device) + "\n", "\n".join(python) + "\n"


def _inputs():
    rng = np.random.default_rng(0)
    inputs = rng.integers(-(2**62), 2**62, (THREADS, 4)) >> rng.integers(0, 62, (THREADS, 4))
    inputs[:9, 0] = [0, 1, -1, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63), 7]
    return inputs


def _check(body, architectures):
    device_source, python_source = _sources(body)
    kernel, reference = cuda.jit(_compile(device_source, ON_DEVICE)), _compile(python_source, IN_PYTHON)
    inputs = _inputs()
    expected = [reference(t, *map(int, row)) for t, row in enumerate(inputs)]
    for sm in architectures:
        out = np.zeros_like(inputs)
        capture(kernel, 2, THREADS // 2, (inputs, out), gpu=sm, instruction_limit=2_000_000)
        assert out.tolist() == [list(row) for row in expected], f"{sm}:\n{device_source}"


_SETTINGS = dict(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@settings(max_examples=8, **_SETTINGS)
@given(body=blocks(), which=st.sampled_from(ARCHITECTURES))
def test_a_drawn_program_computes_what_python_computes(body, which):
    _check(body, (which,))


@pytest.mark.nightly
@settings(max_examples=150, **_SETTINGS)
@given(body=blocks())
def test_a_drawn_program_gives_the_same_on_every_architecture(body):
    _check(body, ARCHITECTURES)
