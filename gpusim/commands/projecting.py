"""What ``gpusim project`` does."""

from __future__ import annotations

import click

from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.tile.attention import AttentionShape, project_attention
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.bands import LEVEL_PERCENT, gemm_band
from gpusim.tile.gemm import GemmShape, project_gemm


def gemm(rows: int, columns: int, depth: int, dtype: str, cold: bool, warm: bool, gpu: str, form: str) -> None:
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


def attention(
    phase: str, batch: int, length: int, heads: int, kv_heads: int | None, head_dim: int, window: int, dtype: str, gpu: str, form: str
) -> None:  # fmt: skip
    spec = load_gpu(gpu)
    kv_heads = heads if kv_heads is None else kv_heads
    if phase == "context":
        context = ContextShape(batch, length, heads, kv_heads, head_dim, dtype)
        found, kv_bytes = project_context(spec, context), context.kv_bytes
    else:
        shape = AttentionShape(batch, length, heads, kv_heads, head_dim, dtype, window)
        found, kv_bytes = project_attention(spec, shape), shape.kv_bytes
    us, low_us, high_us = (1e6 * each for each in (found.seconds, found.low_seconds, found.high_seconds))
    record = {
        "gpu": spec.name, "phase": phase, "batch": batch, "length": length, "heads": heads, "kv_heads": kv_heads,
        "head_dim": head_dim, "window": window, "dtype": dtype, "us": float(f"{us:.4g}"), "us_low": float(f"{low_us:.4g}"),
        "us_high": float(f"{high_us:.4g}"), "validated": found.validated, "limiter": found.limiter,
        "kv_bytes": int(kv_bytes), "dram_bytes": int(found.dram_bytes), "l2_bytes": int(found.l2_bytes),
        "launches": found.launches,
    }  # fmt: skip
    if form != "table":
        click.echo(format_records([record], form))
        return
    rate = f"{kv_bytes / found.seconds / 1e9:.4g} GB/s of keys and values"
    if phase == "context":
        rate = f"{found.flops / found.seconds / 1e12:.4g} TFLOP/s"
    lines = {
        "operator": f"{found.operator}, {dtype}, on {spec.name}",
        "time": f"{us:.4g} us ({low_us:.4g} to {high_us:.4g})",
        "interval": f"{LEVEL_PERCENT} % of measurements should lie within; {found.reason}",
        "rate": rate,
        "limiter": found.limiter,
        "moved": f"{found.dram_bytes / 1e6:.4g} MB from DRAM, {found.l2_bytes / 1e6:.4g} MB from and to L2",
        "launches": str(found.launches),
    }
    for name, text in lines.items():
        click.echo(f"{name:<10}{text}")
