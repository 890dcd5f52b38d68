"""A trace file gives back exactly the trace that was saved, whatever its shape."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
from hypothesis import given

from gpusim.trace.record import Trace
from tests.trace_examples import assert_same_trace, example_trace, traces


@given(trace=traces())
def test_a_saved_trace_loads_equal(trace: Trace, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.trace"
    trace.save(path)
    loaded = Trace.load(path)
    assert_same_trace(trace, loaded)
    assert_same_trace(trace, loaded)  # a second pass starts over
    assert loaded.warp_instructions == trace.warp_instructions


def test_saving_a_loaded_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.trace", tmp_path / "b.trace"
    example_trace(seed=3).save(first)
    Trace.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


def test_writing_over_a_trace_that_is_open_leaves_the_open_one_readable(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    old, new = example_trace(seed=1), example_trace(seed=2, blocks=3)
    old.save(path)
    opened = Trace.load(path)
    new.save(path)
    assert_same_trace(old, opened)
    assert_same_trace(new, Trace.load(path))


def test_a_trace_can_be_rewritten_onto_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    trace = example_trace(seed=5)
    trace.save(path)
    Trace.load(path).save(path)
    assert_same_trace(trace, Trace.load(path))


def test_reading_holds_one_chunk_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    trace = example_trace(blocks=2000, block_threads=1024, blocks_per_chunk=50, seed=1)
    trace.save(path)
    chunk_bytes = max(chunk.nbytes for chunk in trace.chunks())
    total_bytes = sum(chunk.nbytes for chunk in trace.chunks())
    loaded = Trace.load(path)
    tracemalloc.start()
    for _ in loaded.chunks():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * chunk_bytes + 200_000 < total_bytes


def test_regular_accesses_cost_almost_nothing_on_file(tmp_path: Path) -> None:
    """Three streams, each warp 256 bytes further on: what a kernel over arrays records."""
    trace = example_trace(blocks=2000, block_threads=256, blocks_per_chunk=1000, paths=1, instructions=20)
    bases = np.array([0x7F0000000000, 0x7F0010000000, 0x7F0020000000], np.uint64)
    for chunk in trace.chunks():
        row = np.arange(len(chunk.accesses))
        chunk.accesses["address"] = bases[row % 3] + (row // 3 * 256).astype(np.uint64)
        chunk.accesses["stride"], chunk.accesses["mask"] = 8, 2**32 - 1
    path = tmp_path / "t.trace"
    trace.save(path)
    assert path.stat().st_size < 0.25 * trace.warp_instructions
    assert_same_trace(trace, Trace.load(path))
