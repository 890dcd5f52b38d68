"""Do the rows of an attribution add up, and are they where a count by hand puts them?"""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import Asm, build, run_cycles, small_gpu
from hypothesis import given, settings
from random_programs import launches

from gpusim.engine.gpu import simulate
from gpusim.engine.samples import COLUMNS
from gpusim.engine.utilisation import occupancy, traffic, utilisation
from gpusim.model.counters import WORK_NAMES
from gpusim.report.attribution import WORK, by_instruction, by_line
from gpusim.trace.record import MemoryKind, PipeClass, Space

GPU = small_gpu(sm_count=2)


@settings(max_examples=15)
@given(trace=launches(), other=launches(most_blocks=4))
def test_instructions_and_lines_add_up_to_the_totals_exactly(trace, other):
    result = simulate([trace, other], GPU)
    for rows in (by_instruction(result.launches), by_line(result.launches)):
        assert sum(row.issues for row in rows) == result.counters["smsp__inst_executed.sum"]
        assert sum(row.warp_cycles for row in rows) == result.counters["sm__warps_active.sum"]
        for reason, cycles in result.stalls.items():
            assert sum(row.stalls[reason] for row in rows) == cycles
        for name, columns in WORK.items():
            total = sum(result.counters[WORK_NAMES[column]] for column in columns)
            assert sum(row.work[name] for row in rows) == total, name


def conflicting_load(pitch_bytes: int) -> Asm:
    """A coalesced global load, then a shared load whose lanes lie ``pitch_bytes`` apart."""
    asm = Asm().load(lambda b, w: ((1 << 30) + 4096 * b, 4), barrier=0)
    asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, pitch_bytes), write_barrier=1)
    return asm.exit(wait_mask=3)


def test_sectors_hits_and_conflicts_lie_at_the_instruction_that_caused_them():
    trace = build(conflicting_load(8), blocks=4)
    rows = by_instruction(simulate(trace, GPU, warm=trace).launches)
    assert [row.issues for row in rows] == [4, 4, 4]
    assert [row.work["thread_instructions"] for row in rows] == [128] * 3
    assert [row.work["sectors"] for row in rows] == [16, 0, 0]
    assert [row.work["l1_hit_sectors"] for row in rows] == [16, 0, 0]
    assert [row.work["bank_conflicts"] for row in rows] == [0, 4, 0]
    assert [row.work["data_wavefronts"] for row in rows] == [4, 8, 0]
    assert rows[2].top_stall in ("long_scoreboard", "short_scoreboard") and rows[0].address == 0


def test_without_conflicts_every_access_takes_its_least_passes():
    free = small_gpu(sm_count=2, l1__bank_conflicts=False)
    stride, straight = (simulate(build(conflicting_load(pitch), threads=1024), free) for pitch in (128, 4))
    assert run_cycles(stride) == run_cycles(straight)
    assert stride.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 0
    assert run_cycles(simulate(build(conflicting_load(128), threads=1024), GPU)) > run_cycles(stride) + 250


def test_units_are_as_busy_as_counted_by_hand():
    asm = Asm()
    for _ in range(100):
        asm.op(PipeClass.ALU)
    result = simulate(build(asm.exit(), threads=128), GPU)
    units = {unit.name: unit for unit in utilisation(result.launches, GPU)}
    slots = result.cycles * 2 * 4
    assert units["issue slots"].percent == pytest.approx(100 * 404 / slots)
    alu = GPU.pipes["alu"].interval_cycles
    assert units["ALU pipe"].percent == pytest.approx(100 * 400 * alu / slots)
    assert units["DRAM bus"].percent == units["L2 slices"].percent == 0
    assert "l1tex__t_sector_hit_rate.pct" not in traffic(result.launches)


def test_a_pipe_that_never_rests_is_fully_busy():
    asm = Asm()
    for _ in range(4000):
        asm.op(PipeClass.ALU)
    result = simulate(build(asm.exit(), blocks=2, threads=256), GPU)
    busy = {unit.name: unit.percent for unit in utilisation(result.launches, GPU)}
    assert 95 < busy["ALU pipe"] <= 100


def test_bytes_agree_at_every_level_of_a_cold_read():
    asm = Asm().load(lambda b, w: ((1 << 30) + 1024 * b, 8), 8, barrier=0)
    result = simulate(build(asm.exit(wait_mask=1), blocks=64), GPU)
    moved = traffic(result.launches)
    assert moved["l1tex__t_bytes.sum"] == moved["lts__t_bytes.sum"] == moved["dram__bytes.sum"] == 64 * 256
    assert moved["l1tex__t_sector_hit_rate.pct"] == 0


@pytest.mark.parametrize(
    ("launch", "limiter", "percent"),
    [
        ({"threads": 1024}, "warps", 100.0),
        ({"threads": 1024, "registers": 64}, "registers", 50.0),
        ({"threads": 256, "shared_bytes": 100_000}, "shared_mem", 25.0),
        ({"threads": 32}, "blocks", 50.0),
    ],
)
def test_occupancy_names_what_limits_it(launch, limiter, percent):
    found = occupancy(simulate(build(Asm().exit(), blocks=4, **launch), GPU).launches[0], GPU)
    assert (found["limiter"], found["sm__maximum_warps_per_active_cycle_pct"]) == (limiter, percent)


@settings(max_examples=15)
@given(trace=launches())
def test_samples_end_at_the_totals_and_change_nothing(trace):
    result, sampled = simulate(trace, GPU), simulate(trace, GPU, samples=True)
    assert (sampled.cycles, sampled.counters) == (result.cycles, result.counters)
    table = sampled.launches[0].samples
    assert (np.diff(table, axis=0) >= 0).all()
    last = dict(zip(COLUMNS, table[-1].tolist(), strict=True))
    assert last["cycle"] == result.cycles and last["blocks_ended"] == trace.launch.blocks
    assert last["dram_read_bytes"] == result.counters["dram__bytes_read.sum"]
    assert {name: last[f"stall.{name}"] for name in result.stalls} == result.stalls
    assert result.launches[0].samples is None


@settings(max_examples=15)
@given(trace=launches(most_blocks=6))
def test_samples_depend_neither_on_threads_nor_on_order(trace):
    want = simulate(trace, GPU, samples=True, threads=1).launches[0].samples
    for options in ({"threads": 2}, {"order_seed": 3}):
        np.testing.assert_array_equal(simulate(trace, GPU, samples=True, **options).launches[0].samples, want)


@settings(max_examples=15)
@given(trace=launches())
def test_a_blocks_times_lie_within_the_launch_and_on_an_sm(trace):
    launch = simulate(trace, GPU).launches[0]
    start, end, sm, slot = launch.block_times.T
    assert (start >= 0).all() and (start < end).all() and (end <= launch.cycles).all()
    assert set(sm.tolist()) <= {0, 1} and slot.max() < launch.blocks_per_sm
