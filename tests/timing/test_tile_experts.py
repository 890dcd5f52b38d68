"""Experts of every format and framework on GPUs that no row was measured on: bounds of physics, and what carries over
from one GPU to another."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpusim.cli import run
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.formats import FORMATS
from gpusim.tile.machine import tile_machine, warps_share
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import SCALE_ROWS, framework_of, kind_of, moe_library_of
from gpusim.tile.routing import all_expert_rows, dispatched_tokens

H100, B200, L40S, A100 = (load_gpu(name) for name in ("h100", "b200", "l40s", "a100_80gb"))
LAYER = {"hidden": 2048, "intermediate": 768, "experts": 64, "top_k": 8, "distribution": "balanced"}


@pytest.mark.parametrize("framework", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo", "mxfp4_wo"])
@pytest.mark.parametrize("spec", [H100, load_gpu("h200"), B200, load_gpu("b300"), L40S], ids=lambda spec: spec.name)
def test_no_gpu_is_faster_than_its_bytes_and_its_peak_and_more_tokens_take_no_less(spec, dtype, framework):
    if "fp4" in dtype and "_wo" not in dtype and spec not in (B200, load_gpu("b300")):
        pytest.skip("no products of fp4")
    times = []
    for tokens in (4, 64, 4096):
        op = MoeOp(tokens, **LAYER, dtype=dtype, framework=framework)
        machine, found = tile_machine(spec, op.format.operands), project_moe(spec, op)
        bytes_seconds = (3 * 2048 * 768 * min(64, 8 * tokens) * op.format.b_bytes - machine.l2_bytes) / (
            spec.dram.peak_bytes_per_ns * 1e9
        )
        assert found.seconds > bytes_seconds
        assert found.seconds > found.flops / (machine.flops_per_cycle * machine.sm_count * machine.clock_hz)
        times.append(found.seconds)
    assert times[0] < times[1] < times[2]


@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp8_block", "int4_wo"])
@pytest.mark.parametrize("tokens", [16, 8192])
def test_a_newer_gpu_is_faster_by_no_more_than_its_rates(dtype, tokens):
    old, new = (project_moe(spec, MoeOp(tokens, **LAYER, dtype=dtype)).seconds for spec in (H100, B200))
    clocks = B200.clock_hz * B200.sm_count / (H100.clock_hz * H100.sm_count)
    assert 1.0 < old / new < max(2.0 * clocks, B200.dram.peak_bytes_per_ns / H100.dram.peak_bytes_per_ns)


@pytest.mark.parametrize("tokens", [1, 32, 512, 8192])
def test_four_bits_take_no_longer_than_eight_on_tensor_cores_that_multiply_them(tokens):
    # Kernels that expand and activate rows write scales beside four bits, and clear the tiles in which these lie.
    ours = moe_library_of("hopper", "fp8")
    plain = replace(ours, scaled_choice_ns=0.0, scale_row_ns=0.0)
    eight, four = (project_moe(B200, MoeOp(tokens, **LAYER, dtype=name), plain).seconds for name in ("fp8", "nvfp4"))
    assert four <= eight * 1.01
    assert project_moe(B200, MoeOp(tokens, **LAYER, dtype="nvfp4"), ours).seconds > four


@pytest.mark.parametrize(("tokens", "top_k", "experts", "steps"), [(256, 8, 510, 0), (257, 8, 64, 1), (1, 10, 64, 1), (1, 8, 511, 1)])  # fmt: skip
def test_choices_are_sorted_in_three_steps_where_one_block_cannot(tokens, top_k, experts, steps):
    ours = moe_library_of("hopper", "bf16", "trtllm")
    assert ours.sorting_ns(tokens, experts, top_k) == steps * ours.steps_ns
    op = MoeOp(tokens, **LAYER | {"top_k": top_k, "experts": experts}, framework="trtllm")
    with_, without = (project_moe(H100, op, each).seconds for each in (ours, replace(ours, steps_ns=0.0)))
    assert with_ - without == pytest.approx(steps * 1e-9 * ours.steps_ns, abs=1e-12)


def test_kernels_that_write_scales_for_tensor_cores_take_longer_by_choice_and_by_expert():
    ours = moe_library_of("hopper", "fp8")
    assert ours.rows_ns(100, 8, tensor_scaled=False) == 100 * ours.choice_ns
    assert ours.rows_ns(100, 8, tensor_scaled=True) == 100 * ours.scaled_choice_ns + 8 * SCALE_ROWS * ours.scale_row_ns
    assert [name for name, each in FORMATS.items() if each.tensor_scaled] == ["mxfp8", "nvfp4", "mxfp4", "mxfp4_mxfp8"]


def test_kernels_of_warps_gain_nothing_from_newer_units():
    assert warps_share(A100) == 1.0 > warps_share(H100) > warps_share(B200)
    op = MoeOp(8192, 4096, 4096, 8, 2, "int4_wo", distribution="balanced")
    old, new = (project_moe(spec, op).seconds for spec in (A100, B200))
    of_warps = [spec.sm_count * spec.clock_hz * spec.tensor.f16_macs_per_cycle for spec in (A100, B200)]
    assert old / new < 1.15 * of_warps[1] / of_warps[0]
    # With few tokens the weights are all that counts.
    plain, marlin = (project_moe(H100, MoeOp(32, **LAYER, dtype=name)).seconds for name in ("bf16", "int4_wo"))
    assert marlin < 0.7 * plain


def test_times_of_a_family_are_times_at_any_clock():
    known = moe_library_of("hopper", "bf16", "sglang")
    for spec in (A100, H100):
        here = known.on(spec)
        assert here.product.block_start_cycles == pytest.approx(
            known.product.block_start_cycles * spec.clock_hz / 1e6 / known.clock_mhz
        )
        assert here.on(spec) == here
    # GPUs of other generations have what all share, not what an H100's rows alone said.
    shared = moe_library_of("blackwell", "bf16").product
    assert moe_library_of("ampere", "bf16").product.launch_ns == shared.launch_ns
    assert moe_library_of("hopper", "bf16").product.launch_ns != shared.launch_ns
    assert moe_library_of("ampere", "bf16", without="ampere").product != moe_library_of("ampere", "bf16").product


def test_a_framework_has_kernels_of_its_own_and_says_so_where_it_has_none(capsys):
    assert framework_of("bf16") == framework_of("bf16", "vllm") == "vllm"
    assert kind_of("bf16", "vllm") == "moe_bf16" and kind_of("bf16", "trtllm") == "moe_bf16_trtllm"
    vllm, trtllm = (project_moe(H100, MoeOp(8192, **LAYER, ep=8, framework=name)) for name in ("vllm", "trtllm"))
    # vLLM's go over the rows of other GPUs' experts too.
    assert trtllm.seconds < vllm.seconds
    assert vllm.validated and trtllm.validated
    borrowed = project_moe(H100, MoeOp(64, **LAYER, dtype="int4_wo", framework="trtllm"))
    assert not borrowed.validated and "as moe_int4_wo" in borrowed.reason
    with pytest.raises(SpecError, match="framework is 'jax': known are vllm, sglang, trtllm"):
        MoeOp(64, **LAYER, framework="jax")
    asked = ["project", "moe", "64", "--hidden", "2048", "--intermediate", "768", "--experts", "64", "--top-k", "8"]
    capsys.readouterr()
    assert run([*asked, "--dtype", "fp8", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["framework"] == "trtllm"
    assert run([*asked, "--framework", "jax"]) == 2


def test_tokens_that_come_to_a_gpu_are_those_that_chose_one_of_its_experts():
    own, _ = all_expert_rows(1024, 64, 8, 4, "balanced")
    assert dispatched_tokens(1024, 8, 4, "balanced", own) == 1024
    assert dispatched_tokens(1024, 8, 32, "balanced", own) == 256
    assert dispatched_tokens(100, 8, 32, "power_law_1.2", (50, 50)) == 75
    # As many choices as tokens that come, of experts elsewhere too, are this GPU's first expert's in rows that were
    # measured so.
    op = MoeOp(1024, **LAYER | {"ep": 8}, dtype="int4_wo")
    known = moe_library_of("ampere", "int4_wo")
    dispatched, clamped = (project_moe(A100, op, replace(known, choices=name)) for name in ("dispatched", "clamped"))
    assert clamped.flops == pytest.approx(8 * dispatched.flops)
    assert clamped.seconds > 2 * dispatched.seconds


def test_experts_that_gpus_cannot_share_out_evenly_are_projected_for_the_one_with_the_most():
    op = MoeOp(4096, 7168, 2048, 256, 8, "fp8", ep=72, distribution="balanced")
    assert op.own_experts == 4
    fewer, uneven, more = (project_moe(H100, replace(op, ep=ep)) for ep in (64, 72, 128))
    # 72 GPUs have three or four experts each: no faster than four on 64, no slower than two on 128.
    assert more.seconds < uneven.seconds <= fewer.seconds
    for name in ("balanced", "power_law_1.2", "power_law_1.2_together"):
        own, others = all_expert_rows(4096, 256, 8, 72, name)
        assert len(own) <= 4 and sum(own) + sum(others) == 8 * 4096 and sum(own) >= 8 * 4096 / 72
    with pytest.raises(SpecError, match="are 256, fewer than its GPUs that share them out, ep 288"):
        replace(op, ep=288)


def test_a_tile_that_even_loads_are_forced_to_stands_for_skewed_ones_too():
    op = MoeOp(
        16384, 4096, 2048, 256, 8, "fp8", ep=128, distribution="power_law_1.01", block_scaled=True, framework="trtllm"
    )
    assert project_moe(H100, op).seconds > project_moe(H100, replace(op, distribution="balanced")).seconds


def test_steps_of_half_a_line_take_less_of_drams_rate_and_others_all_of_it():
    known = moe_library_of("ampere", "bf16", "sglang")
    assert known.half_line_share < 1.0
    whole = replace(known, half_line_share=1.0)
    # More tokens than experts have Triton's tile of 64 x 64 x 32, whose step takes 64 bytes of a row; fewer that of 16
    # x 32 x 64.
    for tokens, slower in ((96, 1.0 / known.half_line_share), (32, 1.0)):
        op = MoeOp(tokens, 6144, 2048, 64, 2, distribution="balanced", framework="sglang")
        found, other = (project_moe(A100, op, library).seconds for library in (known, whole))
        assert found / other == pytest.approx(slower, rel=0.12 if slower > 1.0 else 1e-9)


def test_weights_that_a_framework_widens_are_read_as_16_bits():
    op = MoeOp(64, 2880, 2880, 128, 4, "mxfp4_wo", distribution="balanced")
    narrow, wide = (project_moe(H100, replace(op, framework=name)).dram_bytes for name in ("vllm", "sglang"))
    assert wide > 128 * 3 * 2880 * 2880 * 2 > 3 * narrow


def test_marlins_blocks_share_out_the_depth_of_one_experts_few_tiles():
    op = MoeOp(256, 7168, 2048, 1, 1, "int4_wo", framework="sglang")
    known = moe_library_of("hopper", "int4_wo")
    assert project_moe(H100, op).seconds < 0.85 * project_moe(H100, op, replace(known, splits=0)).seconds


def test_a_models_experts_come_from_dram_and_those_that_run_again_from_l2_where_they_fit():
    # Two experts of 6 MB; 64 of them are more than L2 holds.
    op = MoeOp(1, 2048, 512, 64, 2, distribution="balanced")
    cold, warm = (project_moe(H100, replace(op, warm=each)) for each in (False, True))
    assert cold.dram_bytes > 2 * 3 * 2048 * 512 * 2 > 10 * warm.dram_bytes
    assert cold.seconds > warm.seconds
    many = replace(op, tokens=512)
    assert project_moe(H100, many).seconds == project_moe(H100, replace(many, warm=True)).seconds


def test_tritons_kernels_have_one_step_less_on_its_way_than_stages():
    op = MoeOp(96, 7168, 128, 16, 1, distribution="balanced", framework="sglang")
    known = moe_library_of("hopper", "bf16", "sglang")
    assert known.waiting_steps == 1
    waiting, ahead = (project_moe(H100, op, replace(known, waiting_steps=each)).seconds for each in (1, 0))
    # 64 blocks whose depth is 224 steps wait for DRAM, no more than two steps each at once.
    assert waiting > 1.1 * ahead
    assert waiting > 0.9 * 224 / 2 * tile_machine(H100, "bf16").dram_latency_cycles / H100.clock_hz
    assert moe_library_of("hopper", "bf16", "trtllm").waiting_steps == 0
