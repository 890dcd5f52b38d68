"""When blocks of a grid begin that depends on the one before programmatically, and how long ``griddepcontrol.wait``
lasts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_traces import Asm, build, small_gpu

from gpusim.engine.chain import ChainResult
from gpusim.engine.chain_supply import MOST_GRIDS
from gpusim.engine.gpu import simulate
from gpusim.engine.graph import gpu_graph
from gpusim.engine.machine import Machine
from gpusim.errors import UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Flag, PipeClass, Trace

START, END, TURNAROUND = 1000, 300, 40
SPEC = small_gpu(
    launch__start_cycles=START, launch__end_cycles=END, launch__block_turnaround_cycles=TURNAROUND,
    launch__dispatch_interval_cycles=1, launch__first_dispatch_interval_cycles=1,
)  # fmt: skip
STALL, STEPS = 10, 400
BODY = STALL * STEPS


def grid(go: int | None = None, wait: int | None = None, steps: int = STEPS, **options: Any) -> Trace:
    """Warps of ``steps`` dependent instructions that let dependents go before number ``go`` of them and wait before
    number ``wait``."""
    asm = Asm()
    for step in range(steps):
        if step == go:
            asm.op(PipeClass.NONE, flags=int(Flag.LAUNCH_DEPENDENTS))
        if step == wait:
            asm.op(PipeClass.NONE, flags=int(Flag.GRID_WAIT))
        asm.op(PipeClass.FMA, STALL)
    sizes: dict[str, Any] = {"blocks": 3, "threads": 128, **options}
    return build(asm.exit(), **sizes)


def chain(*traces: Trace, spec: GpuSpec = SPEC, **how: Any) -> ChainResult:
    with Machine(gpu_graph(spec), **how) as machine:
        return machine.launch_chain(traces)


def alone(trace: Trace, spec: GpuSpec = SPEC) -> int:
    with Machine(gpu_graph(spec)) as machine:
        return machine.launch(trace).cycles


def test_a_grid_without_dependents_takes_as_long_in_a_chain_as_alone() -> None:
    for trace in (grid(), grid(go=0), grid(wait=7), grid(blocks=50, threads=96), grid(blocks=13, threads=1024)):
        result = chain(trace)
        assert result.cycles == alone(trace) == result.grids[0].cycles
        assert result.grids[0].stalls["griddepcontrol"] == 0


def test_a_dependent_that_never_waits_overlaps_wholly() -> None:
    first, second = chain(grid(go=0), grid(steps=100)).grids
    assert second.block_times[:, 1].max() < first.end_cycle and second.cycles <= END + TURNAROUND
    assert second.overlap_cycles == first.end_cycle - second.start_cycle


def test_the_launch_is_hidden_from_the_last_dispatch_on_and_not_before_the_trigger() -> None:
    early, late = chain(grid(go=0), grid()), chain(grid(go=300), grid())
    assert early.grids[1].start_cycle == early.grids[0].start_cycle + 2 + START - TURNAROUND // 2
    assert late.grids[0].let_go_cycle >= late.grids[0].start_cycle + 300 * STALL
    assert late.grids[1].start_cycle == late.grids[0].let_go_cycle + TURNAROUND // 2


def test_a_dependent_that_waits_at_once_saves_the_launch_alone() -> None:
    primary, waiting = grid(go=0), grid(wait=0)
    result = chain(primary, waiting)
    first, second = result.grids
    assert first.end_cycle == alone(primary)
    assert alone(primary) + alone(waiting) - result.cycles == pytest.approx(START, abs=5)
    per_warp = second.stalls["griddepcontrol"] / 12
    assert per_warp == pytest.approx(first.end_cycle - second.start_cycle, abs=5)


def test_what_stands_before_the_wait_is_hidden_too() -> None:
    primary = grid(go=0)
    at_once, later = chain(primary, grid(wait=0)), chain(primary, grid(wait=100))
    assert at_once.cycles - later.cycles == pytest.approx(100 * STALL, abs=5)


def test_without_the_trigger_the_dependent_is_launched_when_the_primary_has_ended() -> None:
    for dependent in (grid(), grid(wait=0)):
        result = chain(grid(), dependent)
        assert result.grids[1].overlap_cycles == 0
        assert result.cycles == pytest.approx(2 * alone(grid()), abs=5)


def test_blocks_that_end_without_the_trigger_count_as_if_they_had_issued_it() -> None:
    """One block of three that takes another path: it issues nothing and ends soon."""
    primary = grid(go=0)
    (chunk,) = primary.chunk_list
    chunk.runs.resize(2, refcheck=False)
    chunk.runs[1] = (1, len(primary.program.instructions) - 1, chunk.runs[0]["mask"])  # from behind the instruction on
    chunk.path_start.resize(3, refcheck=False)
    chunk.path_start[2] = 2
    chunk.warps["path"][8:] = 1
    result = chain(primary, grid())
    assert result.grids[1].start_cycle >= result.grids[0].block_times[2, 1]
    assert result.grids[1].start_cycle < result.grids[0].end_cycle


@pytest.mark.parametrize(
    ("what", "fills"),
    [("threads", {"threads": 1024, "blocks": 6}), ("shared_bytes", {"shared_bytes": 200 << 10}), ("registers", {"registers": 255, "threads": 256})],
)  # fmt: skip
def test_without_room_nothing_overlaps(what: str, fills: dict[str, int]) -> None:
    primary = grid(go=0, **fills)
    needs = {"shared_bytes": 100 << 10} if what == "shared_bytes" else {"registers": 64, "threads": 128}
    full = chain(primary, grid(**needs)).grids
    assert full[1].start_cycle >= full[0].block_times[:, 1].min()
    small = chain(grid(go=0), grid(**needs)).grids
    assert small[1].start_cycle < small[0].block_times[:, 1].min()


def test_each_grid_of_a_longer_chain_waits_for_all_before_it() -> None:
    result = chain(grid(go=0), grid(go=0, wait=0), grid(wait=0))
    ends = [one.end_cycle for one in result.grids]
    for before, own in zip(ends, result.grids[1:], strict=False):
        assert own.end_cycle >= before + BODY
    assert sum(one.cycles for one in result.grids) == result.cycles == ends[-1]


def test_windows_order_and_threads_do_not_show() -> None:
    traces = grid(go=5, blocks=40), grid(go=9, wait=50, blocks=25, threads=224), grid(wait=0, threads=64)
    whole = chain(*traces)
    ways: tuple[dict[str, Any], ...] = ({"window_cycles": 1}, {"window_cycles": 7, "order_seed": 3}, {"threads": 2})
    for how in ways:
        other = chain(*traces, **how)
        assert other.cycles == whole.cycles and other.counters == whole.counters
        for one, same in zip(whole.grids, other.grids, strict=True):
            assert one.stalls == same.stalls and (one.block_times == same.block_times).all()


def storing(blocks: int = 20, **marks: int) -> Trace:
    """Warps that store a line each at their end, ``marks`` as for :func:`grid`."""
    asm = Asm()
    for step in range(8):
        for name, flag in (("go", Flag.LAUNCH_DEPENDENTS), ("wait", Flag.GRID_WAIT)):
            if marks.get(name) == step:
                asm.op(PipeClass.NONE, flags=int(flag))
        asm.op(PipeClass.FMA, STALL)
    for line in range(6):
        asm.store(lambda block, warp, line=line: ((1 << 30) + (line << 20) + 512 * block + 128 * warp, 4))
    return build(asm.exit(), blocks=blocks, threads=128)


def test_a_grid_completes_when_its_last_store_has_been_acknowledged() -> None:
    for trace in (storing(go=0), storing(blocks=3)):
        both = chain(trace, grid(wait=0))
        assert both.grids[0].end_cycle == alone(trace)
        assert both.grids[0].block_times[:, 1].max() + END < alone(trace)  # its blocks have ended before


def clustered(trace: Trace, size: int) -> Trace:
    return replace(trace, launch=replace(trace.launch, cluster=(size, 1, 1)))


def cluster_barrier(**options: Any) -> Trace:
    """Warps that meet at the barrier of their cluster of two."""
    asm = Asm().op(PipeClass.NONE, flags=int(Flag.LAUNCH_DEPENDENTS))
    for _ in range(200):
        asm.op(PipeClass.FMA, STALL)
    asm.op(PipeClass.NONE, flags=int(Flag.CLUSTER_ARRIVE)).op(PipeClass.NONE, flags=int(Flag.CLUSTER_WAIT))
    return clustered(build(asm.exit(), **{"blocks": 12, "threads": 96, **options}), 2)


def test_clusters_in_a_chain_lie_together_and_meet() -> None:
    primary, dependent = cluster_barrier(), cluster_barrier(threads=64, blocks=30)
    assert chain(primary).cycles == alone(primary)
    first, second = chain(primary, dependent).grids
    assert second.overlap_cycles > 0 and second.start_cycle < first.end_cycle
    for each in (first, second):
        pairs = each.block_times.reshape(-1, 2, each.block_times.shape[1])
        assert (pairs[:, 0, 0] == pairs[:, 1, 0]).all() and (pairs[:, 0, 2] != pairs[:, 1, 2]).all()


def test_a_chain_may_be_longer_than_sixteen_and_has_an_end() -> None:
    result = chain(*[grid(go=0, wait=0, steps=150)] * 40)
    assert [one.overlap_cycles > 0 for one in result.grids] == [False, *[True] * 39]
    with pytest.raises(UsageError, match=f"a chain of {MOST_GRIDS + 1} launches, {MOST_GRIDS} are simulated at once"):
        chain(*[grid(steps=1)] * (MOST_GRIDS + 1))


def test_a_recorded_launch_keeps_that_it_is_dependent_and_overlaps_when_simulated(tmp_path: Path) -> None:
    primary, second = grid(go=0), grid(wait=100)
    second = replace(second, program=replace(second.program, files=("by hand",)))
    dependent = replace(second, launch=replace(second.launch, dependent=True))
    dependent.save(tmp_path / "second.trace")
    read = Trace.load(tmp_path / "second.trace")
    assert read.launch.dependent
    second.save(tmp_path / "plain.trace")
    assert b"dependent" not in (tmp_path / "plain.trace").read_bytes()
    result, apart = simulate([primary, read], SPEC), simulate([primary, second], SPEC)
    assert [launch.overlap_cycles for launch in apart.launches] == [None, None]
    at_once = chain(primary, second)
    assert result.cycles == at_once.cycles < apart.cycles
    assert [one.overlap_cycles for one in result.launches] == [one.overlap_cycles for one in at_once.grids]
    assert simulate([primary, read], SPEC, sample=True).cycles == result.cycles  # nothing could be left out


def test_the_interval_of_an_overlapped_launch_says_that_none_was_measured() -> None:
    first, second = (one.result for one in chain(grid(go=0), grid(wait=0)).grids)
    assert first.interval and "no measured run overlapped programmatic dependent launches" not in first.interval.outside
    assert second.interval and "no measured run overlapped programmatic dependent launches" in second.interval.outside
    assert second.interval.low_us < second.time_us < second.interval.high_us


def test_counters_of_a_chain_are_shared_out_by_what_each_grid_asks_for() -> None:
    result = chain(storing(go=0), storing(blocks=60, wait=0))
    name = "lts__t_sectors_op_write.sum"
    one, other = (grid.result.counters[name] for grid in result.grids)
    assert one + other == result.counters[name] and other == 3 * one > 0


def test_a_launch_with_others_work_is_not_simulated_at_once() -> None:
    trace = grid(go=0)
    (chunk,) = trace.chunk_list
    chunk.path_start.resize(3, refcheck=False)
    chunk.path_start[2] = chunk.path_start[1]
    chunk.warps["path"][8:] = 1
    with pytest.raises(UsageError, match="has blocks whose work others have taken over; simulate them one by one"):
        chain(grid(go=0), trace)
