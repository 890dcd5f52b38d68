"""Operators of a model on one GPU: what each counts, from both sides of each rule."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.project.layers import Kind, layer_operators
from gpusim.project.load import steps_of
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.tile.attention_context import ContextShape
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import library_of
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.moe_tiles import blocks_per_sm, searched_tile
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
from gpusim.tile.product import library_for, project_product
from gpusim.tile.routing import _whole, expert_rows

H100, A100 = load_gpu("h100"), load_gpu("a100_80gb")


def test_products_of_a_batch_run_side_by_side():
    one, many = (project_gemm_op(H100, GemmOp(64, 512, 128, batch=batch)).seconds for batch in (1, 64))
    assert one < many < 8 * one


def test_half_the_bytes_halve_a_product_of_few_rows_and_their_conversion_is_a_launch():
    wide, narrow = (project_gemm_op(H100, GemmOp(16, 32768, 8192, dtype)) for dtype in ("bf16", "fp8"))
    assert narrow.dram_bytes == pytest.approx(wide.dram_bytes / 2, rel=0.02)
    assert narrow.launches == wide.launches + 1
    bare = project_gemm_op(H100, GemmOp(16, 32768, 8192, "fp8", input_dtype="fp8"))
    assert bare.seconds < narrow.seconds < wide.seconds


def test_a_gpu_with_less_of_drams_rate_for_each_sm_reaches_more_of_it_with_16_bits():
    def share(gpu, dtype):
        spec = load_gpu(gpu) if isinstance(gpu, str) else gpu
        seconds = [project_gemm(spec, GemmShape(8, columns, 8192, dtype)).seconds for columns in (5120, 10240)]
        weight_bytes = 5120 * 8192 * (2 if dtype == "bf16" else 1)
        return weight_bytes / (seconds[1] - seconds[0]) / (1e9 * spec.dram.read_bytes_per_ns)

    # Set on an A100, whose own share it leaves; up to what DRAM alone bounds where an SM has less than 0.81 of an
    # A100's, and between them in between.
    assert share(A100, "bf16") == pytest.approx(0.77, rel=0.03)
    assert share("rtx4090", "bf16") == pytest.approx(0.95, rel=0.02)
    slower = replace(A100, dram=replace(A100.dram, peak_bytes_per_ns=0.9 * A100.dram.peak_bytes_per_ns))
    assert share(slower, "bf16") == pytest.approx(0.77 / 0.9, rel=0.03)
    assert share("rtx4090", "fp8") < 0.8


def test_a_rule_names_the_tile_of_a_product_and_leaves_its_depth_whole():
    for rows, of_tile in ((64, (64, 64)), (65, (64, 128)), (129, (128, 128))):
        found = project_gemm(H100, GemmShape(rows, 256, 65536, "fp8"))
        assert ((found.tile.rows, found.tile.columns), found.splits) == (of_tile, 1)
    # vLLM's goes by columns and depth too.
    for rows, columns, depth, of_tile in ((17, 1280, 1024, (16, 64)), (17, 1281, 1024, (64, 64)), (8192, 256, 6144, (256, 128)), (8192, 256, 6143, (128, 128))):  # fmt: skip
        tile = project_gemm(H100, GemmShape(rows, columns, depth, "fp8"), library_of("hopper", "fp8_vllm")).tile
        assert (tile.rows, tile.columns) == of_tile
    # Where no row of the rule holds the tile is chosen, and the depth whole nonetheless.
    few, more = (project_gemm(A100, GemmShape(rows, 256, 16384, "int8")) for rows in (4, 5))
    assert few.tile.rows == 4 and few.seconds < more.seconds / 2
    assert more.tile in library_of("ampere", "int8").tiles and more.splits == 1
    assert project_gemm(H100, GemmShape(256, 256, 65536)).splits > 1


@pytest.mark.parametrize("rows", [17, 32, 64, 128])
def test_a_step_that_generates_is_bound_by_its_weights_in_dram_however_many_rows_a_tile_leaves_empty(rows):
    spec = load_gpu("h200")
    one, some = (
        project_product(
            spec, GemmOp(count, 57344, 8192, "fp8", input_dtype="fp8", framework="vllm"), limit_watts=math.inf
        )
        for count in (1, rows)
    )
    assert (one.limiter, some.limiter) == ("DRAM", "DRAM")
    assert some.seconds < 1.1 * one.seconds


def test_a_tile_with_a_way_of_its_own_to_its_first_store_keeps_it_where_the_others_have_the_librarys():
    library = library_of("ampere", "int8")
    own = library.rule[0].tile.epilogue_cycles
    assert 0 < library.cycles_to_store(library.rule[0].tile) == own < library.cycles_to_store(library.tiles[0])
    slower = replace(library, epilogue_cycles=library.epilogue_cycles + 5000)
    for rows, longer_us in ((4, 0.0), (5, 5000 / A100.clock_hz * 1e6)):
        times = [project_gemm(A100, GemmShape(rows, 512, 512, "int8"), each).seconds for each in (library, slower)]
        assert 1e6 * (times[1] - times[0]) == pytest.approx(longer_us, abs=0.01)


def test_a_conversion_whose_blocks_wait_takes_the_same_time_a_row_however_short_it_is():
    def converted_ns(rows, depth, framework):
        library = library_for(H100, GemmOp(rows, 64, depth, "fp8", framework=framework))
        both, alone = (
            project_product(
                H100, GemmOp(rows, 64, depth, "fp8", input_dtype=each, framework=framework), library
            ).seconds
            for each in ("bf16", "fp8")
        )
        return 1e9 * (both - alone)

    for short, long, framework, ratio in (
        (32, 1024, "vllm", 1.0),
        (1024, 16384, "vllm", 4.0),
        (32, 1024, "sglang", 3.0),
    ):
        grown = converted_ns(16384, long, framework) / converted_ns(16384, short, framework)
        assert grown == pytest.approx(ratio, rel=0.35), (short, long, framework)
    assert 5 < (converted_ns(16384, 256, "vllm") - converted_ns(8192, 256, "vllm")) / 8192 < 9


def test_scales_of_blocks_are_read_too():
    plain, scaled = (
        project_product(H100, GemmOp(16, 32768, 8192, "fp8", block_scaled=each), library_of("hopper")) for each in (False, True)
    )  # fmt: skip
    assert plain.dram_bytes < scaled.dram_bytes < 1.01 * plain.dram_bytes


@pytest.mark.parametrize(("prefix", "window", "causal"), [(0, 0, True), (5, 0, True), (5, 3, True), (0, 4, True), (2, 9, True), (3, 0, False)])  # fmt: skip
def test_scores_are_those_that_the_mask_leaves(prefix, window, causal):
    met = 0
    for query in range(prefix, prefix + 7):
        keys = range(prefix + 7) if not causal else range(max(0, query + 1 - window) if window else 0, query + 1)
        met += len(keys)
    assert ContextShape(1, 7, 1, 1, 64, prefix=prefix, window=window, causal=causal).scores == met


def test_a_prefix_costs_and_a_window_saves():
    whole, chunk, windowed = (
        project_attention_op(H100, AttentionOp("context", 1, 2048, keys, 32, 8, 128, window=window)).seconds
        for keys, window in ((2048, 0), (16384, 0), (16384, 256))
    )
    assert windowed < whole < chunk / 4


def test_keys_of_eight_bits_are_half_the_bytes():
    wide, narrow = (
        project_attention_op(H100, AttentionOp("generation", 64, 1, 8192, 32, 8, 128, kv_dtype=kv_dtype))
        for kv_dtype in (None, "fp8")
    )
    assert narrow.dram_bytes == pytest.approx(wide.dram_bytes / 2)


def test_keys_that_heads_share_come_once_from_memory_and_once_for_each_from_l2_where_blocks_have_one_head():
    shared, each = (
        project_attention_op(H100, AttentionOp("generation", 64, 1, 8192, 32, 4, 128, each_head=each_head)) for each_head in (False, True)
    )  # fmt: skip
    assert each.dram_bytes == shared.dram_bytes == 2 * 2 * 64 * 4 * 8192 * 128
    assert each.l2_bytes == pytest.approx(8 * each.dram_bytes)
    assert each.seconds > 2 * shared.seconds
    assert not each.validated and shared.validated
    alone = (AttentionOp("generation", 256, 1, 8192, 32, 32, 128, each_head=each_head) for each_head in (False, True))
    plain, same = (project_attention_op(H100, op) for op in alone)
    assert same.dram_bytes == plain.dram_bytes and same.validated


def test_keys_that_a_model_generates_with_come_from_dram_even_where_they_would_fit_into_l2():
    warm, cold = (
        project_attention_op(H100, AttentionOp("generation", 1, 1, 2048, 32, 8, 128, cold=cold)) for cold in (False, True)
    )  # fmt: skip
    assert warm.dram_bytes < cold.dram_bytes == 2 * 2 * 8 * 2048 * 128
    plan = Plan("decode", batch=4, sequence=256)
    found = layer_operators(decoder_of("llama3_8b"), plan, steps_of(plan)[0], Kind(False, 0))
    assert [each.op.cold for each in found if each.name == "attention"] == [True]


def test_latents_are_read_once_for_all_heads():
    few, many = (
        project_attention_op(H100, AttentionOp("generation", 64, 1, 8192, heads, 1, 576, kind="mla")) for heads in (16, 64)
    )  # fmt: skip
    assert many.dram_bytes == few.dram_bytes == 64 * 8192 * 576 * 2


def test_blocks_of_latent_attention_slow_each_other_where_both_sms_of_a_tpc_have_one():
    seconds = {
        batch: project_attention_op(A100, AttentionOp("generation", batch, 1, 8192, 16, 1, 576, kind="mla")).seconds
        for batch in (32, 54, 55, 108, 109, 162, 163)
    }
    assert seconds[54] < 1.05 * seconds[32] < 1.3 * seconds[32] < seconds[55] < seconds[108] < 1.05 * seconds[55]
    # A second wave that leaves every TPC one block is as fast as one alone.
    assert seconds[109] - seconds[108] == pytest.approx(seconds[32], rel=0.05)
    assert seconds[163] - seconds[108] == pytest.approx(seconds[108], rel=0.05)
    assert seconds[162] < seconds[163] - 0.2 * seconds[32]


@pytest.mark.parametrize(
    "distribution", ["balanced", "power_law_1.01", "power_law_1.2", "power_law_1.2_together", "power_law_1.2_heaped"]
)
def test_every_choice_is_given_out_once_and_no_expert_gets_a_token_twice(distribution):
    for tokens in (1, 7, 64, 1000):
        rows = expert_rows(tokens, 64, 6, 1, distribution)
        assert sum(rows) == 6 * tokens
        assert max(rows) <= tokens


def test_a_power_law_loads_one_gpu_more_than_balance_does():
    balanced, uneven = (sum(expert_rows(4096, 128, 8, 8, each)) for each in ("balanced", "power_law_1.2"))
    assert balanced == 4096 * 8 // 8 < uneven


def test_few_choices_are_spread_over_gpus_or_all_on_one():
    for tokens, ep in ((1, 8), (2, 8)):
        spread, together = (expert_rows(tokens, 256, 8, ep, f"power_law_1.2{each}") for each in ("", "_together"))
        assert sum(spread) == tokens  # of tokens x 8 choices on eight GPUs
        assert together == (1,) * 8 * tokens
    # Of sixteen experts to a GPU no more than these; every choice is another expert as long as there are such.
    assert 12 < len(expert_rows(4, 256, 8, 16, "power_law_1.2_together")) <= 16
    assert expert_rows(4, 256, 8, 1, "power_law_1.2_together") == (1,) * 32


def test_what_rounding_misses_reaches_no_more_experts_where_the_most_loaded_get_it():
    for tokens in (2, 4, 8, 16):
        spread, heaped = (expert_rows(tokens, 128, 8, 1, f"power_law_1.2{each}") for each in ("", "_heaped"))
        assert sum(spread) == sum(heaped) == 8 * tokens
        assert len(heaped) < 0.85 * len(spread)
    # Two experts of eight would have more choices than there are tokens: a token takes each once.
    assert max(expert_rows(1000, 8, 2, 1, "power_law_1.2_heaped")) == 1000


@pytest.mark.parametrize("ep", [1, 4, 32])
def test_what_rounding_misses_is_made_up_for_on_every_gpu(ep):
    parts = [
        np.concatenate(_whole(np.array(wanted), 40, ep))
        for wanted in ([0.4] * 96 + [3.0] * 32, [1.6] * 128, [90.0] + [1.0] * 127)
    ]
    for part, total in zip(parts, (134, 205, 217), strict=True):
        assert part.sum() == total and part.min() >= 0 and part.max() <= 40


def test_a_rule_names_the_tile_of_experts_and_a_search_comes_first():
    for spec, tokens, experts, rows in ((H100, 32, 128, 16), (H100, 33, 128, 32), (H100, 513, 128, 128), (A100, 64, 128, 32), (A100, 513, 128, 128)):  # fmt: skip
        (tile,) = moe_library_of(spec.generation).product_for(spec, tokens, experts, 1000).tiles
        assert tile.rows == rows
    for tokens, rows in ((128, 16), (129, 64)):
        (tile,) = moe_library_of("ampere").product_for(A100, tokens, 128, 1000, earlier=True).tiles
        assert tile.rows == rows
    # The nearest number of tokens that was searched: 64 and 96 on eight experts of 3,584.
    for tokens, columns in ((16, 64), (79, 128), (200, 256)):
        (tile,) = moe_library_of("ampere").product_for(A100, tokens, 8, 3584).tiles
        assert tile.columns == columns
    assert searched_tile(A100, 8, 3585, 16) is None
    # An L40S has 99 KiB for a block.
    assert searched_tile(load_gpu("l40s"), 8, 3584, 200) is None is not searched_tile(load_gpu("l40s"), 8, 3584, 2)
    assert searched_tile(load_gpu("b200"), 128, 192, 16) == searched_tile(H100, 128, 192, 16)
    assert len(moe_library_of("hopper", "fp8").product_for(H100, 128, 8, 1000).tiles) > 1


def test_blocks_an_sm_holds_follow_from_shared_memory_and_registers():
    # 4 x (64 + 256) x 64 x 2 bytes fill an A100's 164 KiB; two such blocks fit into no GPU, four of a quarter of the
    # stages do not for their registers.
    assert blocks_per_sm(A100, 64, 256, 64, 8, 4) == 1
    assert blocks_per_sm(H100, 64, 256, 64, 8, 1) == 2
    assert blocks_per_sm(A100, 16, 32, 64, 4, 3) == 8


def test_widths_that_lanes_load_one_by_one_and_experts_elsewhere_cost():
    def seconds(**changed):
        shape = {
            "tokens": 512,
            "hidden": 2688,
            "intermediate": 112,
            "experts": 128,
            "top_k": 6,
            "distribution": "balanced",
        }
        return project_moe_op(H100, MoeOp(**shape | changed)).seconds

    assert seconds(intermediate=116) > 1.5 * seconds() > 1.2 * seconds(intermediate=96)
    # Eight GPUs share the experts: this one's eighth of the work takes more than an eighth of the time, for blocks that
    # only write zeros.
    whole = seconds(tokens=8192, intermediate=1024)
    assert whole / 8 < seconds(tokens=8192, intermediate=1024, ep=8) < whole / 2


def test_experts_of_few_tokens_cost_their_weights():
    few, more = (project_moe_op(H100, MoeOp(t, 4096, 1536, 128, 8, distribution="balanced")) for t in (16, 32))
    weights = 128 * 3 * 4096 * 1536 * 2
    assert few.dram_bytes == pytest.approx(weights, rel=0.05)
    assert few.seconds < more.seconds < 1.3 * few.seconds


def test_small_kernels_are_bound_by_their_launch_and_large_ones_by_their_bytes():
    small, large = (project_memory_op(H100, MemoryOp("norm", each, each, 128)) for each in (16384.0, 4e9))
    assert small.limiter in ("launch", "latency")
    assert small.seconds < 6e-6
    assert large.seconds > 8e9 / 3.35e12


def test_what_is_read_displaces_dirty_lines_until_those_that_were_there_are_gone():
    def written_back(size):
        clean, dirty = (
            project_memory_op(A100, MemoryOp("copy", size, size, cold=True, dirty=each)).dram_bytes for each in (False, True)
        )  # fmt: skip
        return dirty - clean

    assert written_back(1e6) == pytest.approx(2e6)
    # Of large ones what is written comes to DRAM anyway, and half of the places of what L2 keeps are taken by what is
    # read.
    assert written_back(4e9) == pytest.approx(written_back(8e9), rel=1e-6)
    assert 0 < written_back(4e9) < A100.l2.total_bytes / 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: GemmOp(1, 1, 1, batch=0), lambda: GemmOp(1, 1, 1, block_scaled=True), lambda: MemoryOp("sort", 1, 1),
        lambda: MemoryOp("copy", float("nan"), 1), lambda: MoeOp(1, 64, 64, 4, 8), lambda: MoeOp(1, 64, 64, 9, 1, ep=10),
        lambda: AttentionOp("generation", 1, 2, 1, 1, 1, 64), lambda: AttentionOp("both", 1, 1, 1, 1, 1, 64),
        lambda: expert_rows(1, 4, 2, 1, "skewed"), lambda: expert_rows(1, 4, 2, 1, "power_law_x"),
        lambda: project_gemm_op(load_gpu("a100_80gb"), GemmOp(16, 16, 16, "fp8")),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(SpecError):
        wrong()


def test_nvfp4_on_a_b200_goes_through_the_whole_depth_in_one_block_however_few_there_are():
    # vLLM's rows: 49.1 us at 65,536 and 18.4 at 16,384, of 128 to 1,024 columns alike.
    def us(columns: int, depth: int) -> float:
        return 1e6 * project_gemm_op(load_gpu("b200"), GemmOp(64, columns, depth, "nvfp4", input_dtype="bf16")).seconds

    deep, less = us(256, 65536), us(256, 16384)
    assert (deep - less) / (49.1 - 18.4) == pytest.approx(1.0, abs=0.25)
    assert us(1024, 65536) < 1.1 * deep
