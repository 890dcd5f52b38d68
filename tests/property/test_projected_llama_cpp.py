"""llama.cpp's networks: weights in blocks with scales, kernels of one row and of many, what it launches apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.errors import SpecError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.host import launched_kernels
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.whole import ModelProjection, project_model
from gpusim.tile.machine import tile_machine
from gpusim.tile.operators import GemmOp
from gpusim.tile.product import project_product
from gpusim.tile.scaled import scaled_library

DECODE = Plan("decode", batch=1, sequence=128, dtype="q4_0", framework="llama.cpp")


def _step(gpu: str, plan: Plan = DECODE) -> ModelProjection:
    return project_model(Prices(load_gpu(gpu)), decoder_of("llama3_8b"), plan)


def test_a_token_takes_no_less_than_its_weights_do_from_dram() -> None:
    config = decoder_of("llama3_8b")
    layers = 7.0e9 - 0.02e9  # of 8.03e9 parameters those that are no table of the vocabulary
    logits = config.vocabulary * config.hidden * 210 / 256
    for gpu in ("rtx3060", "rtx4090", "rtx5090", "a100_80gb", "h100"):
        spec = load_gpu(gpu)
        least = (layers * 18 / 32 + logits) / (1e9 * spec.dram.peak_bytes_per_ns)
        assert least < _step(gpu).step.seconds < 4 * least, gpu


def test_fewer_bits_are_read_faster_and_one_row_waits_for_dram() -> None:
    times = [_step("rtx4090", replace(DECODE, dtype=dtype)).step.seconds for dtype in ("q4_0", "q4_k_m", "q8_0")]
    assert times == sorted(times)
    assert 1.4 < times[2] / times[0] < 34 / 18
    op = GemmOp(1, 14336, 4096, "q4_0")
    assert project_product(load_gpu("rtx3060"), op).limiter == "DRAM"


def test_prompts_are_bound_by_issue_and_scaling_and_not_by_the_tensor_cores_rate() -> None:
    """H100's tensor cores multiply 8 bits four times as fast a cycle as an RTX 4090's: both reach the same."""
    ada, hopper, turing = (
        scaled_library(load_gpu(gpu), 512).issued_flops_per_cycle for gpu in ("rtx4090", "h100", "rtx2080ti")
    )
    assert ada == hopper
    assert 0.6 < turing / ada < 0.8  # half of the FP32 lanes, and as many instructions beside them
    op = GemmOp(512, 14336, 4096, "q4_0")
    for gpu in ("rtx4090", "h100", "rtx2080ti"):
        spec = load_gpu(gpu)
        reached = op.rows * op.columns * op.depth * 2 / project_product(spec, op, limit_watts=float("inf")).seconds
        assert reached < scaled_library(spec, 512).issued_flops_per_cycle * spec.sm_count * spec.clock_hz


def test_eight_rows_have_the_kernel_without_tensor_cores_and_nine_have_not() -> None:
    spec = load_gpu("rtx3090")
    assert scaled_library(spec, 8).rule and not scaled_library(spec, 9).rule


def test_what_it_does_not_join_is_launched_apart() -> None:
    joined = _step("rtx4090", replace(DECODE, dtype="int4_wo", framework="vllm"))
    apart = _step("rtx4090")
    assert launched_kernels(apart.items) > 1.5 * launched_kernels(joined.items)
    names = [item.operator.name for item in apart.items]
    assert "queries, keys, values" not in names and "residual" in names
    # Gate and up of one token are one kernel with the activation; of a prompt they are not.
    assert "gated activation" not in names
    prompt = _step("rtx4090", replace(DECODE, phase="prefill", sequence=512))
    assert "gated activation" in [item.operator.name for item in prompt.items]


def test_logits_are_of_six_bits_where_layers_are_of_four() -> None:
    formats = {}
    for dtype in ("q4_0", "q8_0"):
        step = _step("rtx4090", replace(DECODE, dtype=dtype))
        (logits,) = (item.operator.op for item in step.items if item.operator.name == "logits")
        assert isinstance(logits, GemmOp)
        formats[dtype] = logits.dtype
    assert formats == {"q4_0": "q6_k", "q8_0": "q8_0"}


def test_a_request_is_no_surer_than_the_published_ones() -> None:
    plan = replace(DECODE, phase="request", sequence=512, output=64)
    found = project_request(Prices(load_gpu("rtx4090")), decoder_of("llama3_8b"), plan)
    assert found.seconds.high_seconds > 1.05 * found.seconds.seconds


def test_gpus_without_products_of_eight_bits_and_experts_say_so() -> None:
    with pytest.raises(SpecError, match="no products of int8"):
        _step("v100", replace(DECODE, phase="prefill"))
    with pytest.raises(UsageError, match="give --framework vllm, sglang or trtllm"):
        project_model(Prices(load_gpu("rtx4090")), decoder_of("qwen3_30b_a3b"), DECODE)
    with pytest.raises(UsageError, match="has no engine 'v0'"):
        replace(DECODE, engine="v0")


def test_a_network_of_experts_is_refused_with_what_to_give_instead() -> None:
    with pytest.raises(UsageError, match="mixtral_8x7b has experts.* give --framework vllm, sglang or trtllm"):
        project_model(Prices(load_gpu("h100")), decoder_of("mixtral_8x7b"), DECODE)


def test_an_rtx_3090_reads_long_keys_near_what_its_dram_has() -> None:
    # Not at the share of L2's rate that an A100's SMs reach, and by more blocks than there are heads.
    spec = load_gpu("rtx3090")
    plan = Plan("decode", batch=1, sequence=131072, dtype="q4_0", framework="llama.cpp")
    for kv_heads in (8, 32):
        config = replace(decoder_of("llama3_8b"), kv_heads=kv_heads)
        found = project_model(Prices(spec), config, plan)
        (attention,) = [item for item in found.items if item.operator.name == "attention"]
        read = 2 * 2.0 * plan.sequence * kv_heads * 128 / attention.projection.seconds / 1e9
        assert 0.72 * spec.dram.peak_bytes_per_ns < read < spec.dram.peak_bytes_per_ns
    ampere, later = tile_machine(load_gpu("a100_80gb"), "fp16"), tile_machine(spec, "fp16")
    assert ampere.l2_share(0.3, 35.7) == pytest.approx(0.3, rel=0.01)
    assert later.l2_share(0.3, 35.7) * later.l2_bytes_per_cycle / later.sm_count == pytest.approx(0.3 * 35.7)
    assert later.l2_share(0.3, 0.0) == 0.3 and later.l2_share(0.9, 35.7) == 1.0
