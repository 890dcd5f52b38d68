"""How long a tensor-core instruction keeps its unit, and when its result is there.

Mental model: the trace says what is multiplied and how many multiply-adds that is; the GPU says how many of them its
tensor core does a cycle. A row of A longer than 128 bits goes through in steps.
"""

from __future__ import annotations

import math

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.trace.record import MatrixType

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
}


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
