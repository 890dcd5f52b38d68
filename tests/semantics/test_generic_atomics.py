"""Atomics through generic addresses: whichever space each lane's address lies in, memory and old value are right.

Hardware does some of them in global memory alone; the compiler's code asks which lanes were served and does the
others by loops. Lanes here take turns in global, shared and local memory, each with a slot of its own.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
import pytest
from ptx_harness import ARRAY_WORDS, architecture_of, run_text

from gpusim.isa.architectures import GENERATIONS

ARCHITECTURES = [row.capability for row in GENERATIONS]
THREADS = 64
LOW = np.uint64(0xFFFFFFFF)


def f64(function):
    return lambda old, a, b: function(old.view(np.float64), a.view(np.float64)).view(np.uint64)


def word(kind, function):
    """On the low halves as ``kind``; the high half of memory stays."""

    def apply(old, a, b):
        parts = [(v & LOW).astype(np.uint32).view(kind) for v in (old, a, b)]
        new = function(*parts).astype(kind).view(np.uint32).astype(np.uint64)
        return (old & ~LOW) | new

    return apply


#: PTX operation -> (bits, oracle from old value and operands to new value).
OPERATIONS = {
    "add.u64": (64, lambda old, a, b: old + a),
    "add.f64": (64, f64(np.add)),
    "cas.b64": (64, lambda old, a, b: np.where(old == a, b, old)),
    "exch.b64": (64, lambda old, a, b: a),
    "min.s64": (64, lambda old, a, b: np.minimum(old.view(np.int64), a.view(np.int64)).view(np.uint64)),
    "max.u64": (64, lambda old, a, b: np.maximum(old, a)),
    "and.b64": (64, lambda old, a, b: old & a),
    "xor.b64": (64, lambda old, a, b: old ^ a),
    "add.u32": (32, word(np.uint32, lambda old, a, b: old + a)),
    "add.f32": (32, word(np.float32, lambda old, a, b: old + a)),
    "inc.u32": (32, word(np.uint32, lambda old, a, b: np.where(old >= a, 0, old + 1))),
    "dec.u32": (32, word(np.uint32, lambda old, a, b: np.where((old == 0) | (old > a), a, old - 1))),
    "cas.b32": (32, word(np.uint32, lambda old, a, b: np.where(old == a, b, old))),
    "min.s32": (32, word(np.int32, lambda old, a, b: np.minimum(old, a))),
}


def statement(operation: str, at: int) -> str:
    """PTX of one operation, whose arrays begin ``at`` bytes behind %out and %in: thread t's slot lies in global, shared
    or local memory as t mod 3 says."""
    bits = OPERATIONS[operation][0]
    operands = "%a, %b" if operation.startswith("cas") else "%a"
    if bits == 32:
        operands = operands.replace("%a", "%a32").replace("%b", "%b32")
    result = "%old" if bits == 64 else "%old32"
    kinds = {"f64": "f64", "f32": "f32"}
    kind = kinds.get(operation.split(".")[1], f"b{bits}")
    narrow = (
        f".reg .{kind} %a32, %b32, %old32; .reg .b32 %wa, %wb, %wo; "
        f"cvt.u32.u64 %wa, %a; cvt.u32.u64 %wb, %b; mov.b32 %a32, %wa; mov.b32 %b32, %wb;"
    )
    atom = f"atom.{operation} {result}, [%slot], {operands};"
    if bits == 32:
        body = f"{narrow} {atom} mov.b32 %wo, %old32; cvt.u64.u32 %old, %wo;"
    elif kind == "f64":
        body = f".reg .f64 %fa, %fo; mov.b64 %fa, %a; atom.{operation} %fo, [%slot], %fa; mov.b64 %old, %fo;"
    else:
        body = atom
    return f"""
  ld.global.b64 %first, [%in+{at}]; ld.global.b64 %a, [%in+{at + 8 * THREADS}]; ld.global.b64 %b, [%in+{at + 16 * THREADS}];
  add.u64 %slot, %out, {at + 16 * THREADS};
  selp.b64 %slot, %far, %slot, %p; selp.b64 %slot, %stack, %slot, %q;
  st.b64 [%slot], %first;
  {{ {body} }}
  ld.b64 %last, [%slot];
  st.global.b64 [%out+{at}], %old; st.global.b64 [%out+{at + 8 * THREADS}], %last;"""


def text(operations: list[str], architecture: str) -> str:
    """PTX of a kernel of all ``operations``, with three rows of results and of operands each."""
    parameters = ",".join(f".param .u64 p{i}" for i in range(2 * ARRAY_WORDS))
    statements = "".join(statement(operation, 24 * THREADS * k) for k, operation in enumerate(operations))
    return f"""
