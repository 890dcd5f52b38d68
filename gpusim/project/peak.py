"""What a GPU's tensor cores can do in a second, by its description."""

from __future__ import annotations

from gpusim.gpus.spec import GpuSpec
from gpusim.tile.machine import tile_machine


def peak_flops(spec: GpuSpec, dtype: str) -> float:
    """Operations a second in ``dtype`` at the described clock, a multiply-add counting two."""
    machine = tile_machine(spec, dtype)
    return machine.flops_per_cycle * machine.sm_count * machine.clock_hz
