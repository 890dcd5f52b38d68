"""What ``gpusim project`` does."""

from __future__ import annotations

import click

from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.tile.bands import LEVEL_PERCENT, gemm_band
from gpusim.tile.gemm import GemmShape, project_gemm


def gemm(
    rows: int, columns: int, depth: int, dtype: str, batch: int, block_scaled: bool, cold: bool, warm: bool, gpu: str, form: str
) -> None:  # fmt: skip
    assert batch == 1 and not block_scaled  # projecting_operators has the others
    spec = load_gpu(gpu)
    shape = GemmShape(rows, columns, depth, dtype, cold_a=cold, cold_b=not warm)
    found = project_gemm(spec, shape)
    band = gemm_band(spec.generation, dtype, rows)
    us = found.seconds * 1e6
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
    }
    for name, text in lines.items():
        click.echo(f"{name:<10}{text}")
