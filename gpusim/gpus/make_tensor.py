"""What a GPU file says of tensor cores, from what a datasheet rates.

Mental model: a datasheet's rate is what the newest unit reaches that multiplies such operands: tensor memory (tcgen05),
warp groups (wgmma) or warps (mma.sync). So it is stated of that unit. Older instructions reach on the new GPU what they
do on the related one, but no more than the newest: on an H100 warps reach 309 multiply-adds a cycle of a sub-core where
warp groups reach 512; on an H20, whose datasheet rates 128, both are taken to reach those (a guess).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.make_memory import Claiming, KeyedClaim
from gpusim.gpus.spec import TENSOR_ROW_BYTES, TENSOR_ROWS, GpuSpec

#: Multiply-adds of an m16n8k16, by which the tensor pipe's row of a GPU file is stated.
_M16N8K16 = 16 * 8 * 16
#: A datasheet rounds: a rate this near to a power of two is taken to be it.
_ROUNDING = 0.08
#: Kinds of a datasheet's rates -> bytes of an element of A, of those that tensor memory multiplies; the first that is
#: stated sets its columns.
_TENSOR_MEMORY_KINDS = {"f16": 2, "fp8": 1, "tf32": 4}
_KINDS = ("f16", "f16_f16", "tf32", "f64", "int8", "int4", "fp8", "fp8_f16")


def tensor_claims(
    sheet: Datasheet, base: GpuSpec, macs: Callable[[float], float], stated: Claiming, ruled: Claiming
) -> Iterator[KeyedClaim]:
    """Claims of ``pipes.tensor``, ``tensor`` and ``tensor_memory``; ``macs``: 10^12 operations a second of the GPU ->
    multiply-adds a cycle of one sub-core."""
    rates = sheet.dense_tflops
    fastest = max(filter(None, (rates.f16, rates.f16_f16)), default=None)
    if fastest is not None:
        pipe = base.pipes["tensor"]
        interval = max(1, round(_M16N8K16 / macs(fastest)))
        if _newer_unit(base, "f16"):
            # A pipe's values share one kind of evidence, and this unit's are not the datasheet's.
            why = "as of the related GPU's warps (mma.sync), at most what the datasheet rates"
            yield ruled("pipes.tensor.interval_cycles", max(interval, pipe.interval_cycles), why)
            yield ruled("pipes.tensor.latency_cycles", pipe.latency_cycles, why)
        else:
            yield stated("pipes.tensor.interval_cycles", interval, f"{fastest:g} TFLOPS FP16")
            yield stated("pipes.tensor.latency_cycles", pipe.latency_cycles, "latency as of the related GPU")
    if base.tensor_memory.columns_per_cycle:
        yield from _columns(sheet, base, macs, stated)
    for kind in _KINDS:
        rate = getattr(rates, kind)
        if rate is None:
            continue
        field, own = f"{kind}_macs_per_cycle", even(macs(rate))
        why = f"{rate:g} TFLOPS or TOPS, dense"
        if not _newer_unit(base, kind):
            yield stated(f"tensor.{field}", own, why)
            continue
        if not base.tensor_memory.columns_per_cycle:
            yield stated(f"tensor.warpgroup_{field}", own, why)
        if own < getattr(base.tensor, field):
            yield ruled(f"tensor.{field}", own, "warps' products (mma.sync): no faster than the datasheet's rate")


def even(rate: float) -> float:
    """``rate``, or the power of two of which it is the rounding."""
    power = 2.0 ** round(math.log2(rate))
    return power if abs(rate / power - 1) <= _ROUNDING else float(f"{rate:.3g}")


def _newer_unit(base: GpuSpec, kind: str) -> bool:
    """Whether the related GPU multiplies such operands by a newer unit than its warps' tensor cores."""
    of_groups = getattr(base.tensor, f"warpgroup_{kind}_macs_per_cycle", 0.0) > 0
    return of_groups or (base.tensor_memory.columns_per_cycle > 0 and kind not in ("f64", "int4"))


def _columns(sheet: Datasheet, base: GpuSpec, macs: Callable[[float], float], stated: Claiming) -> Iterator[KeyedClaim]:
    """What tensor memory multiplies a cycle, from the first rate that says it."""
    for kind, element_bytes in _TENSOR_MEMORY_KINDS.items():
        rate = getattr(sheet.dense_tflops, kind)
        if rate is not None:
            of_column = TENSOR_ROWS * TENSOR_ROW_BYTES / element_bytes
            columns = even(macs(rate) * base.sm.sub_cores / of_column)
            yield stated("tensor_memory.columns_per_cycle", columns, f"{rate:g} TFLOPS, dense")
            return
