"""A trace file gives back exactly the trace that was saved, whatever its shape."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from trace_examples import assert_same_trace, example_trace, in_parts, traces

from gpusim.errors import TraceFormatError
from gpusim.trace import kept
from gpusim.trace.coding import COLUMNS, COUNTS, decode_chunk, encode_chunk
from gpusim.trace.record import BULK, POLL, SCATTERED, SIGNAL, MemoryKind, Trace
from gpusim.trace.validate import check_chunk


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
    trace = example_trace(
        blocks=2000, block_threads=256, blocks_per_chunk=1000, paths=1, instructions=4, loads=range(4)
    )
    assert sum(len(chunk.accesses) for chunk in trace.chunks()) >= 8000
    bases = np.array([0x7F0000000000, 0x7F0010000000, 0x7F0020000000], np.uint64)
    for chunk in trace.chunks():
        row = np.arange(len(chunk.accesses))
        chunk.accesses["address"] = bases[row % 3] + (row // 3 * 256).astype(np.uint64)
        chunk.accesses["stride"], chunk.accesses["mask"] = 8, 2**32 - 1
    path = tmp_path / "t.trace"
    trace.save(path)
    assert path.stat().st_size < 0.05 * trace.warp_instructions + 2000
    assert_same_trace(trace, Trace.load(path))


def test_equal_scattered_patterns_cost_a_pattern_once(tmp_path: Path) -> None:
    """What a warp that covers two rows of a tile records: lanes without a stride, alike at every access."""
    trace = example_trace(blocks=500, block_threads=256, blocks_per_chunk=500, paths=1, instructions=4, loads=range(4))
    (chunk,) = trace.chunk_list
    n = len(chunk.accesses)
    assert n >= 4000
    chunk.accesses["stride"], chunk.accesses["address"], chunk.accesses["mask"] = SCATTERED, np.arange(n), 2**32 - 1
    lanes = np.arange(32) % 16 * 4 + np.arange(32) // 16 * 4096
    rows = (0x7F0000000000 + np.arange(n)[:, None] * 64 + lanes).astype("<u8")
    trace.chunk_list[0] = replace(chunk, scattered=rows)
    path = tmp_path / "t.trace"
    trace.save(path)
    assert path.stat().st_size < 0.06 * rows.nbytes / 32
    assert_same_trace(trace, Trace.load(path))


def test_loops_in_loops_cost_nothing_once_a_warp_has_shown_them() -> None:
    """Steps that no single stride describes, the same for every warp of a path."""
    trace = example_trace(
        blocks=200, block_threads=32, blocks_per_chunk=200, paths=1, instructions=40, loads=tuple(range(40))
    )
    (chunk,) = trace.chunk_list
    per_warp = int(chunk.warps["access_count"][0])
    walk = np.cumsum(np.random.default_rng(1).integers(-999, 999, per_warp)) * 4 + 0x7F0000000000
    warp = np.arange(len(chunk.warps))
    chunk.accesses["address"] = (walk[None, :] + warp[:, None] * 128).reshape(-1)
    chunk.accesses["stride"], chunk.accesses["mask"] = 4, 2**32 - 1
    chunk = replace(chunk, scattered=chunk.scattered[:0])
    payload = encode_chunk(chunk, trace.program)
    columns = np.frombuffer(payload, np.uint8)
    assert (columns != 0).sum() < 0.1 * len(chunk.accesses)
    assert (decode_chunk(payload, trace.program).accesses == chunk.accesses).all()


@given(trace=traces())
def test_parts_of_blocks_join_to_the_blocks(trace: Trace) -> None:
    parts = in_parts(trace, seed=len(trace.chunk_list))
    joined = Trace(trace.program, trace.launch, parts)
    assert joined.warp_instructions == trace.warp_instructions
    assert _by_warp(joined) == _by_warp(trace)


@given(trace=traces())
def test_parts_are_saved_and_loaded_as_they_are(trace: Trace, tmp_path_factory) -> None:
    parts = Trace(trace.program, trace.launch, in_parts(trace, seed=3))
    path = tmp_path_factory.mktemp("trace") / "t.trace"
    parts.save(path)
    assert _by_warp(Trace.load(path)) == _by_warp(trace)
    assert len(Trace.load(path).chunk_list) == len(parts.chunk_list)


@given(trace=traces())
def test_a_trace_collected_in_memory_is_the_same_coded_or_not(trace: Trace) -> None:
    plain = Trace.collect(trace.program, trace.launch, trace.chunk_list)
    before, kept.PLAIN_BYTES = kept.PLAIN_BYTES, 0
    try:
        coded = Trace.collect(trace.program, trace.launch, trace.chunk_list)
    finally:
        kept.PLAIN_BYTES = before
    assert_same_trace(trace, plain)
    assert_same_trace(trace, coded)
    assert trace.warp_instructions == plain.warp_instructions == coded.warp_instructions


def _by_warp(trace: Trace) -> list[tuple]:
    """Runs and lane addresses of each warp of the launch, in order."""
    out = []
    for chunk in trace.chunks():
        assert chunk.first_block * trace.launch.warps_per_block == len(out) and not chunk.open_blocks
        for path, count, start in chunk.warps.tolist():
            runs = chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]].tolist()
            accesses = []
            for address, stride, mask in chunk.accesses[start : start + count].tolist():
                rows = chunk.scattered[address].tolist() if stride == SCATTERED else (address, stride)
                accesses.append((rows, mask))
            out.append((runs, accesses))
    return out


def polling_trace() -> Trace:
    """Two blocks of one warp: the second polls what the first writes."""
    trace = example_trace(blocks=2, blocks_per_chunk=2, seed=3)
    (chunk,) = trace.chunks()
    polls = np.array([(0, 1)], POLL)
    signals = np.array([(1 << 20, 0, 7, 1, 0, 0, 0), (1 << 20, 1, 7, 1, 0, 0, 1)], SIGNAL)
    return Trace(trace.program, trace.launch, [replace(chunk, polls=polls, signals=signals)])


def test_polls_and_signals_come_back(tmp_path: Path) -> None:
    path, trace = tmp_path / "t.trace", polling_trace()
    trace.save(path)
    (chunk,), (loaded,) = trace.chunks(), Trace.load(path).chunks()
    assert loaded.polls.tolist() == chunk.polls.tolist() and loaded.signals.tolist() == chunk.signals.tolist()


def test_a_chunk_of_version_4_polls_nothing() -> None:
    (chunk,) = polling_trace().chunks()
    program = example_trace(blocks=2, blocks_per_chunk=2, seed=3).program
    payload = encode_chunk(replace(chunk, polls=chunk.polls[:0], signals=chunk.signals[:0]), program)
    numbers = np.frombuffer(payload[: 8 * (len(COUNTS) + len(COLUMNS))], "<i8")
    later = {"polls", "signals", "bulks"}
    held = [c not in later for c in COUNTS] + [count not in later for count in COLUMNS.values()]
    old = numbers[held]  # columns of no numbers have no bytes
    decoded = decode_chunk(old.tobytes() + payload[8 * len(numbers) :], program, version=4)
    assert not len(decoded.polls) and not len(decoded.signals) and not len(decoded.bulks)
    assert decoded.accesses.tolist() == chunk.accesses.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polls": [(0, 99)]}, "are no stretches of its"),
        ({"polls": [(0, 0)]}, "are no stretches of its"),
        ({"signals": [(0, 1, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0, 1)]}, "not in the order of its"),
        ({"signals": [(0, 9999, 0, 1, 0, 0, 0)]}, "not in the order of its"),
        ({"signals": [(0, 0, 0, 1, 2, 0, 1)]}, "names a warp outside the grid of 2 blocks"),
        ({"signals": [(0, 0, 0, 0, 0, 0, 1)]}, "neither writes nor polls"),
    ],
)
def test_polls_and_signals_that_make_no_sense_are_refused(change: dict, message: str) -> None:
    trace = polling_trace()
    (chunk,) = trace.chunks()
    types = {"polls": POLL, "signals": SIGNAL}
    forged = replace(chunk, **{name: np.array(rows, types[name]) for name, rows in change.items()})
    with pytest.raises(TraceFormatError, match=message):
        check_chunk(forged, trace.launch, trace.program, 0)


def copying_trace(**changes: object) -> Trace:
    """Its first accesses each copy a box, the second two."""
    trace = example_trace(blocks=2, blocks_per_chunk=2, seed=3)
    (chunk,) = trace.chunks()
    box = (1 << 46, 1 << 40, (256, -(1 << 20), 0, 0), (8, 3, 1, 1), 128, 4096, 1024, 0, 3, MemoryKind.BULK_LOAD, 3)
    bulks = np.array([box] * 3, BULK)
    bulks["access"], bulks["bytes"][2] = (0, 1, 1), 0
    for name, value in changes.items():
        bulks[name][1] = value
    return Trace(trace.program, trace.launch, [replace(chunk, bulks=bulks)])


def test_bulk_copies_come_back(tmp_path: Path) -> None:
    path, trace = tmp_path / "t.trace", copying_trace()
    trace.save(path)
    (chunk,), (loaded,) = trace.chunks(), Trace.load(path).chunks()
    assert loaded.bulks.dtype == BULK
    np.testing.assert_array_equal(loaded.bulks, chunk.bulks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"access": 0}, ""),
        ({"access": 9999}, "not in the order of its"),
        ({"kind": MemoryKind.LOAD}, "of a kind that does not exist"),
        ({"swizzle": 7}, "of a kind that does not exist"),
        ({"count": (8, 0, 1, 1)}, "of no extent"),
        ({"count": (2**31, 2**31, 1, 1)}, "more than fit"),
        ({"stride": (2**60, 0, 0, 0)}, "more than fit"),
        ({"row_bytes": 0}, "leaves 1048576 bytes of shared memory"),
        ({"shared": (1 << 20) - 4095}, "leaves 1048576 bytes of shared memory"),
        ({"address": 100}, "leaves the address space"),
        ({"address": (1 << 63) + 5}, "leaves the address space"),
    ],
)
def test_bulk_copies_that_make_no_sense_are_refused(change: dict, message: str) -> None:
    trace = copying_trace(**change)
    (chunk,) = trace.chunks()
    if not message:
        check_chunk(chunk, trace.launch, trace.program, 0)
        return
    with pytest.raises(TraceFormatError, match=message):
        check_chunk(chunk, trace.launch, trace.program, 0)
