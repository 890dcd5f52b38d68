"""Projections on every described GPU: none above its peak or below its bytes, none slower for more bandwidth, and what
DRAM bounds goes with its rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.machine import tile_machine
from gpusim.tile.operators import (
    AttentionOp,
    GemmOp,
    MemoryOp,
    MoeOp,
    project_attention_op,
    project_gemm_op,
    project_memory_op,
    project_moe_op,
)
from gpusim.tile.projection import Projection


def _gemm(rows: int, columns: int, depth: int, batch: int = 1) -> Callable[[GpuSpec, str], Projection]:
    return lambda spec, dtype: project_gemm_op(spec, GemmOp(rows, columns, depth, dtype, batch))


def _attention(
    batch: int, queries: int, keys: int, heads: int, kv_heads: int, head_dim: int, **more: Any
) -> Callable[[GpuSpec, str], Projection]:
    phase = "context" if queries > 1 else "generation"
    return lambda spec, dtype: project_attention_op(
        spec, AttentionOp(phase, batch, queries, keys, heads, kv_heads, head_dim, dtype, **more)
    )


def _moe(tokens: int, ep: int) -> Callable[[GpuSpec, str], Projection]:
    return lambda spec, dtype: project_moe_op(spec, MoeOp(tokens, 2048, 768, 64, 8, dtype, ep=ep))


OPERATORS: dict[str, Callable[[GpuSpec, str], Projection]] = {
    "few rows": _gemm(8, 8192, 8192), "many rows": _gemm(2048, 4096, 4096), "batch": _gemm(64, 512, 128, batch=32),
    "generation": _attention(64, 1, 8192, 32, 8, 128), "window": _attention(64, 1, 8192, 32, 8, 128, window=1024),
    "context": _attention(2, 2048, 2048, 32, 8, 128), "encoder": _attention(2, 1024, 1024, 16, 16, 64, causal=False),
    "latents": _attention(32, 1, 4096, 32, 1, 576, kind="mla"), "experts": _moe(16, 1), "many tokens": _moe(2048, 8),
    "norm": lambda spec, dtype: project_memory_op(spec, MemoryOp("norm", 1e8, 1e8, 4096)),
}  # fmt: skip


def _dtype(spec: GpuSpec) -> str:
    return "bf16" if spec.generation not in ("turing", "volta") else "fp16"


@pytest.mark.parametrize("gpu", list_gpus())
def test_no_operator_beats_the_peak_or_its_bytes(gpu):
    spec = load_gpu(gpu)
    machine = tile_machine(spec, _dtype(spec))
    peak = machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    for name, project in OPERATORS.items():
        found = project(spec, _dtype(spec))
        assert found.low_seconds < found.seconds < found.high_seconds, name
        assert found.flops / found.seconds < peak, name
        # The described rate is that of reads and writes; attention that only reads reached 0.95 of an H100's peak in
        # measured rows, where 0.9 are described.
        assert found.dram_bytes / found.seconds < spec.dram.peak_bytes_per_ns * 1e9, name


@pytest.mark.parametrize("name", OPERATORS)
def test_more_bandwidth_makes_no_operator_slower_and_more_sms_hardly(name):
    for gpu in ("a100_80gb", "h100", "l40s", "b200"):
        spec = load_gpu(gpu)
        wider = replace(spec, dram=replace(spec.dram, peak_bytes_per_ns=1.3 * spec.dram.peak_bytes_per_ns))
        broader = replace(spec, sm_count=spec.sm_count * 9 // 8)
        own, of_wider, of_broader = (OPERATORS[name](each, _dtype(spec)).seconds for each in (spec, wider, broader))
        # Of two tiles that take as long a product that the limit of power slows may get the one that moves a little
        # more: it is chosen at the full clock.
        assert of_wider <= own * (1 + 2e-3), gpu
        # More SMs take more at rest of the same limit of power, and may leave a last wave that is emptier.
        assert of_broader < 1.1 * own, gpu


@pytest.mark.parametrize("name", ["few rows", "generation", "experts", "norm"])
def test_what_memory_bounds_goes_with_its_rate_between_gpus_that_differ_in_it_alone(name):
    rates, seconds = zip(
        *(
            (tile_machine(spec, "bf16").dram_bytes_per_cycle * spec.clock_hz, OPERATORS[name](spec, "bf16").seconds)
            for spec in (load_gpu("h100"), load_gpu("h200"))
        ),
        strict=True,
    )
    gain = rates[1] / rates[0]
    # Launches and latencies do not shrink with it.
    assert 1 + 0.6 * (gain - 1) < seconds[0] / seconds[1] < 1.02 * gain
