"""Run PTX operations on the emulator: text in, one result a thread out, on any architecture.

Mental model: every operation reads up to four operands of its thread and stores one result. The kernel is
linked from text and captured in the place of a Numba kernel with the same parameters (two arrays), so the
machine code is the one that the PTX assembler makes: its division and square-root paths included.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numba import cuda

from gpusim.capturing import capture
from gpusim.frontend.native.link import KINDS, run_linker
from gpusim.frontend.numba import frontend
from gpusim.isa.architectures import architecture

REGISTERS = {"f32": "f32", "f64": "f64", "b16": "b16", "b32": "b32", "b64": "b64"}
LANES = 32
ARRAY_WORDS = 7  # parameters of a one-dimensional array; the fifth is its address


def kernel_text(operations, threads: int, architecture: str) -> str:
    """PTX of one kernel that does all ``operations``: (text with {d}, {a}, {b}, {c}; result; operands)."""
    lines = _opening(architecture)
    for k, (text, result, operands) in enumerate(operations):
        names = dict(zip("abc", (f"%x{j}" for j in range(len(operands)))))
        lines.append(f"{{ .reg .{REGISTERS[result]} %d;")
        for j, kind in enumerate(operands):
            lines.append(f".reg .{REGISTERS[kind]} %x{j}; ld.global.{REGISTERS[kind]} %x{j}, [%in+{j * threads * 8}];")
        lines.append(text.format(d="%d", **names) + ";")
        lines.append(f"st.global.{REGISTERS[result]} [%out+{k * threads * 8}], %d; }}")
    return "\n".join([*lines, "ret; }"])


def grouped_text(operations, architecture: str, body: str = "") -> str:
    """PTX of one kernel of a warp that does ``operations`` of many registers: (text; results; operands), both lists of
    (name, PTX type, count), each register 8 bytes a thread; then ``body``, which finds %thread, %in and %out."""
    lines = _opening(architecture)
    read = written = 0
    for text, results, operands in operations:
        lines.append("{")
        for name, kind, count in operands:
            for i in range(count):
                lines.append(f".reg .{kind} %{name}{i}; ld.global.{kind} %{name}{i}, [%in+{8 * LANES * read}];")
                read += 1
        for name, kind, count in results:
            lines.extend(f".reg .{kind} %{name}{i};" for i in range(count))
        lines.append(text)
        for name, kind, count in results:
            for i in range(count):
                lines.append(f"st.global.{kind} [%out+{8 * LANES * written}], %{name}{i};")
                written += 1
        lines.append("}")
    return "\n".join([*lines, body, "ret; }"])


def _opening(architecture: str) -> list[str]:
    """The head of a kernel of two array parameters: %out and %in point to this thread's 8 bytes."""
    parameters = ",".join(f".param .u64 p{i}" for i in range(2 * ARRAY_WORDS))
    return [
        f".version 8.7\n.target {architecture}\n.address_size 64",
        f".visible .entry operations({parameters}) {{",
        ".reg .b64 %out, %in, %step; .reg .b32 %thread;",
        f"ld.param.u64 %out, [p4]; ld.param.u64 %in, [p{ARRAY_WORDS + 4}];",
        "mov.u32 %thread, %tid.x; mul.wide.u32 %step, %thread, 8;",
        "add.u64 %out, %out, %step; add.u64 %in, %in, %step;",
    ]


def link(text: str, architecture: str) -> bytes:
    """The cubin of a PTX text."""
    done = run_linker([f"-arch={architecture}"], [(KINDS[".ptx"], "operations", text.encode())])
    assert done.cubin, done.error
    return done.cubin


def architecture_of(capability: tuple[int, int]) -> str:
    """The name that Numba links for."""
    return architecture(capability).target


def run(monkeypatch, operations, operands: np.ndarray, capability: tuple[int, int]) -> np.ndarray:
    """uint64[len(operations), threads] results of ``operands`` uint64[n, threads] (bit patterns)."""
    text = kernel_text(operations, operands.shape[1], architecture_of(capability))
    return run_text(monkeypatch, text, len(operations), operands, capability)


def run_text(monkeypatch, text: str, results: int, operands: np.ndarray, capability: tuple[int, int]) -> np.ndarray:
    """uint64[results, threads] that the kernel ``operations`` of ``text`` leaves, given ``operands``."""
    threads = operands.shape[1]
    cubin = link(text, architecture_of(capability))
    build = frontend.build

    def build_operations(kernel, types, wanted, lines):
        built = build(kernel, types, wanted, lines)
        return dataclasses.replace(built, cubin=cubin, line_cubin=b"", entry_name="operations")

    monkeypatch.setattr(frontend, "build", build_operations)

    @cuda.jit
    def stand_in(out, values):
        out[0] = values[0]

    out = np.zeros(results * threads, np.uint64)
    capture(stand_in, 1, threads, (out, np.ascontiguousarray(operands).reshape(-1)), gpu=capability)
    return out.reshape(results, threads)