.version 8.7
.target {architecture}
.address_size 64
.visible .entry operations({parameters}) {{
  .shared .align 8 .b8 room[{8 * THREADS}];
  .local .align 8 .b8 own[8];
  .reg .b64 %out, %in, %slot, %step, %a, %b, %old, %first, %last, %far, %stack;
  .reg .b32 %t, %space; .reg .pred %p, %q;
  ld.param.u64 %out, [p4]; ld.param.u64 %in, [p{ARRAY_WORDS + 4}];
  mov.u32 %t, %tid.x; mul.wide.u32 %step, %t, 8; rem.u32 %space, %t, 3;
  add.u64 %out, %out, %step; add.u64 %in, %in, %step;
  mov.u64 %far, room; cvta.shared.u64 %far, %far; add.u64 %far, %far, %step;
  mov.u64 %stack, own; cvta.local.u64 %stack, %stack;
  setp.eq.u32 %p, %space, 1; setp.eq.u32 %q, %space, 2;
  {statements}
  ret;
}}"""


def everyday(operation: str) -> tuple[int, int]:
    """The architecture that runs an operation by day."""
    return ARCHITECTURES[zlib.crc32(operation.encode()) % len(ARCHITECTURES)]


def operands(operation: str) -> np.ndarray:
    """uint64[3, THREADS]: what memory holds, and the operands."""
    draw = np.random.default_rng(zlib.crc32(operation.encode()))
    values = draw.integers(0, 2**64, (3, THREADS), np.uint64)
    if operation == "add.f64":
        values = draw.normal(size=(3, THREADS)).view(np.uint64)
    if operation == "add.f32":
        values = draw.normal(size=(3, THREADS)).astype(np.float32).view(np.uint32).astype(np.uint64)
    if operation.startswith(("cas", "inc", "dec")):
        values[1, ::2] = values[0, ::2]  # half of the comparisons hold
    return values


@cache
def left_by(capability: tuple[int, int], by_day: bool) -> dict[str, np.ndarray]:
    """operation -> old values and what memory holds then, of one kernel of those that the architecture runs by day, or
    of the others."""
    chosen = [operation for operation in OPERATIONS if (everyday(operation) == capability) == by_day]
    values = np.concatenate([operands(operation) for operation in chosen])
    with pytest.MonkeyPatch.context() as patch:
        kernel = text(chosen, architecture_of(capability))
        found = run_text(patch, kernel, 3 * len(chosen), values, capability)
    return dict(zip(chosen, found.reshape(len(chosen), 3, THREADS), strict=True))


def cases():
    for operation in OPERATIONS:
        for capability in ARCHITECTURES:
            marks = () if capability == everyday(operation) else pytest.mark.nightly
            yield pytest.param(operation, capability, marks=marks, id=f"{operation}-{capability[0]}{capability[1]}")


@pytest.mark.parametrize(("operation", "capability"), list(cases()))
def test_an_atomic_on_a_generic_address_is_right_in_every_space(operation, capability):
    bits, oracle = OPERATIONS[operation]
    values = operands(operation)
    found = left_by(capability, capability == everyday(operation))[operation]
    with np.errstate(over="ignore"):
        expected = oracle(*values.copy())
    old = values[0] if bits == 64 else values[0] & LOW
    np.testing.assert_array_equal(found[0], old, err_msg=f"old value of {operation}")
    np.testing.assert_array_equal(found[1], expected, err_msg=f"memory after {operation}")
