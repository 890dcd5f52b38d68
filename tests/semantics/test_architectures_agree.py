"""The same PTX gives the same bits on Turing, Hopper and Blackwell, though the assembler makes different
machine code of it: what one architecture does with one instruction another does with five."""

import numpy as np
import pytest
from oracles_arith import F16, F32, F64, INTEGER_EDGES, edges

ptx_harness = pytest.importorskip("ptx_harness", reason="needs the CUDA wheels")

SIZES = {"s8": "b16", "u8": "b16", "s16": "b16", "u16": "b16", "s32": "b32", "u32": "b32", "s64": "b64", "u64": "b64"}
SIZES |= {"f16": "b16", "f32": "f32", "f64": "f64", "f16x2": "b32", "b32": "b32", "b64": "b64"}
THREADS = 128


def operation(text, result, *operands):
    return text, SIZES[result], tuple(SIZES[o] for o in operands)


def operations():
    """Integer, video, bit, conversion, half and comparison operations of every type."""
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        for name in ("add", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield operation(f"{name}.{t} {{d}}, {{a}}, {{b}}", t, t, t)
        yield operation(f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}}", t, t, t, t)
        yield operation(f"sad.{t} {{d}}, {{a}}, {{b}}, {{c}}", t, t, t, t)
        yield operation(f"set.lt.u32.{t} {{d}}, {{a}}, {{b}}", "u32", t, t)
    for t in ("s32", "u32"):
        for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
            yield operation(f"{name}.{t}.{t}.{t}.sat {{d}}, {{a}}.b1, {{b}}.h1", t, t, t)
        for name in ("vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vadd2", "vmax2"):
            yield operation(f"{name}.{t}.{t}.{t} {{d}}, {{a}}, {{b}}, {{c}}", t, t, t, t)
        yield operation(f"mul24.hi.{t} {{d}}, {{a}}, {{b}}", t, t, t)
        yield operation(f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}}", t, t, "u32", "u32")
        yield operation(f"dp4a.{t}.u32 {{d}}, {{a}}, {{b}}, {{c}}", t, "b32", "b32", "b32")
        yield operation(f"bfind.shiftamt.{t} {{d}}, {{a}}", "u32", t)
        yield operation(f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}}", t[0] + "64", t, t, t[0] + "64")
    yield operation("add.sat.s32 {d}, {a}, {b}", "s32", "s32", "s32")
    for bits in ("32", "64"):
        for name in ("popc", "clz"):
            yield operation(f"{name}.b{bits} {{d}}, {{a}}", "u32", "u" + bits)
        yield operation(f"brev.b{bits} {{d}}, {{a}}", "u" + bits, "u" + bits)
        yield operation(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, 5, {{c}}", "u" + bits, "u" + bits, "u" + bits, "u32")
        for name in ("shl.b", "shr.s", "shr.u"):
            yield operation(f"{name}{bits} {{d}}, {{a}}, {{b}}", "u" + bits, "u" + bits, "u32")
    yield operation("prmt.b32 {d}, {a}, {b}, {c}", "b32", "b32", "b32", "b32")
    for mode in ("clamp", "wrap"):
        yield operation(f"shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}}", "b32", "b32", "b32", "b32")
    yield operation("add.cc.u32 {d}, {a}, {b}; addc.cc.u32 {d}, {d}, {c}; addc.u32 {d}, {d}, {a}", *["u32"] * 4)
    yield operation("sub.cc.u64 {d}, {a}, {b}; subc.u64 {d}, {d}, {c}", *["u64"] * 4)
    yield operation("mad.lo.cc.u64 {d}, {a}, {b}, {c}; madc.hi.u64 {d}, {a}, {b}, {d}", *["u64"] * 4)
    integers = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
    floats = ("f16", "f32", "f64")
    for i in integers:
        for other in ("s8", "u16", "u32", "s64"):
            loses = other[0] == "s" and i[0] == "u" or int(other[1:]) >= int(i[1:])
            if other != i and loses:  # PTX saturates only where something can overflow
                yield operation(f"cvt.sat.{i}.{other} {{d}}, {{a}}", i, other)
        for f in floats:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield operation(f"cvt.{mode}.{i}.{f} {{d}}, {{a}}", i, f)
            for mode in ("rn", "rz", "rm", "rp"):
                yield operation(f"cvt.{mode}.{f}.{i} {{d}}, {{a}}", f, i)
    for mode in ("rn", "rz", "rm", "rp"):
        yield operation(f"cvt.{mode}.f16.f32 {{d}}, {{a}}", "f16", "f32")
        yield operation(f"cvt.{mode}.f16.f64 {{d}}, {{a}}", "f16", "f64")
        yield operation(f"cvt.{mode}.f32.f64 {{d}}, {{a}}", "f32", "f64")
    for t in ("f16", "f16x2"):
        for name in ("add", "sub", "mul", "add.sat", "mul.ftz"):
            yield operation(f"{name}.{t} {{d}}, {{a}}, {{b}}", t, t, t)
        yield operation(f"fma.rn.{t} {{d}}, {{a}}, {{b}}, {{c}}", t, t, t, t)
    for t in ("f32", "f64"):
        for name in ("min", "max", "copysign"):
            yield operation(f"{name}.{t} {{d}}, {{a}}, {{b}}", t, t, t)
        for name in ("lt", "geu", "nan", "neu"):
            yield operation(f"set.{name}.u32.{t} {{d}}, {{a}}, {{b}}", "u32", t, t)


def operands():
    """Patterns that are edges of some type: integers, FP32, FP64, pairs of halves, and any bits."""
    rng = np.random.default_rng(7)
    f16 = edges(F16)
    pool = [*INTEGER_EDGES, *edges(F32), *edges(F64), *(h << 16 | low for h, low in zip(f16, reversed(f16)))]
    special = rng.choice(np.array(pool, np.uint64), (3, THREADS * 3 // 4))
    return np.hstack([special, rng.integers(0, 2**64, (3, THREADS // 4), dtype=np.uint64)])


def test_every_operation_gives_the_same_bits_on_three_generations(monkeypatch):
    every, values = list(operations()), operands()
    results = []
    for capability in ((7, 5), (9, 0), (12, 0)):
        with monkeypatch.context() as patch:
            results.append(ptx_harness.run(patch, every, values, capability))
    for i, (text, *_) in enumerate(every):
        assert (results[0][i] == results[1][i]).all(), f"sm_75 and sm_90 differ in {text}"
        assert (results[1][i] == results[2][i]).all(), f"sm_90 and sm_120 differ in {text}"
    assert len(every) > 300 and len(np.unique(results[0])) > 1000
