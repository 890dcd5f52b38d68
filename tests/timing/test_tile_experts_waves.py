"""Tiles of experts that fill the fewest waves, and rows that a kernel of its own converts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim.gpus.load import load_gpu
from gpusim.tile.gemm import project_gemm
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.moe_waves import conversion_trips, wave_tile
from gpusim.tile.product import GemmOp, library_for, shape_of

H100 = load_gpu("h100")


@pytest.mark.parametrize(
    ("mean_rows", "columns", "experts"), [(32, 512, 8), (64, 1408, 4), (65, 2048, 2), (300, 4096, 32), (1000, 256, 1)]
)
def test_no_width_fills_fewer_waves_or_as_many_with_a_fuller_last_one(mean_rows, columns, experts):
    found = wave_tile(132, mean_rows, columns, 2048, experts)
    assert found.rows == (64 if mean_rows <= 64 else 128)
    tiles = {
        width: experts * ((mean_rows + found.rows - 1) // found.rows) * ((columns + width - 1) // width)
        for width in range(16, 136, 8)
    }
    waves = {width: (count + 131) // 132 for width, count in tiles.items()}
    assert waves[found.columns] == min(waves.values())
    last = {width: count - 132 * (waves[width] - 1) for width, count in tiles.items()}
    assert last[found.columns] == max(last[width] for width in tiles if waves[width] == waves[found.columns])


@pytest.mark.parametrize(("mean_rows", "side"), [(1, 16), (16, 16), (17, 24), (31, 32)])
def test_few_rows_are_the_narrow_side(mean_rows, side):
    found = wave_tile(132, mean_rows, 4096, 2048, 16)
    assert (found.rows, found.columns) == (side, 128)


def test_a_dense_product_fills_waves_too_without_exchanging_operands_and_boxes_have_no_more_rows_than_the_operand():
    op = GemmOp(129, 12288, 7168, "fp8", block_scaled=True, framework="trtllm")
    shape, kernels = shape_of(op), library_for(H100, op)
    assert project_gemm(H100, shape, kernels).tile == wave_tile(132, 129, 12288, 7168, 1, exchanged_below=0)
    # A last tile with one row costs more than a full one; up to 128 rows no box reaches beyond the operand.
    one, full, below, few = (
        project_gemm(H100, replace(shape, rows=rows), kernels).seconds for rows in (129, 256, 128, 100)
    )
    assert one > 1.3 * full and few <= below


def test_stages_are_what_shared_memory_has_room_for():
    for rows in (8, 64, 1000):
        for depth in (128, 7168):
            tile = wave_tile(132, rows, 4096, depth, 16)
            taken = (tile.rows + tile.columns) * 128 * tile.stages + 2 * tile.outputs
            assert taken < 232448
            assert tile.stages == 8 or taken + (tile.rows + tile.columns) * 128 + 4096 > 232448


def test_a_conversion_takes_one_block_an_sm_through_all_rows():
    # 132 blocks of 8 warps: 1,056 parts of 128 elements at a time.
    assert conversion_trips(132, 1024, 132) == 1
    assert conversion_trips(133, 1024, 132) == 2
    assert conversion_trips(132, 1025, 132) == 2
    library = moe_library_of("hopper", "fp8_block", "trtllm")
    op = MoeOp(8192, 4096, 512, 64, 8, "fp8_block", distribution="balanced", framework="trtllm")
    waited = (
        project_moe(H100, op, replace(library, convert_cycles=3e4)).seconds
        - project_moe(H100, op, replace(library, convert_cycles=2e4)).seconds
    )
    trips = 65536 * (4096 + 512) / 128 / (8 * H100.sm_count)
    assert waited == pytest.approx(1e4 * trips / H100.clock_hz, rel=1e-2)


def test_a_choices_block_is_counted_for_this_gpus_choices_alone():
    library = moe_library_of("hopper", "fp8", "trtllm")
    taken = []
    for ep in (1, 4):
        op = MoeOp(4096, 2048, 768, 64, 8, "fp8", ep=ep, distribution="balanced", framework="trtllm")
        slow, fast = (project_moe(H100, op, replace(library, choice_ns=each)).seconds for each in (10.0, 0.0))
        taken.append((slow - fast) / 1e-8)
    assert taken == pytest.approx([32768, 8192])
