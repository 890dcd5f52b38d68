"""What ``gpusim project``'s operators do that go through the one front (:mod:`gpusim.tile.operators`)."""

from __future__ import annotations

import click

from gpusim.commands.projecting import energy_line, energy_values
from gpusim.energy.operator import energy_of
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import format_records
from gpusim.tile.bands import LEVEL_PERCENT
from gpusim.tile.machine import OPERANDS
from gpusim.tile.memory_shapes import memory_op
from gpusim.tile.mla import LATENT, ROTATED
from gpusim.tile.moe_library import framework_of
from gpusim.tile.operators import (
    AttentionOp,
    GemmOp,
    MoeOp,
    RecurrentOp,
    project_attention_op,
    project_gemm_op,
    project_memory_op,
    project_moe_op,
    project_recurrent_op,
)
from gpusim.tile.projection import Projection


def gemm(
    rows: int, columns: int, depth: int, dtype: str, batch: int, block_scaled: bool, framework: str | None, cold: bool, warm: bool,
    power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    assert not (cold or warm)  # refused where the options are declared
    spec = load_gpu(gpu)
    op = GemmOp(rows, columns, depth, dtype, batch, block_scaled, framework=framework or "")
    found = project_gemm_op(spec, op, power_limit_watts)
    asked: dict[str, object] = {
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "dtype": dtype,
        "batch": batch,
        "block_scaled": block_scaled,
    }
    if framework:
        asked["framework"] = framework
    _print(spec, found, asked, form, power_limit_watts)


def attention(
    phase: str, kind: str, batch: int, length: int, queries: int | None, heads: int, kv_heads: int | None, head_dim: int, window: int,
    dtype: str, kv_dtype: str | None, framework: str, power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    kv_heads = heads if kv_heads is None else kv_heads
    queries = 1 if phase == "generation" else queries or length
    op = AttentionOp(
        phase, batch, queries, length, heads, kv_heads, head_dim, dtype, kv_dtype, window, kind, framework=framework
    )
    asked = {
        "phase": phase, "kind": kind, "batch": batch, "length": length, "queries": queries, "heads": heads, "kv_heads": kv_heads,
        "head_dim": head_dim, "window": window, "dtype": dtype, "kv_dtype": kv_dtype or dtype, "framework": framework,
    }  # fmt: skip
    keys = batch * min(length, window or length)
    element_bytes = OPERANDS[kv_dtype or dtype][0]
    elements = LATENT + ROTATED if kind == "mla" else 2 * kv_heads * head_dim
    spec = load_gpu(gpu)
    found = project_attention_op(spec, op, power_limit_watts)
    _print(spec, found, asked, form, power_limit_watts, {"kv_bytes": int(element_bytes * keys * elements)})


def moe(
    tokens: int, hidden: int, intermediate: int, experts: int, top_k: int, ep: int, tp: int, distribution: str, dtype: str, framework: str | None,
    power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    op = MoeOp(tokens, hidden, intermediate, experts, top_k, dtype, ep, tp, distribution, framework=framework or "")
    asked = {
        "tokens": tokens, "hidden": hidden, "intermediate": intermediate, "experts": experts, "top_k": top_k, "ep": ep, "tp": tp,
        "distribution": distribution, "dtype": dtype, "framework": framework_of(dtype, op.framework),
    }  # fmt: skip
    spec = load_gpu(gpu)
    _print(spec, project_moe_op(spec, op, power_limit_watts), asked, form, power_limit_watts)


def linear_attention(
    part: str, phase: str, batch: int, tokens: int | None, key_heads: int, value_heads: int, head_dim: int, channels: int | None, width: int, cold: bool,
    framework: str, power_limit_watts: float | None, gpu: str, form: str,
) -> None:  # fmt: skip
    common = {"phase": phase, "batch": batch, "tokens": tokens or 1, "framework": framework}
    if part == "convolution":
        own: dict[str, int] = {"channels": channels or (2 * key_heads + value_heads) * head_dim, "width": width}
    else:
        own = {"key_heads": key_heads, "value_heads": value_heads, "key_dim": head_dim, "value_dim": head_dim}
    op = RecurrentOp({"rule": "delta", "convolution": "conv"}[part], cold=cold, **common, **own)
    spec = load_gpu(gpu)
    found = project_recurrent_op(spec, op, power_limit_watts)
    _print(spec, found, {"part": part, **common, **own}, form, power_limit_watts)


def memory(
    kind: str, rows: int, columns: int, dtype: str, to: str | None, no_residual: bool, no_gate: bool, cold: bool, power_limit_watts: float | None, gpu: str,
    form: str,
) -> None:  # fmt: skip
    op = memory_op(kind, rows, columns, dtype, to or "", gated=not no_gate, residual=not no_residual, cold=cold)
    asked: dict[str, object] = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
    if kind == "quantize":
        asked["to"] = to or "fp8"
    moved: dict[str, object] = {"read_bytes": int(op.read_bytes), "written_bytes": int(op.written_bytes)}
    spec = load_gpu(gpu)
    _print(spec, project_memory_op(spec, op, power_limit_watts), asked, form, power_limit_watts, moved)


def _print(
    spec: GpuSpec, found: Projection, asked: dict[str, object], form: str, power_limit_watts: float | None,
    more: dict[str, object] | None = None,
) -> None:  # fmt: skip
    energy = energy_of(spec, found, power_limit_watts)
    us, low_us, high_us = (1e6 * each for each in (found.seconds, found.low_seconds, found.high_seconds))
    tflops = found.flops / found.seconds / 1e12
    if form != "table":
        record = {
            "gpu": found.gpu, **asked, "us": float(f"{us:.4g}"), "us_low": float(f"{low_us:.4g}"),
            "us_high": float(f"{high_us:.4g}"), "validated": found.validated, "tflops": float(f"{tflops:.4g}"),
            "limiter": found.limiter, "dram_bytes": int(found.dram_bytes), "l2_bytes": int(found.l2_bytes),
            "launches": found.launches, **(more or {}), **energy_values(energy),
        }  # fmt: skip
        click.echo(format_records([record], form))
        return
    lines = {
        "operator": f"{found.operator}, on {found.gpu}",
        "time": f"{us:.4g} us ({low_us:.4g} to {high_us:.4g})",
        "interval": f"{LEVEL_PERCENT} % of measurements should lie within; {found.reason}",
        "rate": f"{f'{tflops:.4g} TFLOP/s, ' * bool(found.flops)}{found.dram_bytes / found.seconds / 1e9:.4g} GB/s of DRAM",
        "limiter": found.limiter,
        "moved": f"{found.dram_bytes / 1e6:.4g} MB from and to DRAM, {found.l2_bytes / 1e6:.4g} MB from and to L2",
        "launches": str(found.launches),
        "energy": energy_line(energy),
    }
    for name, text in lines.items():
        click.echo(f"{name:<10}{text}")
