"""Experts whose framework's tuner chose nothing, and those of a GPU whose generation has no rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from operators.tuned_runs import RUN, with_first_tile

from gpusim.gpus.load import load_gpu
from gpusim.tile.described import constants_of, described_library
from gpusim.tile.described_experts import described_experts
from gpusim.tile.machine import tile_machine
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.software import software_of, with_software

H100, A100, B200 = (load_gpu(name) for name in ("h100", "a100_80gb", "b200"))
#: Many experts of few tokens each: their weights are most of the work.
LAYER = {"hidden": 4096, "intermediate": 1536, "experts": 128, "top_k": 8, "distribution": "balanced"}


@pytest.mark.parametrize(("dtype", "framework"), [("fp8", ""), ("bf16", "trtllm")])
def test_the_first_tile_loads_more_of_tokens_than_of_weights(dtype, framework):
    tuned, first = (moe_library_of("hopper", dtype, framework, tuned=each) for each in (True, False))
    (tile,) = first.product_for(H100, 64, 128, 1536, 8).tiles
    assert (tile.rows, tile.columns) == (128, 16) and len(tuned.product_for(H100, 64, 128, 1536, 8).tiles) > 1
    # All else that the framework launches is the same.
    assert (first.routing_ns, first.choice_ns) == (tuned.routing_ns, tuned.choice_ns)
    assert first.product.launch_ns == tuned.product.launch_ns
    op = MoeOp(64, **LAYER, dtype=dtype, framework=framework)
    times = [project_moe(H100, op, each).seconds for each in (tuned, first)]
    assert times[1] > 3 * times[0]
    # Rows outside of an expert cost what those inside do: with all of a tile's rows inside it is not slower.
    inside = replace(first, product=replace(first.product, outside_loads=0.0))
    assert project_moe(H100, op, inside).seconds < times[1]


def test_a_framework_without_a_known_first_tile_is_as_tuned():
    for generation, dtype, framework in (("ampere", "bf16", "trtllm"), ("hopper", "bf16", "vllm")):
        assert moe_library_of(generation, dtype, framework, tuned=False) == moe_library_of(generation, dtype, framework)


def test_a_runs_tile_is_told_by_other_rows_of_the_same_run_alone():
    rows = pd.DataFrame([dict.fromkeys(RUN, 1) | {"moe_ep_size": ep, "untuned": ep != 4, "us": us} for ep, us in ((1, 100.0), (2, 300.0), (4, 300.0))])  # fmt: skip
    # Tuned a row takes 100 us, with the first tile 300.
    off = lambda some: (np.where(some.first_tile, 300.0, 100.0) / some.us - 1).to_numpy()  # noqa: E731
    found = with_first_tile(rows.assign(us=0.0), rows, off)
    assert list(found.first_tile) == [False, True, False]
    # A run of which nothing else was measured is taken as tuned.
    assert not with_first_tile(rows, rows.head(1), off).first_tile.any()


def test_experts_of_a_generation_that_no_table_names_have_what_its_description_says():
    for spec in (H100, A100):
        unknown = replace(spec, generation="another")
        op = MoeOp(512, **LAYER, framework="trtllm")
        found = project_moe(unknown, op).seconds
        assert found == project_moe(unknown, op, described_experts(unknown, spec.generation)).seconds
        assert found != project_moe(spec, op).seconds
        assert 0.6 < found / project_moe(spec, op).seconds < 1.5


def test_products_and_loads_of_experts_warps_take_turns_and_warp_groups_do_not():
    peak = tile_machine(A100, "bf16").flops_per_cycle * A100.sm_count * A100.clock_hz
    large = MoeOp(65536, 4096, 14336, 8, 2, framework="trtllm", distribution="balanced")
    found = project_moe(A100, large, described_experts(A100, "hopper", constants_of("without_ampere")))
    assert 0.4 < found.flops / found.seconds / peak < 0.55
    assert described_experts(H100, "hopper").product.rate_largest == described_library(H100).rate_largest


def test_grouped_products_split_no_depth_and_have_no_small_tiles_of_warp_groups():
    # One expert of few columns: dense products would split the depth to fill the SMs.
    narrow = MoeOp(4, 7168, 2048, 8, 1, ep=8, tp=32, framework="trtllm", distribution="balanced")
    for spec, around in ((A100, "hopper"), (H100, "ampere")):
        found = described_experts(spec, around)
        assert found.product.most_splits == 1
        split = replace(found, product=replace(found.product, most_splits=0.0))
        assert project_moe(spec, narrow, split).seconds < project_moe(spec, narrow, found).seconds
    assert moe_library_of("hopper", "bf16", "trtllm").product.most_splits == 1
    dense = described_library(H100).tiles
    kept = described_experts(H100, "ampere").product.tiles
    assert kept == tuple(tile for tile in dense if tile.outputs >= 128 * 64) and len(kept) < len(dense)
    # Grouped kernels of warps have tiles of 32 by 128.
    assert len(described_experts(A100, "hopper").product.tiles) == len(described_library(A100).tiles)


def test_tiles_that_fill_waves_are_of_warp_groups_alone():
    around = software_of("trtllm", "fp8_block")
    assert with_software(H100, described_library(H100), around).fills_waves
    assert not any(with_software(spec, described_library(spec), around).fills_waves for spec in (A100, B200))


def test_an_sm_that_multiplies_alone_reaches_half_of_the_peak_with_a_square_tile():
    dense = described_library(B200)
    alone = with_software(B200, dense, software_of("trtllm", "fp8"))
    pairs = with_software(B200, dense, replace(software_of("trtllm", "fp8"), alone=False))
    squares = [tile for tile in dense.tiles if tile.rows == tile.columns == 128]
    only = with_software(B200, replace(dense, tiles=tuple(squares)), software_of("trtllm", "fp8"))
    assert only.rate_large == pytest.approx(0.5)
    assert alone.rate_small < alone.rate_medium < alone.rate_large < alone.rate_largest < pairs.rate_largest
    # Of tensor cores that are fed otherwise nothing is said.
    assert with_software(H100, described_library(H100), software_of("trtllm", "fp8")).rate_large == described_library(H100).rate_large  # fmt: skip
