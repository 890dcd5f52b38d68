"""Blocks of a tiled product against the machine: each rule of the grid from both sides."""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.tile.grid import LOADS_AHEAD, MULTIPLIES_AHEAD, STARTS_ANEW, run_beside, run_groups

FAST = 1e12
LATENCY, STEP, START, EPILOGUE = 700.0, 10.0, 300.0, 500.0


def run(rows=128, columns=128, depth=1024, *, sms=4, flops=4096.0, dram=FAST, l2=FAST, l2_bytes=1e9, cold=(True, True),
        splits=1, stages=4, blocks=1, events=100_000, fill=FAST, outside=0.0, outside_fill=0.0, box_rows=128, cluster_rows=1, overlap=STARTS_ANEW):  # fmt: skip
    return run_groups(
        np.array([rows]), columns, depth, 128, 128, 64, stages, blocks, splits, 2.0, 2.0, 2.0, sms, flops, fill, l2, dram, 300.0, LATENCY,
        l2_bytes, *cold, STEP, START, EPILOGUE, 32.0, 1.0, outside, outside_fill, box_rows, cluster_rows, overlap, events,
    )  # fmt: skip


STEPS = 1024 // 64
WORK = 2 * 128 * 128 * 64 / 4096
TAIL = EPILOGUE + 128 * 128 / 32


def test_a_single_tile_takes_its_latency_its_steps_and_its_epilogue():
    assert run()[0] == pytest.approx(LATENCY + STEPS * (WORK + STEP) + TAIL, abs=1)


def test_a_second_wave_begins_when_the_first_ends_and_a_full_wave_costs_no_more_than_one_tile():
    one = run()[0]
    assert run(rows=4 * 128)[0] == pytest.approx(one, abs=1)
    assert run(rows=5 * 128)[0] == pytest.approx(2 * one + START, rel=0.1)


def test_blocks_that_stay_load_ahead_and_with_a_second_accumulator_multiply_beside_the_epilogue():
    tiles, inner = 8, STEPS * (WORK + STEP)
    anew, ahead, beside = (
        run(rows=tiles * 128, sms=1, overlap=each)[0] for each in (STARTS_ANEW, LOADS_AHEAD, MULTIPLIES_AHEAD)
    )
    assert anew == pytest.approx(tiles * (LATENCY + inner + TAIL + START), rel=0.1)
    assert ahead == pytest.approx(LATENCY + tiles * (inner + TAIL + START), rel=0.05)
    assert beside == pytest.approx(LATENCY + tiles * (inner + START) + TAIL, rel=0.05)
    # Epilogues follow one another: one that takes longer than the products bounds a tile.
    few = run(rows=tiles * 128, depth=64, sms=1, overlap=MULTIPLIES_AHEAD)[0]
    assert few == pytest.approx(LATENCY + WORK + STEP + tiles * TAIL, rel=0.05)


def test_results_that_l2_does_not_hold_have_left_it_at_the_end_of_blocks_that_stay():
    stored = 8 * 128 * 128 * 2
    kept, lost = (
        run(rows=8 * 128, depth=64, dram=1.0, cold=(False, False), l2_bytes=size, overlap=MULTIPLIES_AHEAD)[0]
        for size in (1e9, 2e5)
    )
    assert kept < 0.5 * stored
    assert lost == pytest.approx(stored, rel=0.1)


def test_operands_come_once_from_dram_where_l2_keeps_them_and_each_time_where_it_does_not():
    size = 1024 * 128 * 2
    stored = 4 * 128 * 512 * 2
    kept, lost = run(512, 512, sms=2)[2], run(512, 512, sms=2, l2_bytes=1.0)[2]
    assert kept == 8 * size + stored
    assert lost > 16 * size
    assert run(512, 512, sms=2, cold=(False, False))[2] == stored


def test_few_bytes_a_cycle_bound_the_product_by_its_bytes():
    cycles, _, moved, _ = run(1024, 1024, sms=64, dram=16.0)
    loaded = moved - 1024 * 1024 * 2
    assert loaded / 16 < cycles < moved / 16 + 20 * LATENCY


def test_loads_ahead_hide_the_latency_of_dram():
    assert run(stages=8, flops=65536.0)[0] < 0.3 * run(stages=1, flops=65536.0)[0]


def test_a_depth_in_parts_fills_more_sms():
    assert run(sms=4, splits=4)[0] < 0.5 * run(sms=4)[0]


def test_two_blocks_an_sm_share_its_tensor_cores():
    assert run(256, 128, sms=1, blocks=2)[3] == run(256, 128, sms=1)[3] == 2 * STEPS * WORK
    assert run(256, 128, sms=1, blocks=2)[0] < run(256, 128, sms=1)[0]


@pytest.mark.parametrize("dram", [FAST, 64.0])
def test_groups_of_steps_change_little(dram):
    fine, coarse = (run(2048, 2048, 4096, sms=16, dram=dram, events=events)[0] for events in (10**9, 2000))
    assert coarse == pytest.approx(fine, rel=0.06)


def beside(rows, *collective, sms=4, dram=FAST):
    """A product of ``rows`` rows of tiles of one column beside a collective (:func:`gpusim.tile.grid.run_beside`)."""
    return run_beside(
        np.array([rows * 128]), 128, 1024, 128, 128, 64, 4, 1, 1, 2.0, 2.0, 2.0, sms, 4096.0, FAST, FAST, dram, 300.0, LATENCY,
        1e9, True, True, STEP, START, EPILOGUE, 32.0, 1.0, 0.0, 0.0, 128, 1, STARTS_ANEW, 100_000, np.array(collective, dtype=float),
    )  # fmt: skip


