"""What in a datasheet's file is in another unit than asked for, or looks like another figure of the datasheet.

Mental model: a datasheet prints GHz and MHz, MB and GB, rates with and without sparsity beside each other, and whoever
types them in takes the wrong one now and then. What no GPU can be is refused with the unit; a rate twice the related
GPU's is possible, so that is only said.
"""

from __future__ import annotations

from collections.abc import Callable

from gpusim.errors import SpecError
from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.spec import TENSOR_ROW_BYTES, TENSOR_ROWS, GpuSpec

#: Clocks that no GPU has: the G80 had 575 MHz, a GeForce of today 2,900; the margins are guesses.
LEAST_CLOCK_MHZ, MOST_CLOCK_MHZ = 100.0, 10_000.0
#: L2 is at most a fiftieth of memory on the GPUs described (128 MiB beside 8 GiB would be a sixty-fourth).
MOST_L2_SHARE = 1 / 16
#: A B300 has 288 GB.
MOST_MEMORY_GIB = 16_384.0
#: Buses are made of channels of at least so many bits (LPDDR5, GDDR6).
BUS_STEP_BITS = 16
#: A datasheet's rounding of a rate, and a boost clock other than the one it was reckoned at.
_TOLERANCE = 0.15
_WARP_LANES = 32
#: Kinds that tensor memory multiplies -> bytes of an element.
_TENSOR_MEMORY_BYTES = {"f16": 2, "fp8": 1, "tf32": 4}


def check_units(sheet: Datasheet) -> None:
    """Raises SpecError for a figure that no GPU has, with the unit that is asked for."""
    memory, clock_mhz = sheet.memory, sheet.boost_clock_mhz
    if not LEAST_CLOCK_MHZ <= clock_mhz <= MOST_CLOCK_MHZ:
        raise SpecError(
            f"{sheet.title}: boost_clock_mhz is {clock_mhz:g}, and no GPU has below {LEAST_CLOCK_MHZ:g} or above {MOST_CLOCK_MHZ:g} MHz"
        )
    if memory.gib > MOST_MEMORY_GIB:
        raise SpecError(f"{sheet.title}: memory.gib is {memory.gib:g}, above {MOST_MEMORY_GIB:g}: GiB are asked for")
    if sheet.l2_mib > memory.gib * 1024 * MOST_L2_SHARE:
        raise SpecError(
            f"{sheet.title}: l2_mib {sheet.l2_mib:g} is more than a sixteenth of memory.gib {memory.gib:g}: MiB of L2 and GiB of memory are asked for"
        )
    if memory.bus_bits % BUS_STEP_BITS:
        raise SpecError(
            f"{sheet.title}: memory.bus_bits {memory.bus_bits} is no multiple of {BUS_STEP_BITS}, the narrowest channel of any memory: bits of the whole bus"
        )


def check_cores(sheet: Datasheet, macs: Callable[[float], float]) -> None:
    """Raises SpecError for more FP32 multiply-adds a cycle than a sub-core's one instruction of a warp makes; ``macs``:
    10^12 operations a second of the GPU -> multiply-adds a cycle of one sub-core."""
    fp32 = sheet.dense_tflops.fp32
    if fp32 is not None and macs(fp32) > _WARP_LANES * (1 + _TOLERANCE):
        raise SpecError(
            f"{sheet.title}: dense_tflops.fp32 {fp32:g} is {macs(fp32):.4g} multiply-adds a cycle of a sub-core, which issues one instruction"
            f" of {_WARP_LANES} lanes: a tensor cores' rate, or sm_count or boost_clock_mhz of another product?"
        )


def doubts(sheet: Datasheet, base: GpuSpec, like: str) -> str:
    """A sentence on the tensor cores' rates that are twice the related GPU's, an SM and a cycle; empty without any."""
    sub_cores = sheet.sm_count * base.sm.sub_cores
    twice = []
    for kind in sheet.dense_tflops.__struct_fields__:
        rate, known = getattr(sheet.dense_tflops, kind), _known(base, kind)
        if rate is None or not known:
            continue
        ratio = rate * 1e12 / 2 / (sub_cores * sheet.boost_clock_mhz * 1e6) / known
        if abs(ratio / 2 - 1) <= _TOLERANCE:
            twice.append(f"{kind} {rate:g}")
    if not twice:
        return ""
    return (
        f"dense_tflops: {', '.join(twice)}: twice what an SM of {like} makes a cycle; right if the SM is twice as wide,"
        " wrong if it is the datasheet's rate with sparsity"
    )


def _known(base: GpuSpec, kind: str) -> float:
    """Multiply-adds a cycle of a sub-core's tensor core on the related GPU; 0 where it is not known."""
    if base.tensor_memory.columns_per_cycle and kind in _TENSOR_MEMORY_BYTES:
        of_column = TENSOR_ROWS * TENSOR_ROW_BYTES / _TENSOR_MEMORY_BYTES[kind]
        return base.tensor_memory.columns_per_cycle * of_column / base.sm.sub_cores
    of_groups = getattr(base.tensor, f"warpgroup_{kind}_macs_per_cycle", 0.0)
    return of_groups or getattr(base.tensor, f"{kind}_macs_per_cycle", 0.0)
