"""Division, square root and reciprocal as the PTX assembler compiles them, against exact fractions: seeds,
Newton steps, checks and slow-path subroutines together must round correctly in every mode."""

from fractions import Fraction
from functools import cache
from math import isqrt

import numpy as np
import pytest
from oracles_arith import F32, F64, clamp01, edges, fused

ptx_harness = pytest.importorskip("ptx_harness", reason="needs the CUDA wheels")

MODES = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP"}
THREADS = 256


def divide(f, a, b, mode):
    sign = f.sign if f.is_negative(a) != f.is_negative(b) else 0
    if f.is_nan(a) or f.is_nan(b):
        return f.nan
    if f.is_infinite(a) or f.is_zero(b):
        invalid = f.is_infinite(b) if f.is_infinite(a) else f.is_zero(a)
        return f.nan if invalid else sign | f.infinity
    if f.is_infinite(b):
        return sign
    return f.round(f.value(a) / f.value(b), mode, bool(sign))


def root(f, a, mode):
    if f.is_nan(a) or f.is_zero(a) or f.is_negative(a) or f.is_infinite(a):
        return f.nan if f.is_nan(a) or (f.is_negative(a) and not f.is_zero(a)) else a
    shift = 1200
    scaled = int(f.value(a) * 4**shift) << 400
    whole = isqrt(scaled)
    odd = 2 * whole + (whole * whole != scaled)
    return f.round(Fraction(odd, 2) / Fraction(2) ** (shift + 200), mode)


def same(f, got, expected):
    return got == expected or f.is_nan(got) and f.is_nan(expected)


def patterns(f, seed):
    """Edge values against each other, ordinary numbers, and any bits."""
    rng = np.random.default_rng(seed)
    special = np.array(edges(f), np.uint64)
    third = THREADS // 3
    any_bits = rng.integers(0, 2 * f.sign, THREADS - 2 * third, dtype=np.uint64, endpoint=False)
    ordinary = rng.normal(size=third)
    bits = ordinary.view(np.uint64) if f is F64 else ordinary.astype(np.float32).view(np.uint32)
    return np.concatenate([rng.choice(special, third), bits.astype(np.uint64), any_bits])


def operations(kind, f):
    """(PTX operation as the harness takes it, its oracle, what flushes operands and results) of every mode."""
    one = f.bias << f.mantissa_bits
    for name, mode in MODES.items():
        for flush in ("", ".ftz") if f is F32 else ("",):
            flushed = f.flush if flush else int
            yield (
                (f"div.{name}{flush}.{kind} {{d}}, {{a}}, {{b}}", kind, (kind, kind)),
                lambda a, b, mode=mode: divide(f, a, b, mode),
                flushed,
            )
            yield (
                (f"rcp.{name}{flush}.{kind} {{d}}, {{a}}", kind, (kind,)),
                lambda a, b, mode=mode: divide(f, one, a, mode),
                flushed,
            )
            yield (
                (f"sqrt.{name}{flush}.{kind} {{d}}, {{a}}", kind, (kind,)),
                lambda a, b, mode=mode: root(f, a, mode),
                flushed,
            )


WIDTHS = {"f32": F32, "f64": F64}


@cache
def results(capability):
    """Width -> (operands, one row of results an operation), of one kernel: the first threads have operands of the first
    width, the others those of the second."""
    values = {kind: np.stack([patterns(f, seed) for seed in (1, 2)]) for kind, f in WIDTHS.items()}
    every = {kind: [operation for operation, _, _ in operations(kind, f)] for kind, f in WIDTHS.items()}
    with pytest.MonkeyPatch.context() as patch:
        rows = ptx_harness.run(patch, [*every["f32"], *every["f64"]], np.hstack(list(values.values())), capability)
    count = len(every["f32"])
    return {"f32": (values["f32"], rows[:count, :THREADS]), "f64": (values["f64"], rows[count:, THREADS:])}


@pytest.mark.parametrize(
    "capability", [(7, 5), (9, 0), pytest.param((12, 0), marks=pytest.mark.nightly)], ids=lambda c: f"sm_{c[0]}{c[1]}"
)
@pytest.mark.parametrize("kind,f", WIDTHS.items())
def test_division_and_roots_round_correctly(kind, f, capability):
    values, rows = results(capability)[kind]
    width = (1 << f.bits) - 1
    for ((text, *_), oracle, flush), row in zip(operations(kind, f), rows, strict=True):
        for a, b, got in zip(*values.tolist(), row.tolist()):
            expected = flush(oracle(flush(a), flush(b)))
            assert same(f, got & width, expected), (text, hex(a), hex(b), hex(got), hex(expected))


def test_saturating_fused_multiply_add_on_every_architecture(monkeypatch):
    values = np.stack([patterns(F32, seed) for seed in (3, 4, 5)])
    operation = ("fma.rn.sat.f32 {d}, {a}, {b}, {c}", "f32", ("f32", "f32", "f32"))
    expected = [clamp01(F32, fused(F32, a, b, c)) for a, b, c in zip(*values.tolist())]
    for capability in ((8, 0), (8, 6), (8, 9), (10, 0)):
        with monkeypatch.context() as patch:
            got = ptx_harness.run(patch, [operation], values, capability)[0]
        assert [int(g) & 0xFFFFFFFF for g in got] == expected
