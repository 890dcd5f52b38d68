"""What ``gpusim project`` does."""

from __future__ import annotations

import click

from gpusim.energy.operator import Energy, energy_of
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.tile.bands import LEVEL_PERCENT, gemm_band
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import named_kernels
from gpusim.tile.machine import RESULT_BYTES
from gpusim.tile.projection import Projection


def gemm(
    rows: int, columns: int, depth: int, dtype: str, batch: int, block_scaled: bool, framework: str | None, cold: bool, warm: bool,
    power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    assert batch == 1 and not (block_scaled or framework)  # projecting_operators has the others
    spec = load_gpu(gpu)
    shape = GemmShape(
        rows, columns, depth, dtype, RESULT_BYTES.get(dtype, 2), cold_a=float(cold), cold_b=float(not warm)
    )
    found = project_gemm(spec, shape, limit_watts=power_limit_watts)
    band = gemm_band(named_kernels(spec), dtype, rows)
    us = found.seconds * 1e6
    operator = Projection(
        f"product {rows} x {columns} x {depth}", spec.name, found.seconds, found.seconds / band.factor, found.seconds * band.factor,
        band.validated, band.reason, found.limiter, dtype, flops=shape.flops, dram_bytes=found.dram_bytes, l2_bytes=found.l2_bytes,
    )  # fmt: skip
    energy = energy_of(spec, operator, power_limit_watts)
    record = {
        "gpu": spec.name,
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "dtype": dtype,
        "us": float(f"{us:.4g}"),
        "us_low": float(f"{us / band.factor:.4g}"),
        "us_high": float(f"{us * band.factor:.4g}"),
        "validated": band.validated,
        "tflops": float(f"{found.flops_per_second / 1e12:.4g}"),
        "limiter": found.limiter,
        "tile": f"{found.tile.rows} x {found.tile.columns} x {found.tile.depth}",
        "splits": found.splits,
        "dram_bytes": int(found.dram_bytes),
        "l2_bytes": int(found.l2_bytes),
        **energy_values(energy),
    }
    if form != "table":
        click.echo(format_records([record], form))
        return
    lines = {
        "product": f"{rows} x {columns} x {depth}, {dtype}, on {spec.name}",
        "time": f"{us:.4g} us ({us / band.factor:.4g} to {us * band.factor:.4g})",
        "interval": f"{LEVEL_PERCENT} % of measurements should lie within; {band.reason}",
        "rate": f"{record['tflops']} TFLOP/s",
        "limiter": found.limiter,
        "tile": f"{record['tile']}, depth in {found.splits} part{'s' * (found.splits > 1)}",
        "moved": f"{found.dram_bytes / 1e6:.4g} MB from and to DRAM, {found.l2_bytes / 1e6:.4g} MB from L2",
        "energy": energy_line(energy),
    }
    for name, text in lines.items():
        click.echo(f"{name:<10}{text}")


def energy_values(energy: Energy) -> dict[str, float | bool]:
    """An operator's energy as values of its record."""
    return {
        "energy_joules": float(f"{energy.joules:.4g}"),
        "energy_joules_low": float(f"{energy.low_joules:.4g}"),
        "energy_joules_high": float(f"{energy.high_joules:.4g}"),
        "energy_validated": energy.validated,
        "average_watts": float(f"{energy.average_watts:.4g}"),
        "clock_share": float(f"{energy.clock_share:.3g}"),
    }


def energy_line(energy: Energy) -> str:
    """The same in words, with the two units that take most."""
    most = sorted(energy.by_unit, key=lambda each: -each[1])[:2]
    units = " and ".join(f"{100 * joules / energy.joules:.0f} % {unit}" for unit, joules in most)
    clock = (
        f", clock at {100 * energy.clock_share:.0f} % to stay within the power limit" if energy.clock_share < 1 else ""
    )
    milli = 1e3
    return (
        f"{energy.joules * milli:.4g} mJ ({energy.low_joules * milli:.4g} to {energy.high_joules * milli:.4g}), {energy.average_watts:.0f} W: "
        f"{units}{clock}; {energy.reason}"
    )
