"""Products and memory-bound operators of every dtype and kind: none beats the rates that the description states, and
more work takes no less time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.machine import OPERANDS, has_products, tile_machine
from gpusim.tile.memory import KINDS, MemoryOp
from gpusim.tile.operators import AttentionOp, GemmOp, project_gemm_op, project_memory_op

GPUS = ("a100_80gb", "b200", "h100", "l40s", "rtx5090", "t4")
sizes = st.integers(0, 12).map(lambda power: 1 << power)
few = settings(max_examples=25, deadline=None)


@few
@given(
    gpu=st.sampled_from(GPUS),
    dtype=st.sampled_from(sorted(OPERANDS)),
    rows=sizes,
    columns=sizes,
    depth=sizes,
    scaled=st.booleans(),
)
def test_no_product_beats_its_pipe_or_grows_faster_with_more_work(gpu, dtype, rows, columns, depth, scaled):
    spec = load_gpu(gpu)
    op = GemmOp(rows, columns, depth, dtype, block_scaled=scaled and dtype in ("fp8", "fp4"), input_dtype=dtype)
    try:
        machine = tile_machine(spec, dtype)
    except SpecError as error:
        assert gpu in str(error) and dtype in str(error)
        with pytest.raises(SpecError, match=dtype):
            project_gemm_op(spec, op)
        return
    found = project_gemm_op(spec, op)
    assert found.seconds >= 2.0 * rows * columns * depth / (
        machine.flops_per_cycle * machine.sm_count * machine.clock_hz
    )
    assert found.seconds >= OPERANDS[dtype][0] * columns * depth / (spec.dram.peak_bytes_per_ns * 1e9)
    more = GemmOp(2 * rows, 2 * columns, depth, dtype, block_scaled=op.block_scaled, input_dtype=dtype)
    assert project_gemm_op(spec, more).seconds >= 0.95 * found.seconds


@few
@given(gpu=st.sampled_from(GPUS), kind=st.sampled_from(sorted(KINDS)), power=st.integers(10, 30), rows=sizes)
def test_no_memory_bound_operator_beats_dram(gpu, kind, power, rows):
    spec = load_gpu(gpu)
    half = float(1 << power)
    found = project_memory_op(spec, MemoryOp(kind, half, half, rows))
    if 2 * half > 4 * spec.l2.total_bytes:  # what L2 held before it is not read again
        assert found.seconds >= half / (spec.dram.peak_bytes_per_ns * 1e9)
    assert project_memory_op(spec, MemoryOp(kind, 4 * half, 4 * half, rows)).seconds >= found.seconds


def test_tensor_cores_multiply_what_their_capability_has() -> None:
    has = {
        gpu: {dtype for dtype in OPERANDS if has_products(load_gpu(gpu), dtype)} for gpu in ("v100", "t4", "a100_80gb")
    }
    assert has["v100"] == {"fp16", "fp32"}
    assert has["t4"] == {"fp16", "fp32", "int8", "int4"}
    assert has["a100_80gb"] == {"fp16", "bf16", "fp32", "tf32", "int8", "int4"}
    with pytest.raises(SpecError, match="v100 have no products of bf16; take fp16"):
        tile_machine(load_gpu("v100"), "bf16")


def test_4_bit_floats_are_three_times_as_fast_as_8_bit_ones_on_a_b300_which_has_no_fast_integers() -> None:
    def rate(gpu: str, dtype: str) -> float:
        return tile_machine(load_gpu(gpu), dtype).flops_per_cycle

    assert rate("b200", "fp4") == 2 * rate("b200", "fp8") and rate("b300", "fp4") == 3 * rate("b300", "fp8")
    assert rate("b200", "int8") == rate("b200", "fp8") and rate("b300", "int8") < rate("b300", "bf16")


def test_products_of_fp32_run_on_fma_pipes_and_write_words():
    a100 = load_gpu("a100_80gb")
    assert tile_machine(a100, "fp32").flops_per_cycle * a100.sm_count * a100.clock_hz == pytest.approx(
        19.5e12, rel=0.01
    )
    large = project_gemm_op(a100, GemmOp(4096, 4096, 4096, "fp32"))
    half = project_gemm_op(a100, GemmOp(4096, 4096, 4096, "bf16"))
    assert 15e12 < large.flops / large.seconds < 19.5e12 and large.dram_bytes > 1.9 * half.dram_bytes


def test_latent_attention_refuses_what_it_does_not_model():
    with pytest.raises(SpecError, match="window"):
        AttentionOp("generation", 1, 1, 1024, 128, 1, 576, window=128, kind="mla")
