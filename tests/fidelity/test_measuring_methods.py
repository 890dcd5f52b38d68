"""What measuring methods report: the launch in the state in which they leave the caches, and what their clock reads
besides it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpusim import cli, simulate
from gpusim.compare.as_measured import simulate_as
from gpusim.compare.case_simulator import CaseSimulator, cache_state
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.silicon.methods import (
    CUPTI_US,
    EVENTS_US,
    HOPPER_EVENTS_US,
    METHODS,
    NCU_CYCLES,
    STREAM_GAP_US,
    UNHELD_EVENTS_US,
    method_named,
    method_of,
)
from gpusim.silicon.row import SiliconRow
from gpusim.trace.record import Trace

SOFTMAX = Path(__file__).parents[2] / "traces" / "recorded" / "softmax-h200.trace"
ROW = SiliconRow("saxpy", shape="n=4096", gpu="h200", cache="cold", toolchain="nvbench 0.1")


def test_where_as_much_is_written_as_l2_holds_a_share_of_the_lines_stays() -> None:
    trace, spec = Trace.load(SOFTMAX), override_gpu(load_gpu("h200"), ["l2.memset_writes_through=false"])
    l2_bytes = spec.l2.total_bytes
    swept, every = (simulate(trace, spec, code=trace, flush=flush) for flush in (False, True))
    some, again, half = (
        simulate(trace, spec, code=trace, overwritten_bytes=size) for size in (l2_bytes, l2_bytes, l2_bytes // 2)
    )
    read, written = "dram__bytes_read.sum", "dram__bytes_write.sum"
    assert some.cycles == again.cycles
    # exp(-1) of the lines stay, exp(-1/2) where half as much is written.
    assert some.counters[read] / swept.counters[read] == pytest.approx(1 - 0.368, abs=0.05)
    assert half.counters[read] / swept.counters[read] == pytest.approx(1 - 0.607, abs=0.05)
    assert swept.counters[written] < some.counters[written] < every.counters[written]
    with pytest.raises(UsageError, match="not both"):
        simulate(trace, "h200", flush=True, overwritten_bytes=1)
    with pytest.raises(UsageError, match="give 0 or more"):
        simulate(trace, "h200", overwritten_bytes=-1)


def test_a_memset_that_writes_through_leaves_nothing_else_and_its_first_lines_to_be_written_back() -> None:
    trace, spec = Trace.load(SOFTMAX), load_gpu("h200")
    assert spec.l2.memset_writes_through
    read, evicted, size = "dram__bytes_read.sum", "l2__evicted_dirty_sectors.sum", spec.l2.total_bytes
    swept = simulate(trace, spec, code=trace)
    whole, half = (simulate(trace, spec, code=trace, overwritten_bytes=each).counters for each in (size, size // 2))
    # Both halves may ask DRAM for a sector before either has it: as often as their requests happen to meet.
    assert whole[read] == pytest.approx(swept.counters[read], rel=0.1) and whole[read] > 0
    assert half[read] == 0  # half of L2 had been free: what the launch had brought is still there
    # What a small launch displaces is dirty, and would not be if the newest lines were.
    newest = override_gpu(spec, ["l2.memset_writes_through=false"])
    assert whole[evicted] > 3 * simulate(trace, newest, code=trace, overwritten_bytes=size).counters[evicted]
    # 256 MB are four times an H200's L2 and a little more: they end where lines stay dirty again, as NVBench's do.
    of_triton = simulate(trace, spec, code=trace, flush=True).counters[evicted]
    assert of_triton > 1.5 * simulate(trace, newest, code=trace, flush=True).counters[evicted]


def test_what_a_method_reports_is_the_launches_in_its_state_and_what_its_clock_reads_besides() -> None:
    trace, spec = Trace.load(SOFTMAX), load_gpu("h200")
    found = {name: simulate_as(method, [trace], spec) for name, method in METHODS.items()}
    assert found["do_bench"].result.cycles == simulate(trace, spec, code=trace, flush=True).cycles
    assert found["do_bench"].time_us == pytest.approx(found["do_bench"].result.time_us + UNHELD_EVENTS_US)
    # Its code is cold, too, and its counters see the same cycles outside the SMs at any clock.
    assert found["ncu"].time_us == pytest.approx(simulate(trace, spec).time_us + 1e6 * NCU_CYCLES / spec.clock_hz)
    warm = simulate([trace, trace], spec).launches[1].cycles
    assert found["do_bench_cudagraph"].result.cycles == found["nvbench-batch"].result.cycles == warm
    assert found["nvbench-batch"].time_us - found["do_bench_cudagraph"].time_us == pytest.approx(STREAM_GAP_US)
    assert found["nsys"].time_us - found["do_bench_cudagraph"].time_us == pytest.approx(CUPTI_US)
    two = simulate_as(METHODS["events"], [trace, trace], spec)
    assert two.besides_us == pytest.approx(HOPPER_EVENTS_US + STREAM_GAP_US) and len(two.result.launches) == 2
    # A profiler's records are of one launch each.
    assert METHODS["nvbench-cold"].besides_us(1e9, 1, "ada") == EVENTS_US  # of one whose launches say nothing else
    assert METHODS["nsys"].besides_us(1e9, 2) == pytest.approx(2 * CUPTI_US)
    assert METHODS["ncu"].besides_us(1e9, 2) == pytest.approx(2e-3 * NCU_CYCLES)
    with pytest.raises(UsageError, match="there is no measuring method 'nvbench'"):
        method_named("nvbench")


def test_rows_of_nvbench_are_compared_as_it_measures(tmp_path: Path) -> None:
    warm, other = replace(ROW, cache="warm"), replace(ROW, toolchain="nvcc 13")
    assert [method_of(row) for row in (ROW, warm, other)] == [METHODS["nvbench-cold"], METHODS["nvbench-batch"], None]
    assert [cache_state(row)[0] for row in (ROW, warm, other)] == ["overwritten", "warm", "cold"]
    simulator = CaseSimulator(load_gpu("h200"), tmp_path)
    (launch,) = simulator.add("saxpy", {"n": 4096})
    cycles = simulator.simulate(launch, "overwritten", 1e9).cycles
    assert simulator.cycles(ROW, launch, 1e9) == pytest.approx(cycles + 1e3 * HOPPER_EVENTS_US)
    assert simulator.cycles(other, launch, 1e9) == simulator.simulate(launch, "cold", 1e9).cycles
    profiled = SiliconRow("saxpy", shape="n=4096", gpu="h200", cache="cold", method="ncu")
    assert [
        simulator.cycles(profiled, launch, hz) - simulator.simulate(launch, "alone", hz).cycles for hz in (1e9, 2e9)
    ] == [
        pytest.approx(NCU_CYCLES),
        pytest.approx(NCU_CYCLES),
    ]


def test_the_command_line_says_what_a_method_would_report(capsys) -> None:
    asked = ["simulate", "saxpy:n=4096", "--gpu", "h200", "--measured-by", "nvbench-cold"]
    assert cli.run([*asked, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["measured_by"]["method"] == "nvbench-cold"
    assert document["measured_by"]["time_us"] == pytest.approx(document["time_us"] + HOPPER_EVENTS_US)
    assert cli.run(asked) == 0
    assert "nvbench-cold would report" in capsys.readouterr().out
    assert cli.run([*asked, "--why"]) == 2
    assert "--why goes without it" in capsys.readouterr().err
    assert cli.run([*asked, "--gpu", "a40"]) == 2
    assert "--measured-by is for one run" in capsys.readouterr().err


def test_rows_timed_by_cuptis_records_keep_their_state_and_get_what_its_stamps_add(tmp_path: Path) -> None:
    simulator = CaseSimulator(load_gpu("h200"), tmp_path)
    (launch,) = simulator.add("saxpy", {"n": 4096})
    for state in ("cold", "warm"):
        row = replace(ROW, method="cupti", cache=state, toolchain="gpusim")
        assert cache_state(row) == (state, "")
        assert simulator.cycles(row, launch, 1e9) == pytest.approx(
            simulator.simulate(launch, state, 1e9).cycles + 1e3 * CUPTI_US
        )
