"""How long a tensor-core instruction keeps its unit, and when its result is there.

Mental model: the trace says what is multiplied and how many multiply-adds that is; the GPU says how many of them its
tensor core does a cycle. A row of A longer than 128 bits goes through in steps.

A warp group's product (wgmma) is read from shared memory while it goes on: B once for the four warps, A, unless it is
in registers, for each of them its 16 rows. The core waits for that where it takes longer than the multiply-adds. (That
gives the 32 cycles of m64n64k16, the 128 of m64n256k16 and the 144 of the sparse m64n256k32 that Luo et al., arXiv
2402.13499, measured.)
"""

from __future__ import annotations

import math

import numpy as np

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.trace.record import Flag, MatrixType, Space

#: Multiply-adds of a product of 16 rows, 8 columns and 128 bits of depth.
STEP_MACS = {
    MatrixType.F16: 1024,
    MatrixType.F16_F16: 1024,
    MatrixType.TF32: 512,
    MatrixType.INT8: 2048,
    MatrixType.INT4: 4096,
    MatrixType.BIT: 16384,
    MatrixType.FP8: 2048,
    MatrixType.FP8_F16: 2048,
    MatrixType.SCALED_FP8: 2048,
    MatrixType.FP4: 4096,
}


#: Elements of A's row in a dense or sparse product of a warp group: 256 bits.
_PRODUCTS = {
    MatrixType.F16: 16,
    MatrixType.F16_F16: 16,
    MatrixType.TF32: 8,
    MatrixType.INT8: 32,
    MatrixType.BIT: 256,
    MatrixType.FP8: 32,
    MatrixType.FP8_F16: 32,
}
_WARP_ROWS, _ROW_BYTES = 16, 32
GROUP_WARPS = 4


def product_timing(matrix_type: int, macs: int, space: int, column_bytes: int, spec: GpuSpec) -> tuple[float, int]:
    """(interval, latency) in cycles of a warp's part of a warp group's product, ``macs`` multiply-adds: how long it
    keeps the core, and from then until D is there. ``space``: SHARED where A lies there; ``column_bytes``: of a column
    of B. Raises SpecError for a product that the GPU does not have."""
    kind = MatrixType(matrix_type)
    name = f"warpgroup_{kind.name.lower()}_macs_per_cycle"
    rate = getattr(spec.tensor, name, 0.0)
    if not rate:
        raise SpecError(f"{spec.name}: no tensor.{name}; the program needs it")
    columns = macs // (_WARP_ROWS * _PRODUCTS[kind])
    rows = GROUP_WARPS * _WARP_ROWS if space == Space.SHARED else 0
    reading = (columns * column_bytes + rows * _ROW_BYTES) / (4 * spec.l1.bank_count)
    interval = max(1.0, macs / rate, reading)
    latency = max(1, round(spec.tensor.warpgroup_latency_cycles + macs / rate - interval))
    return round(interval * TICKS_PER_CYCLE) / TICKS_PER_CYCLE, latency


def write_back_cycles(matrix_type: int, macs: int) -> float:
    """Of a warp's part of a product of a group: registers of accumulators a thread, of which one is written back a
    cycle."""
    kind = MatrixType(matrix_type)
    columns = macs // (_WARP_ROWS * _PRODUCTS[kind])
    return columns / (4 if kind in (MatrixType.F16_F16, MatrixType.FP8_F16) else 2)


def instruction_timing(instruction: np.void | np.ndarray, spec: GpuSpec) -> tuple[float, int]:
    """:func:`product_timing` or :func:`tensor_timing` of a tensor-core instruction of a trace (a row of
    INSTRUCTION)."""
    kind, macs = int(instruction["matrix_type"]), int(instruction["matrix_macs"])
    if instruction["flags"] & int(Flag.PRODUCT):
        return product_timing(kind, macs, int(instruction["space"]), int(instruction["access_bytes"]), spec)
    return tensor_timing(kind, macs, spec)


def tensor_timing(matrix_type: int, macs: int, spec: GpuSpec) -> tuple[float, int]:
    """(interval, latency) in cycles of a product of ``macs`` multiply-adds; the interval to a tick, a cycle at least.

    A trace that does not say what is multiplied (``MatrixType.NONE``) gets the tensor pipe's own figures. Raises
    SpecError for a product that the GPU does not have.
    """
    kind = MatrixType(matrix_type)
    if kind == MatrixType.NONE:
        pipe = spec.pipes["tensor"]
        return pipe.interval_cycles, pipe.latency_cycles
    rate = getattr(spec.tensor, f"{kind.name.lower()}_macs_per_cycle")
    if not rate:
        raise SpecError(f"{spec.name}: no tensor.{kind.name.lower()}_macs_per_cycle; the program needs it")
    interval = max(1.0, round(macs / rate * TICKS_PER_CYCLE) / TICKS_PER_CYCLE)
    if kind == MatrixType.F64:
        return interval, max(math.ceil(interval), spec.tensor.f64_latency_cycles)
    further = -(-macs // STEP_MACS[kind]) - 1
    return interval, max(math.ceil(interval), spec.tensor.latency_cycles + further * spec.tensor.step_latency_cycles)