def test_a_collective_holds_its_sms_until_it_ends_and_no_longer():
    one = beside(1)[0]
    assert beside(3, 1, 8, 10.0 * one, 0.0)[0] == pytest.approx(one, abs=1)
    # A fourth tile waits for a free SM, for one of the others or for the collective's, whichever is free first.
    assert beside(4, 1, 8, 10.0 * one, 0.0)[0] == pytest.approx(2 * one + START, rel=0.1)
    assert beside(4, 1, 1, 0.5 * one, 0.0)[0] == pytest.approx(1.5 * one, rel=0.1)
    assert beside(4, 3, 0, one / 8, 0.0)[0] == pytest.approx(4 * one, rel=0.2)


def test_a_collective_goes_on_when_the_product_has_ended_and_its_pieces_are_all_done():
    *_, pieces, end = beside(1, 2, 50, 1000.0, 0.0)
    assert (pieces, end) == (50, 50 * 1000.0)


def test_a_product_and_a_collective_that_both_want_all_of_dram_get_it_by_their_sms():
    moved = 129 * 1024 * 128 * 2 + 128 * 128 * 128 * 2  # the second operand has one column of tiles, which L2 keeps
    alone = beside(128, sms=64, dram=64.0)[0]
    assert alone == pytest.approx(moved / 64.0, rel=0.05)
    cycles, *_, pieces, end = beside(128, 32, 0, 1024.0, 1024.0 * 64, sms=96, dram=64.0)
    # Stores of the last tiles are not waited for.
    assert cycles == pytest.approx(1.5 * alone, rel=0.1)
    assert pieces * 1024.0 / end == pytest.approx(1 / 3, rel=0.05)
    # One that wants less than its part gets it, and the product the rest.
    cycles, *_, pieces, end = beside(128, 32, 0, 1024.0, 1024.0 * 16, sms=96, dram=64.0)
    assert pieces * 1024.0 / end == pytest.approx(1.0, rel=0.01)
    assert cycles == pytest.approx(alone / 0.75, rel=0.1)
    # One that moves nothing there and holds an SM that the product does not miss changes nothing.
    assert beside(128, 1, 0, 1024.0, 0.0, sms=65, dram=64.0)[0] == pytest.approx(alone, rel=1e-9)


def test_a_block_that_loads_nothing_ahead_waits_for_each_step_however_many_there_are():
    """Steps of a large grid are worked on together, but not those whose loads nothing hides."""
    fine, coarse = (run(1024, 1024, 4096, sms=16, stages=1, events=events)[0] for events in (10**9, 500))
    assert coarse == fine


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_steps_that_are_worked_on_together_wait_for_their_buffers_as_each_alone_does(stages):
    """Of a block whose few bytes a step are on their way for longer than it multiplies."""
    fine, coarse = (run(depth=16384, flops=1e6, stages=stages, events=events)[0] for events in (10**9, 20))
    assert coarse == pytest.approx(fine, rel=0.08)
    assert fine > 0.95 * LATENCY * (16384 // 64) / stages


def test_rows_outside_take_of_l2_where_others_of_their_box_lie_inside_and_only_there():
    slow = {"l2": 50.0, "outside": 3.0}
    # Rows of tiles as many, rows that are loaded fewer.
    assert run(rows=129, **slow)[0] > 1.2 * run(rows=129, l2=50.0)[0]
    assert run(rows=256, **slow)[0] == run(rows=256, l2=50.0)[0]
    # Boxes of eight rows are all inside or all outside.
    assert run(rows=136, box_rows=8, **slow)[0] == run(rows=136, box_rows=8, l2=50.0)[0]


def test_rows_outside_take_of_their_sms_port_too_however_few_blocks_load():
    slow = {"fill": 20.0, "outside": 1e-9, "outside_fill": 3.0}
    times = [run(rows=rows, **slow)[0] for rows in (256, 224, 160)]
    assert times[0] == pytest.approx(run(rows=256, fill=20.0)[0])
    assert times[1] > 1.05 * times[0] and times[2] > times[1]


def test_a_cluster_is_launched_whole_and_its_empty_tiles_hold_places():
    one = run()[0]
    assert run(rows=3 * 128, sms=3, cluster_rows=1)[0] == pytest.approx(one, abs=1)
    assert run(rows=3 * 128, sms=3, cluster_rows=2)[0] == pytest.approx(2 * one + START, rel=0.1)
    # What is empty loads and stores no rows of its own.
    assert run(rows=128, cluster_rows=2)[2] == run(rows=128)[2]


def test_l2_delivers_once_what_blocks_of_a_cluster_take_together_and_none_runs_ahead():
    operand = 1024 * 128 * 2
    assert run(rows=256)[1] == 4 * operand
    assert run(rows=256, cluster_rows=2)[1] == 3 * operand
    assert run(rows=256, cluster_rows=2, box_rows=8)[1] == operand + 2 * operand / 16
    # However few bytes L2 keeps, both rows of tiles have their part of the second operand when it comes from DRAM.
    slow = {"rows": 256, "columns": 2048, "depth": 8192, "sms": 32, "dram": 16.0, "l2_bytes": 1e6}
    operand, stored = 8192 * 128 * 2, 256 * 2048 * 2
    assert run(cluster_rows=2, **slow)[2] == (2 + 16) * operand + stored < run(**slow)[2]


def test_a_deep_product_in_few_events_finds_in_l2_what_it_finds_there_in_many():
    # Each wave loads its pieces once, however many steps are worked on together.
    moved = [
        run(rows=16 * 128, columns=16 * 128, depth=16384, sms=16, l2_bytes=4e6, dram=200.0, events=events)[2]
        for events in (100_000, 100)
    ]
    assert moved[1] == pytest.approx(moved[0], rel=0.1)
