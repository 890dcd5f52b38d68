"""What a GPU's tensor cores can do in a second, by its description."""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.formats import format_of
from gpusim.tile.machine import tile_machine


def peak_flops(spec: GpuSpec, dtype: str) -> float:
    """Operations a second in a number format of :data:`gpusim.tile.formats.FORMATS` at the described clock, a
    multiply-add counting two."""
    machine = tile_machine(spec, format_of(dtype).operands)
    return machine.flops_per_cycle * machine.sm_count * machine.clock_hz
