"""Operators on GPUs whose generation has no rows of them: what is worked out from the description, and what a framework
launches around."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.described import constants_of, described_library
from gpusim.tile.fewest_waves import fewest_waves
from gpusim.tile.library import library_of
from gpusim.tile.machine import tile_machine
from gpusim.tile.mla_described import described_mla, described_mla_context, mla_library_on
from gpusim.tile.mla_library import mla_context_library_of, mla_library_of
from gpusim.tile.operators import AttentionOp, GemmOp, project_attention_op, project_gemm_op
from gpusim.tile.software import product_library, software_of

H100, A100, B200, L40S = (load_gpu(name) for name in ("h100", "a100_80gb", "b200", "l40s"))


def _latents(spec, batch: int, keys: int, heads: int = 16) -> float:
    return project_attention_op(spec, AttentionOp("generation", batch, 1, keys, heads, 1, 576, kind="mla")).seconds


def test_a_generation_with_rows_has_their_figures_and_one_without_its_description():
    assert mla_library_on(H100) == mla_library_of("hopper")
    assert mla_library_on(B200) == described_mla(B200)
    unknown = replace(H100, generation="another")
    assert mla_library_on(unknown) == described_mla(unknown)


def test_a_described_gpu_launches_as_its_tensor_cores_are_fed_and_reaches_a_share_of_what_its_pins_move():
    constants = constants_of()
    launches_ns = [described_library(spec).launch_ns for spec in (B200, H100, A100)]
    assert launches_ns == [constants.tensor_memory_launch_ns, constants.launch_ns, constants.launch_ns]
    assert launches_ns[0] < launches_ns[1]
    # What streams were described to reach of the pins' rate does not come into it twice.
    others = replace(H100, dram=replace(H100.dram, efficiency=0.8))
    reached = [tile_machine(spec, "bf16").dram_bytes_per_cycle * described_library(spec).dram_share for spec in (H100, others)]  # fmt: skip
    assert reached[0] == pytest.approx(reached[1])
    assert reached[0] * H100.clock_hz / 1e9 == pytest.approx(constants.dram_share * H100.dram.peak_bytes_per_ns)


def test_keys_of_latents_are_split_from_capability_9_on_and_gone_through_by_one_block_below():
    for spec, at_least, at_most in ((B200, 1.0, 1.5), (L40S, 7.0, 8.0)):
        assert at_least < _latents(spec, 1, 16384) / _latents(spec, 1, 2048) < at_most


def test_shared_out_keys_leave_no_wave_half_empty():
    # 132 and 133 sequences on 132 SMs: one more of them is one more of them, not a second wave.
    assert _latents(H100, 133, 8192) < 1.03 * _latents(H100, 132, 8192)


def test_latents_of_a_described_gpu_are_worked_out_without_the_rows_of_the_one_left_out():
    alone = described_mla(A100, without="ampere")
    assert alone.most_parts == 1 and alone.launch_ns == pytest.approx(mla_library_of("hopper").launch_ns / 2)
    assert described_mla(A100).launch_ns != alone.launch_ns


def test_what_a_framework_launches_is_the_same_on_every_gpu():
    assert product_library(L40S, "fp8", "trtllm").launch_ns == software_of("trtllm", "fp8").launch_ns
    assert product_library(H100, "fp8", "trtllm") == library_of("hopper", "fp8_trtllm")  # rows of its own
    few = GemmOp(1, 1024, 1024, "fp8")
    slower = project_gemm_op(H100, replace(few, framework="trtllm")).seconds - project_gemm_op(H100, few).seconds
    assert 5e-6 < slower < 9e-6
    # What comes converted waits for no conversion.
    converted = replace(few, framework="trtllm", input_dtype="fp8")
    assert project_gemm_op(H100, converted).seconds < 5e-6


def test_block_scales_are_laid_for_tensor_cores_that_take_them_and_added_up_outside_of_others():
    around, one_more = software_of("trtllm", "fp8_block"), replace(B200, generation="another")
    packed, promoted = (product_library(spec, "fp8_block", "trtllm") for spec in (one_more, L40S))
    assert packed.launch_ns == around.launch_ns + around.packed_ns and packed.ragged_ns == around.ragged_ns
    assert promoted.launch_ns == around.launch_ns and not promoted.ragged_ns
    assert packed.split_k_cycles == promoted.split_k_cycles == math.inf
    dense = library_of("ampere")
    for tile, of_dense in zip(promoted.tiles, dense.tiles, strict=True):
        # As many fused multiply-adds as results, on 128 lanes, each 128 bytes of the depth.
        more = promoted.cycles_a_step(tile) - dense.cycles_a_step(of_dense)
        assert more == pytest.approx(tile.outputs / 128 * tile.depth / 64)


def test_columns_of_scales_laid_anew_take_longer_with_more_rows_and_one_row_is_none():
    kernels = product_library(B200, "fp8_block")

    def more(rows: int) -> float:
        one, next_ = (
            project_gemm_op(B200, GemmOp(each, 256, 1024, "fp8", block_scaled=True)).seconds
            for each in (rows, rows + 1)
        )
        return next_ - one

    assert abs(more(1) - 1e-9 * kernels.ns_of_ragged(2)) < 1e-7
    assert 1e-9 * kernels.ns_of_ragged(17) < more(16) < more(512)
    assert (
        kernels.ns_of_ragged(2049) == kernels.ns_of_ragged(100001) == kernels.ragged_ns + 8 * kernels.ragged_doubling_ns
    )


def test_a_framework_is_named_for_formats_that_it_converts_alone():
    with pytest.raises(SpecError, match="fp8, fp8_block: none is named for int8"):
        project_gemm_op(H100, GemmOp(16, 1024, 1024, "int8", framework="vllm"))
    with pytest.raises(SpecError, match="'onnx' around products of fp8"):
        project_gemm_op(H100, GemmOp(16, 1024, 1024, "fp8", framework="onnx"))


def test_a_second_framework_has_kernels_of_its_own_where_its_rows_set_them():
    deep = GemmOp(16, 256, 65536, "nvfp4")
    assert project_gemm_op(B200, replace(deep, framework="vllm")).seconds == project_gemm_op(B200, deep).seconds
    unsplit = project_gemm_op(B200, replace(deep, framework="trtllm"))
    assert unsplit.seconds > 2 * project_gemm_op(B200, deep).seconds, "TensorRT-LLM's do not split the depth"
    assert unsplit.validated and unsplit.reason != project_gemm_op(B200, deep).reason
    large = GemmOp(8192, 8192, 8192, "fp8_block")
    assert project_gemm_op(B200, replace(large, framework="vllm")).seconds < project_gemm_op(B200, large).seconds


@pytest.mark.parametrize("without", ["", "ampere", "hopper"])
def test_products_in_batches_take_a_launch_longer_than_single_ones_where_none_were_measured(without):
    around = software_of("any", "batch", without)
    assert 1000 < around.launch_ns < 1300 and 0.7 < around.l2_share < 0.75, "an A100's and an H100's rows agree"
    one, two = (GemmOp(128, 512, 128, batch=batch, warm=True) for batch in (1, 2))
    dense = project_gemm_op(B200, one).seconds
    assert dense + 0.9e-6 < project_gemm_op(B200, two).seconds < dense + 1.6e-6


def test_a_batch_finds_what_the_one_before_left_in_l2_up_to_a_share_of_it():
    """Where an H100's and an A100's repeated batches become slower: between 0.72 and 0.74 of L2."""

    def dram_bytes(heads):
        found = project_gemm_op(B200, GemmOp(512, 512, 128, batch=heads, warm=True))
        return found.dram_bytes / heads - 2.0 * 512 * 512

    moved = 2.0 * (512 * 512 + 512 * 128 + 512 * 128)
    fits = int(software_of("any", "batch").l2_share * B200.l2.total_bytes / moved)
    assert dram_bytes(fits) == 0 < dram_bytes(fits + 1)


def test_a_library_that_counts_waves_takes_the_fewest_and_its_steps_wait_in_one():
    tiles = library_of("hopper", "fp8_block").tiles

    def taken(rows, columns):
        found = fewest_waves(tiles, rows, columns, H100.sm_count)
        return found.rows, found.columns, found.step_cycles

    # One wave of 132 blocks: 4 x 32 of 128 x 192 (256 x 96 has as many, and is narrower), 2 x 64 of 256 x 112, 1 x 64
    # of 64 x 16.
    assert taken(512, 6144) == (128, 192, 3500) and taken(192, 12288) == (128, 192, 0)
    assert taken(512, 7168)[:2] == (256, 112) and taken(16, 1024)[:2] == (64, 16)
    # The last row of tiles decides of 256 x 128; two waves do not wait.
    assert taken(1024, 4096) == (256, 128, 3500) and taken(1025, 3072) == (256, 128, 0)
    assert taken(2048, 4096) == (256, 128, 0)
    one, two = (project_gemm_op(H100, GemmOp(rows, 4096, 8192, "fp8_block")).seconds for rows in (1024, 2048))
    assert one > two


def test_a_context_of_latents_is_cut_as_where_it_was_measured_and_no_kernel_writes_its_cache():
    for spec in (A100, H100, B200):
        described = described_mla_context(spec, without=spec.generation)
        measured = mla_context_library_of("ampere")
        assert (described.tiles, described.splits_keys, described.cache_block_ns) == (measured.tiles, 0, 0.0)


def test_a_context_of_latents_moves_each_tokens_latent_whatever_the_heads():
    one, two = (
        project_attention_op(A100, AttentionOp("context", 256, 128, 128, heads, 1, 576, kind="mla")).dram_bytes
        for heads in (1, 2)
    )
    assert 2 * one - two == pytest.approx(2 * 2 * 576 * 256 * 128)  # read and written, of 16 bits
