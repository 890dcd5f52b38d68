"""Number formats of weights and activations: what they weigh, which GPUs multiply them, what a model of them takes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.cli import run
from gpusim.errors import SpecError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.footprint import footprint_of
from gpusim.project.network import decoder_of
from gpusim.project.operator import product
from gpusim.project.plan import WEIGHT_BYTES, Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model
from gpusim.tile.formats import FORMATS, format_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.memory_shapes import memory_op
from gpusim.tile.operators import GemmOp, MoeOp, project_gemm_op, project_moe_op

B200, H100, RTX5090 = (load_gpu(name) for name in ("b200", "h100", "rtx5090"))


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(FORMATS)), gpu=st.sampled_from(("a100_80gb", "b200", "h100", "rtx5090")))
def test_a_product_reads_its_weights_with_their_scales_or_is_refused_with_the_reason(name, gpu):
    spec, known = load_gpu(gpu), FORMATS[name]
    op = GemmOp(8, 16384, 16384, name, input_dtype=name if name in ("tf32", "fp32") else "bf16")
    try:
        tile_machine(spec, known.operands)
    except SpecError:
        with pytest.raises(SpecError, match=f"{gpu} have no products of {known.operands}"):
            project_gemm_op(spec, op)
        return
    found = project_gemm_op(spec, op)
    weights = known.b_bytes * op.columns * op.depth
    assert weights <= found.dram_bytes < 1.05 * weights
    assert found.seconds > weights / (spec.dram.peak_bytes_per_ns * 1e9)


def test_scales_of_each_format_are_those_of_its_definition():
    assert FORMATS["mxfp8"].b_bytes == 33 / 32  # a byte for 32 elements
    assert FORMATS["mxfp4"].b_bytes == 17 / 32
    assert FORMATS["nvfp4"].b_bytes == 9 / 16  # a byte for 16 of half a byte
    assert FORMATS["fp8_block"].a_bytes == 1 + 4 / 128 and FORMATS["fp8_block"].b_bytes == 1 + 4 / 16384
    both = FORMATS["mxfp4_mxfp8"]
    assert (both.a_bytes, both.b_bytes) == (FORMATS["mxfp8"].a_bytes, FORMATS["mxfp4"].b_bytes)
    assert {name for name, each in FORMATS.items() if each.weight_only} == {"int8_wo", "int4_wo", "mxfp4_wo"}
    assert format_of("fp4", block_scaled=True) is FORMATS["nvfp4"]
    with pytest.raises(SpecError, match="no block scales"):
        format_of("bf16", block_scaled=True)
    with pytest.raises(SpecError, match="'fp5': known are bf16"):
        format_of("fp5")


def test_only_tensor_cores_that_take_scales_multiply_mxfp8_and_on_sm_120_at_their_own_rate():
    plain, scaled = (tile_machine(RTX5090, dtype).flops_per_cycle for dtype in ("fp8", "mxfp8"))
    assert scaled == 2 * plain
    assert tile_machine(B200, "mxfp8").flops_per_cycle == tile_machine(B200, "fp8").flops_per_cycle
    with pytest.raises(SpecError, match="no products of mxfp8; weights alone may have few bits"):
        project_gemm_op(H100, GemmOp(64, 64, 64, "mxfp8"))


def test_weights_of_few_bits_shorten_what_reads_weights_and_not_what_multiplies():
    few, many = ([project_gemm_op(H100, GemmOp(rows, 8192, 8192, name)).seconds for name in ("bf16", "mxfp4_wo")] for rows in (8, 8192))  # fmt: skip
    assert few[1] < few[0] / 2
    assert many[1] == pytest.approx(many[0], rel=0.1)
    assert project_gemm_op(H100, GemmOp(8, 8192, 8192, "mxfp4_wo")).launches == 1  # activations keep their 16 bits
    experts = [project_moe_op(B200, MoeOp(32, 2880, 2880, 128, 4, name)) for name in ("bf16", "fp8", "nvfp4")]
    assert experts[0].seconds > experts[1].seconds > experts[2].seconds
    assert experts[2].dram_bytes < 0.3 * experts[0].dram_bytes


def test_experts_may_have_a_format_of_their_own():
    network, prices = decoder_of("gpt_oss_120b"), Prices(H100)
    plain, mixed = (Plan("decode", batch=8, sequence=1024, experts_dtype=name) for name in ("", "mxfp4_wo"))
    found = [project_model(prices, network, plan) for plan in (plain, mixed)]
    assert found[1].step.seconds < 0.6 * found[0].step.seconds
    assert not found[0].footprint.fits and found[1].footprint.fits
    # 63 GB of weights are what the checkpoint of OpenAI's card has (60.8 GiB, table 1), with what is not experts in 16
    # bits.
    assert found[1].footprint.weight_bytes == pytest.approx(60.8 * 2**30, rel=0.02)
    assert {item.operator.op.dtype for item in found[1].items if item.operator.name == "experts"} == {"mxfp4_wo"}
    assert "mxfp4_wo" not in {item.operator.op.dtype for item in found[1].items if isinstance(item.operator.op, GemmOp)}
    with pytest.raises(UsageError, match="llama3_8b has no experts: leave out --experts-dtype"):
        mixed.check(decoder_of("llama3_8b"))
    with pytest.raises(UsageError, match="training in nvfp4"):
        Plan("train", experts_dtype="nvfp4")


def test_queries_keys_and_values_may_have_a_format_of_their_own():
    network, prices = decoder_of("deepseek_v3"), Prices(B200)
    plain = Plan("decode", batch=64, sequence=1024, data_parallel=4, expert_parallel=4, dtype="nvfp4", kv_dtype="fp8")
    whole, same, mixed = (
        project_model(prices, network, replace(plan, attention_dtype=name))
        for plan, name in ((plain, ""), (plain, "nvfp4"), (plain, "bf16"))
    )
    assert whole.step == same.step and whole.footprint == same.footprint
    assert mixed.step.seconds > whole.step.seconds
    # A layer's projections but the one behind attention: 7168 x 2112, 1536 x 24576 and 512 x 32768 (the report's table
    # of sizes).
    weights = network.layers * (7168 * 2112 + 1536 * 24576 + 512 * 32768)
    assert mixed.footprint.weight_bytes - whole.footprint.weight_bytes == pytest.approx(
        weights * (2.0 - WEIGHT_BYTES["nvfp4"]), rel=1e-9
    )
    formats = {
        item.operator.name: item.operator.op.dtype for item in mixed.items if isinstance(item.operator.op, GemmOp)
    }
    assert (formats["queries"], formats["output"]) == ("bf16", "nvfp4")


@given(sequence=st.integers(1, 300), page=st.integers(1, 64))
def test_a_cache_has_whole_pages(sequence, page):
    network = decoder_of("llama3_8b")
    held = [footprint_of(network, Plan("decode", batch=2, sequence=sequence, page_tokens=each), 1e12).kv_bytes for each in (1, page)]  # fmt: skip
    assert held[0] <= held[1] < held[0] * (sequence + page) / sequence
    assert held[1] % (page * held[0] / sequence) == pytest.approx(0, abs=1e-3 * held[0])


@pytest.mark.parametrize("name", sorted(WEIGHT_BYTES))
def test_every_format_of_a_plan_weighs_what_its_name_says(name):
    weighed = footprint_of(decoder_of("llama3_8b"), Plan("decode", dtype=name), 1e12).weight_bytes
    tables = 2 * 2.0 * 128_256 * 4096  # stay in 16 bits
    assert weighed == pytest.approx((8.03e9 - 2 * 128_256 * 4096) * WEIGHT_BYTES[name] + tables, rel=0.01)


def test_memory_operators_move_what_their_kind_moves():
    elements = 64.0 * 4096
    assert (
        memory_op("norm", 64, 4096).read_bytes
        == 2 * memory_op("norm", 64, 4096, residual=False).read_bytes
        == 4 * elements
    )
    gated = memory_op("activation", 64, 4096)
    assert (gated.read_bytes, gated.written_bytes) == (4 * elements, 2 * elements)
    assert memory_op("activation", 64, 4096, gated=False).read_bytes == 2 * elements
    assert memory_op("quantize", 64, 4096, to="nvfp4").written_bytes == elements * 9 / 16
    assert memory_op("sampling", 64, 4096).read_bytes == 4 * elements
    for wrong in (
        ("sort", 1, 1),
        ("copy", 0, 1),
        ("copy", 1, 1 << 31),
        ("copy", 1, 1, "fp5"),
        ("copy", 1, 1, "bf16", "fp8"),
    ):
        with pytest.raises(SpecError):
            memory_op(*wrong)


def test_the_memory_command_prints_what_was_asked_and_refuses_what_has_no_meaning(capsys):
    assert (
        run(["project", "memory", "quantize", "4096", "8192", "--to", "mxfp8", "--gpu", "b200", "--format", "json"])
        == 0
    )
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["kind"], row["rows"], row["columns"], row["to"], row["gpu"]) == (
        "quantize",
        4096,
        8192,
        "mxfp8",
        "b200",
    )
    assert row["read_bytes"] == 2 * 4096 * 8192 and row["written_bytes"] == 4096 * 8192 * 33 // 32
    assert row["us_low"] < row["us"] < row["us_high"]
    assert run(["project", "memory", "norm", "64", "4096"]) == 0
    said = capsys.readouterr().out
    assert "GB/s of DRAM" in said and "TFLOP/s" not in said
    for words, message in (("norm 4 4 --to fp8", "--to is for quantize"), ("copy 4 4 --no-residual", "--no-residual is for norm"), ("copy 4 4 --no-gate", "--no-gate is for activation")):  # fmt: skip
        assert run(f"project memory {words}".split()) == 2
        assert message in capsys.readouterr().err


def test_a_model_takes_the_attention_kernels_of_its_framework():
    network, prices = decoder_of("llama3_8b"), Prices(H100)
    ours, others = (project_model(prices, network, Plan("decode", batch=64, sequence=4096, framework=name)) for name in ("vllm", "trtllm"))  # fmt: skip
    assert ours.step.seconds != others.step.seconds
    assert [item for item in ours.items if item.operator.name != "attention"] == [item for item in others.items if item.operator.name != "attention"]  # fmt: skip
    with pytest.raises(UsageError, match="framework is 'mine': known are vllm, sglang, trtllm"):
        Plan("decode", framework="mine")


def test_a_model_takes_the_kernels_of_experts_of_its_framework_and_their_band():
    network, plan = decoder_of("qwen3_30b_a3b"), Plan("decode", batch=16, sequence=1024, dtype="fp8")
    prices = Prices(H100)

    def experts(framework):
        step = project_model(prices, network, replace(plan, framework=framework))
        return next(item for item in step.items if item.operator.name == "experts")

    for name in ("vllm", "trtllm"):
        item = experts(name)
        alone = project_moe_op(H100, replace(item.operator.op, framework=name))
        assert item.operator.op.framework == name
        assert (item.projection.seconds, item.projection.high_seconds) == (alone.seconds, alone.high_seconds)
    # Where none is named, experts have the kernels that are followed for fp8, as an operator alone has.
    assert experts("").projection == experts("trtllm").projection != experts("vllm").projection


def test_a_command_hands_the_framework_on_to_experts(capsys):
    asked = [
        "project",
        "qwen3_30b_a3b",
        "--phase",
        "decode",
        "--batch",
        "16",
        "--sequence",
        "1024",
        "--dtype",
        "fp8",
        "--operators",
        "--format",
        "json",
    ]
    followed, vllm, trtllm = (
        run([*asked, *named]) or capsys.readouterr().out
        for named in ([], ["--framework", "vllm"], ["--framework", "trtllm"])
    )
    found = [
        next(row for row in json.loads(said) if row.get("operator") == "experts") for said in (followed, vllm, trtllm)
    ]
    told = [(row["us"], row["basis"]) for row in found]
    assert told[0] == told[2] != told[1]


def test_vllms_and_sglangs_int4_weights_have_marlins_products():
    for framework, taken in (("", "vllm"), ("vllm", "vllm"), ("sglang", "vllm"), ("trtllm", "")):
        plan = Plan("decode", 1, 64, dtype="int4_wo", framework=framework)
        assert product(1, 4096, 4096, plan).framework == taken
