"""Any operator on any described GPU: a time within its roofs or a refusal, and a GPU with more of one thing is slower
by no more than a step of tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.formats import FORMATS
from gpusim.tile.library import FRAMEWORKS
from gpusim.tile.memory import KINDS
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
from gpusim.tile.software import CONVERTED

#: GPUs of each way to feed tensor cores, among them those without rows of their own, with 16 bits that they multiply.
GPUS = {"a100_80gb": "bf16", "h100": "bf16", "h20": "bf16", "h200": "bf16", "b200": "bf16", "gb200": "bf16", "l40s": "bf16", "l4": "bf16", "a10": "bf16", "rtx5090": "bf16", "t4": "fp16", "v100": "fp16"}  # fmt: skip
Asked = tuple[Callable[..., Projection], Any]


def sizes(most: int) -> st.SearchStrategy[int]:
    """Whole numbers, as many of each order of magnitude."""
    return st.floats(0, math.log2(most)).map(lambda power: int(2**power))


@st.composite
def products(draw: st.DrawFn) -> Asked:
    """In every format, by every framework that has one."""
    name = draw(st.sampled_from(sorted(FORMATS)))
    framework = draw(st.sampled_from(["", *FRAMEWORKS])) if FORMATS[name].library in CONVERTED else ""
    shape = (draw(sizes(8192)), draw(sizes(32768)), draw(sizes(16384)))
    return project_gemm_op, GemmOp(*shape, name, warm=draw(st.booleans()), framework=framework)


@st.composite
def attention(draw: st.DrawFn) -> Asked:
    """Of one query and of many, over latents and over keys of heads."""
    kv_heads, group = draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([1, 4, 16]))
    keys, kind = draw(sizes(32768)), draw(st.sampled_from(["gqa", "gqa", "mla"]))
    queries = draw(st.sampled_from([1, keys]))
    return project_attention_op, AttentionOp(
        "generation" if queries == 1 else "context", draw(sizes(128)), queries, keys, kv_heads * group, kv_heads,
        draw(st.sampled_from([64, 96, 128, 256])), "fp16", draw(st.sampled_from([None, "fp8"])), framework=draw(st.sampled_from(FRAMEWORKS)),
        window=draw(st.sampled_from([0, 512])) if kind == "gqa" else 0, kind=kind,
    )  # fmt: skip


@st.composite
def others(draw: st.DrawFn) -> Asked:
    """Experts, and kernels that only move data."""
    if draw(st.booleans()):
        kind, rows = draw(st.sampled_from(KINDS)), draw(sizes(1 << 17))
        return project_memory_op, MemoryOp(kind, float(draw(sizes(1 << 31))), float(draw(sizes(1 << 31))), rows)
    name = draw(st.sampled_from(["bf16", "fp8", "fp8_block", "int4_wo", "mxfp4_wo", "nvfp4"]))
    experts = draw(st.sampled_from([8, 32]))
    return project_moe_op, MoeOp(draw(sizes(512)), draw(sizes(4096)), draw(sizes(4096)), experts, 4, name)


def with_more(spec: GpuSpec, what: str) -> GpuSpec:
    """``spec`` with a quarter more of it."""
    if what == "dram":
        return replace(spec, dram=replace(spec.dram, peak_bytes_per_ns=1.25 * spec.dram.peak_bytes_per_ns))
    if what == "l2":
        return replace(spec, l2=replace(spec.l2, slice_bytes_per_ns=1.25 * spec.l2.slice_bytes_per_ns))
    if what == "clock":
        return replace(spec, clock_hz=1.25 * spec.clock_hz)
    return replace(spec, sm_count=int(1.25 * spec.sm_count) // 2 * 2)


#: How much longer an operator may take with more of it: another tile may be chosen, and more SMs may leave a last wave
#: emptier, or lose more of what L2 holds.
SLOWER = {"dram": 1.02, "l2": 1.15, "clock": 1.15, "sms": 1.3}


@given(
    asked=st.one_of(products(), attention(), others()), gpu=st.sampled_from(sorted(GPUS)), what=st.sampled_from(sorted(SLOWER)),
)  # fmt: skip
def test_an_operator_takes_a_time_within_its_roofs_and_hardly_longer_on_a_gpu_with_more(asked, gpu, what):
    project, op = asked
    spec = load_gpu(gpu)
    try:
        found = project(spec, op, limit_watts=math.inf)
    except SpecError as error:
        assert "no products of" in str(error)
        return
    assert 0 < found.low_seconds <= found.seconds <= found.high_seconds < math.inf
    assert found.dram_bytes <= found.seconds * spec.dram.peak_bytes_per_ns * 1e9
    assert found.reason and found.limiter and found.launches >= 1
    more = project(with_more(spec, what), op, limit_watts=math.inf)
    assert more.seconds <= SLOWER[what] * found.seconds


@pytest.mark.parametrize("gpu", sorted(GPUS))
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 200_000, 8192), (200_000, 1, 1), (1, 1, 1_000_000), (4097, 4099, 4093), (3, 5, 7)]
)
def test_a_product_of_any_shape_takes_a_time(gpu: str, shape: tuple[int, int, int]) -> None:
    found = project_gemm_op(load_gpu(gpu), GemmOp(*shape, GPUS[gpu]))
    assert 1e-6 < found.seconds < 10 and found.high_seconds > found.seconds


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_rows_that_fill_tiles_take_no_longer_than_a_few_more(gpu):
    """Within a tile's rows a product takes as long; one row beyond takes another row of tiles at most."""
    spec = load_gpu(gpu)
    times = [project_gemm_op(spec, GemmOp(rows, 4096, 4096, GPUS[gpu])).seconds for rows in (127, 128, 129, 255, 256)]
    assert all(later > 0.97 * sooner for sooner, later in itertools.pairwise(times))
    assert times[1] < 1.05 * times[0] and times[2] < 2.0 * times[1]


def test_numbers_beyond_all_regions_are_in_the_last_one():
    for op in (MemoryOp("quantize", 1e18, 1e18), MemoryOp("norm", 1e18, 1e18, int(1e18))):
        assert project_memory_op(load_gpu("h100"), op).seconds > 1e5
