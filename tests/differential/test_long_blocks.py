"""A launch whose blocks are spread over many chunks takes the same cycles, and little room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpusim.engine import supply
from gpusim.engine.gpu import simulate
from gpusim.errors import TraceFormatError
from gpusim.trace.record import RUN, WARP, Chunk, Flag, PipeClass, Trace
from tests.support.hand_traces import Asm, build, small_gpu
from tests.support.trace_examples import in_parts

BODY, TURNS, WARPS = 4, 60, 4


def looping(blocks: int = 9, turns: tuple[int, ...] = (TURNS, 1, 2 * TURNS, 0)) -> Trace:
    """Blocks of four warps that turn round a loop of loads, each as often as ``turns`` says, and end where the loop
    ends or begins: EXIT stands in the loop, and lanes that stay go on behind it."""
    asm = Asm().op(PipeClass.ALU, 4)
    for i in range(BODY - 2):
        asm.load(lambda b, w, i=i: ((1 << 30) + (b * 4 + w) * 8192 + i * 128, 4), barrier=i)
    asm.exit(wait_mask=3)
    trace = build(asm, blocks=blocks, threads=32 * WARPS)
    chunk = trace.chunk_list[0]
    runs, path_start, warps, accesses = [], [0], np.zeros(blocks * WARPS, WARP), []
    for count in turns:
        runs += [(0, BODY, 0xFFFFFFFF)] + [(1, BODY - 1, 0xFFFF)] * count
        path_start.append(len(runs))
    rng, total = np.random.default_rng(1), 0
    for row, (block, warp) in zip(warps, np.ndindex(blocks, WARPS), strict=True):
        loads = (BODY - 2) * (1 + turns[warp])
        row["path"], row["access_start"], row["access_count"] = warp, total, loads
        total += loads
        mine = np.zeros(loads, chunk.accesses.dtype)
        mine["address"] = (1 << 30) + (block * 4 + warp) * 8192 + 128 * rng.integers(0, 64, loads)
        mine["stride"], mine["mask"] = 4, 0xFFFFFFFF
        accesses.append(mine)
    whole = Chunk(
        0, blocks, warps, np.array(runs, RUN), np.array(path_start, np.int64), np.concatenate(accesses), chunk.scattered
    )
    return Trace(trace.program, trace.launch, [whole])


def outcome(trace: Trace, **options):
    result = simulate(trace, small_gpu(2), **options)
    return (
        result.cycles,
        result.stalls,
        {k: v for k, v in result.counters.items()},
        result.launches[0].block_times.tolist(),
    )


@pytest.mark.parametrize("seed", range(6))
def test_parts_of_blocks_take_the_cycles_of_whole_ones(seed):
    whole = looping()
    parts = Trace(whole.program, whole.launch, in_parts(whole, seed))
    assert len(parts.chunk_list) > 1 and any(chunk.open_blocks for chunk in parts.chunk_list)
    assert outcome(parts) == outcome(whole)
    assert outcome(parts, window_cycles=7) == outcome(whole)
    assert outcome(parts, threads=2) == outcome(whole)


def one_part_a_turn(trace: Trace, runs_a_part: int) -> Trace:
    """Each warp's runs handed out a few at a time, all blocks open to the end."""
    (chunk,) = trace.chunk_list
    records = trace.program.instructions["records"].astype(int)
    paths = [chunk.runs[a:b] for a, b in zip(chunk.path_start, chunk.path_start[1:], strict=False)]
    start = chunk.warps["access_start"].astype(int)
    most = max(map(len, paths))
    out = []
    for first in range(0, most, runs_a_part):
        mine = [path[first : first + runs_a_part] for path in paths]
        counts = [sum(int(records[r["first"] : r["first"] + r["count"]].sum()) for r in part) for part in mine]
        warps, accesses = chunk.warps.copy(), []
        for i, row in enumerate(warps):
            row["access_start"], row["access_count"] = sum(map(len, accesses)), counts[row["path"]]
            accesses.append(chunk.accesses[start[i] : start[i] + counts[row["path"]]])
            start[i] += counts[row["path"]]
        path_start = np.concatenate(([0], np.cumsum([len(part) for part in mine])))
        done = first + runs_a_part >= most
        out.append(
            replace(
                chunk, warps=warps, runs=np.concatenate(mine), path_start=path_start, accesses=np.concatenate(accesses),
                open_blocks=0 if done else chunk.blocks,
            )
        )  # fmt: skip
    return Trace(trace.program, trace.launch, out)


def test_a_long_block_is_never_held_as_a_whole(monkeypatch):
    trace = one_part_a_turn(looping(2, (2000, 0, 1500, 2000)), 100)
    held = []
    pull = supply.Supply.pull

    def counted(self, *arguments):
        chunk = pull(self, *arguments)
        held.append(len(self.places))
        return chunk

    monkeypatch.setattr(supply.Supply, "pull", counted)
    parts = outcome(trace, window_cycles=1)  # what lies ahead of a warp is counted in windows
    assert len(held) == len(trace.chunk_list) == 21
    assert max(held) <= 4
    monkeypatch.undo()
    assert parts == outcome(looping(2, (2000, 0, 1500, 2000)))


def test_a_warp_that_ends_early_is_found_by_reading_ahead_once(monkeypatch):
    reads = []
    read = supply.Scout._read

    def counted(self):
        number, chunk = read(self)
        reads.append(number)
        return number, chunk

    monkeypatch.setattr(supply.Scout, "_read", counted)
    outcome(one_part_a_turn(looping(2, (2000, 0, 1500, 2000)), 100), window_cycles=1)
    assert reads == sorted(set(reads)) and len(reads) <= 21
    reads.clear()
    outcome(one_part_a_turn(looping(2, (150, 130, 120, 140)), 100), window_cycles=1)
    assert not reads


def test_whole_launches_run_behind_one_another_in_parts():
    whole = looping()
    parts = Trace(whole.program, whole.launch, in_parts(whole, 4))
    machine = small_gpu(2)
    assert simulate([parts, parts], machine).cycles == simulate([whole, whole], machine).cycles
    assert simulate(parts, machine, warm=parts).launches[0].counters.keys() == simulate(whole, machine).counters.keys()


def test_a_trace_that_ends_in_a_block_is_refused():
    trace = one_part_a_turn(looping(2), 20)
    del trace.chunk_list[-1]
    with pytest.raises(TraceFormatError, match="the trace ends in the middle of a block"):
        outcome(trace)


def test_a_warp_that_executes_nothing_is_refused():
    trace = looping(2)
    (chunk,) = trace.chunk_list
    path_start = chunk.path_start.copy()
    path_start[-1] = path_start[-2]
    trace.chunk_list[0] = replace(chunk, path_start=path_start, runs=chunk.runs[: path_start[-1]])
    with pytest.raises(TraceFormatError, match="a warp without instructions"):
        outcome(trace)


def test_sampling_counts_the_issues_of_blocks_in_parts():
    whole = looping(480, (20, 1, 30, 0))
    trace = Trace(whole.program, whole.launch, in_parts(whole, 8))
    machine = small_gpu(1, sm__max_blocks=4)
    sampled, full = simulate(trace, machine, sample=True), simulate(whole, machine)
    assert sampled.launches[0].sampling.skipped_blocks > 0
    name = "smsp__inst_executed.sum"
    assert sampled.counters[name] == full.counters[name]
    exits = [i for i, row in enumerate(whole.program.instructions) if row["flags"] & Flag.EXIT]
    assert (sampled.launches[0].stalls_by_instruction[exits, 0] >= 0).all()
    assert abs(sampled.cycles / full.cycles - 1) < 0.05
