"""Operators beside plain products and attention, on every described GPU: none beats its peak or its bytes, more rows
take no less, and a GPU with more of everything is not slower."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.formats import FORMATS
from gpusim.tile.machine import has_products, tile_machine
from gpusim.tile.memory_shapes import memory_op
from gpusim.tile.operators import AttentionOp, GemmOp, project_attention_op, project_gemm_op, project_memory_op
from gpusim.tile.software import product_library

NARROW = ("int8", "fp8", "fp8_block", "nvfp4", "int8_wo", "int4_wo")
Seconds = Callable[[GpuSpec, int], float]


def _half(spec: GpuSpec) -> str:
    return "bf16" if has_products(spec, "bf16") else "fp16"


def _gemm(dtype: str) -> Seconds:
    return lambda spec, rows: project_gemm_op(spec, GemmOp(rows, 4096, 4096, dtype)).seconds


def _latents(phase: str, heads: int, keys: int) -> Seconds:
    def seconds(spec: GpuSpec, size: int) -> float:
        queries = 1 if phase == "generation" else size
        op = AttentionOp(
            phase,
            size if phase == "generation" else 1,
            queries,
            max(keys, queries),
            heads,
            1,
            576,
            _half(spec),
            kind="mla",
        )
        return project_attention_op(spec, op).seconds

    return seconds


def _encoder(spec: GpuSpec, size: int) -> float:
    op = AttentionOp("context", 2, size, size, 16, 16, 64, _half(spec), causal=False)
    return project_attention_op(spec, op).seconds


def _batch(spec: GpuSpec, size: int) -> float:
    return project_gemm_op(spec, GemmOp(16, 512, 128, _half(spec), batch=size)).seconds


def _memory(kind: str) -> Seconds:
    return lambda spec, rows: project_memory_op(spec, memory_op(kind, rows, 4096, _half(spec))).seconds


OPERATORS: dict[str, Seconds] = {
    **{dtype: _gemm(dtype) for dtype in NARROW}, "batch": _batch, "latents": _latents("generation", 128, 4096),
    "latents of a context": _latents("context", 16, 1), "encoder": _encoder, "norm": _memory("norm"), "sampling": _memory("sampling"),
    "quantize": _memory("quantize"), "softmax": _memory("softmax"),
}  # fmt: skip


def _operators(spec: GpuSpec) -> dict[str, Seconds]:
    return {
        name: seconds
        for name, seconds in OPERATORS.items()
        if name not in FORMATS or has_products(spec, FORMATS[name].operands)
    }


@pytest.mark.parametrize("gpu", ["a100_80gb", "h100", "b200", "l40s", "t4", "rtx5090"])
def test_more_of_it_takes_no_less(gpu):
    spec = load_gpu(gpu)
    for name, seconds in _operators(spec).items():
        # Rows of a multiple of four: scales of others are laid anew on a B200, as measured.
        taken = [seconds(spec, size) for size in (4, 16, 20, 64, 72, 256, 512, 520, 1024)]
        assert all(more >= 0.93 * less for less, more in pairwise(taken)), (name, taken)


def _has_more(less: GpuSpec, more: GpuSpec) -> bool:
    """Whether ``more`` has of all that is described at least what ``less`` has."""
    if (less.capability, less.generation) != (more.capability, more.generation):
        return False
    rates = []
    for spec in (less, more):
        machine = tile_machine(spec, _half(spec))
        rates.append((
            spec.sm_count, spec.clock_hz, machine.flops_per_cycle, machine.l2_bytes, machine.l2_bytes_per_cycle * spec.clock_hz,
            spec.dram.peak_bytes_per_ns, machine.dram_bytes_per_cycle * spec.clock_hz, spec.board.power_limit_watts,
        ))  # fmt: skip
    return all(a <= b for a, b in zip(*rates, strict=True))


def test_a_gpu_with_more_of_everything_is_not_slower():
    specs = [load_gpu(name) for name in list_gpus()]
    pairs = [(less, more) for less in specs for more in specs if less is not more and _has_more(less, more)]
    assert ("h100", "h200") in {(less.name, more.name) for less, more in pairs}
    for less, more in pairs:
        for name, seconds in _operators(less).items():
            # A library that counts waves may take a tile of slow steps in one wave where fewer SMs need two.
            counts = name in FORMATS and product_library(more, FORMATS[name].library).counts_waves
            for size in (16,) if counts else (16, 1024):
                assert seconds(more, size) <= 1.01 * seconds(less, size), (less.name, more.name, name, size)


def test_an_h200_is_as_much_faster_than_an_h100_as_its_dram_at_most():
    h100, h200 = load_gpu("h100"), load_gpu("h200")
    read = [tile_machine(spec, "bf16").dram_bytes_per_cycle * spec.clock_hz for spec in (h100, h200)]
    for name, seconds in _operators(h100).items():
        for size in (1, 16, 1024, 16384):
            if name.startswith("latents of") and size == 1:
                continue
            assert 0.99 < seconds(h100, size) / seconds(h200, size) < 1.01 * read[1] / read[0], (name, size)


@pytest.mark.parametrize("gpu", list_gpus())
def test_narrower_operands_are_not_slower_in_large_products(gpu):
    spec = load_gpu(gpu)
    whole = project_gemm_op(spec, GemmOp(8192, 8192, 8192, _half(spec))).seconds
    for name in NARROW:
        known = FORMATS[name]
        # Weights alone: widening them costs up to a tenth (measured on an A100). A B300 and a GB300 have few integer
        # products.
        if has_products(spec, known.operands) and not (spec.capability == (10, 3) and name == "int8"):
            found = project_gemm_op(spec, GemmOp(8192, 8192, 8192, name)).seconds
            assert found <= (1.1 if known.weight_only else 1.0) * whole, name
            machine = tile_machine(spec, known.operands)
            assert found > 2.0 * 8192**3 / (machine.flops_per_cycle * machine.sm_count * machine.clock_hz), name
