"""The scheduler: no message too late, nobody woken for nothing, a deadlock reported."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu
from hypothesis import given
from hypothesis import strategies as st

from gpusim.engine import machine, window
from gpusim.engine.arena import Arena
from gpusim.engine.gpu import simulate
from gpusim.engine.inbox import Inbox
from gpusim.engine.l2 import L2Part
from gpusim.engine.run_ahead import RunAhead
from gpusim.engine.sm import SmGroup
from gpusim.engine.window import WindowScheduler
from gpusim.errors import DeadlockError, LaunchError, SpecError, TraceFormatError, UsageError
from gpusim.model.messages import NEVER, RESPONSE

LATENCY = 50


class Echo:
    """Sends every message back ``LATENCY`` after it came, until it has handled ``most``."""

    device = 0

    def __init__(self, name: str, most: int, first: int | None = None) -> None:
        self.name, self.most = name, most
        self.arrivals = [] if first is None else [first]
        self.handled: list[int] = []
        self.advanced_to = self.last_tick = 0
        self.runs = 0
        self.minimum_latency_ticks = LATENCY

    def next_tick(self) -> int:
        return min(self.arrivals, default=NEVER)

    def deliver(self, batch: np.ndarray) -> None:
        assert batch.min() >= self.advanced_to
        self.arrivals += batch.tolist()

    def advance(self, until: int) -> list[np.ndarray]:
        self.runs += 1
        self.advanced_to = until
        out = []
        for tick in sorted(self.arrivals):
            if tick >= until:
                continue
            self.arrivals.remove(tick)
            self.handled.append(tick)
            if len(self.handled) < self.most:
                out.append(tick + LATENCY)
        return [np.array(out, np.int64)] if out else []

    def waiting_for(self) -> str:
        return ""


#: Of the two parts of :func:`exchange`: a message takes 50 ticks, its answer comes 100 after its cause.
AHEAD = RunAhead(
    {"left": {"left": 100, "right": 50}, "right": {"left": 50, "right": 100}}, {"left": {}, "right": {}}, frozenset()
)


def exchange(window: int, swap: bool = False, ahead: RunAhead | None = None) -> tuple[Echo, Echo]:
    """Left begins at tick 7; it ends with left's tenth message."""
    left, right = Echo("left", 10, first=7), Echo("right", 10)
    wires = {"left": {np.dtype(np.int64): [right]}, "right": {np.dtype(np.int64): [left]}}
    WindowScheduler([right, left] if swap else [left, right], wires, window, ahead=ahead).run()
    return left, right


@pytest.mark.parametrize("window", [1, 7, 49, 50])
@pytest.mark.parametrize("swap", [False, True])
def test_messages_arrive_at_their_time_whatever_the_window(window, swap):
    left, right = exchange(window, swap)
    assert left.handled == [7 + 100 * i for i in range(10)]
    assert right.handled == [57 + 100 * i for i in range(9)]


@pytest.mark.parametrize("window", [1, 7, 50])
def test_a_part_that_alone_has_work_runs_ahead_until_an_answer_could_come(window):
    left, right = exchange(window, ahead=AHEAD)  # deliver() sees to it that nothing comes too late
    assert left.handled == [7 + 100 * i for i in range(10)]
    assert right.handled == [57 + 100 * i for i in range(9)]
    ends = [max(tick // window * window + window, (tick + 100) // 64 * 64) for tick in (907, 857)]
    assert [left.advanced_to, right.advanced_to] == ends


def test_running_ahead_saves_turns_and_changes_no_cycle():
    asm = Asm()
    for i in range(40):
        asm.load(lambda b, w, i=i: ((1 << 30) + (i << 20), 4), wait_mask=1)
    trace, gpu = build(asm.exit(wait_mask=1)), small_gpu()
    # With two threads all parts run at once at first, and here nothing is worth sharing; a sample reads all parts at
    # one time.
    alone, held_back = simulate(trace, gpu, threads=2), simulate(trace, gpu, samples=True)
    assert alone.cycles == held_back.cycles
    assert {**alone.counters} == {**held_back.counters}
    assert alone.windows < 0.8 * held_back.windows


@pytest.mark.parametrize(("window", "offset"), [(50, 0), (100, 50), (80, 40), (7, -3)])
def test_parts_that_take_turns_may_have_windows_as_long_as_the_way_round(window, offset):
    left, right = Echo("left", 10, first=7), Echo("right", 10)
    wires = {"left": {np.dtype(np.int64): [right]}, "right": {np.dtype(np.int64): [left]}}
    offsets = {"left": max(0, -offset), "right": max(0, offset)}
    WindowScheduler(
        [left, right], wires, window, offset_ticks=offsets
    ).run()  # deliver() sees to it that nothing comes too late
    assert left.handled == [7 + 100 * i for i in range(10)]
    assert right.handled == [57 + 100 * i for i in range(9)]
    assert (left.runs, right.runs) == (10, 9)


@pytest.mark.parametrize(
    ("window", "offset", "late"), [(100, 50, False), (101, 50, True), (100, 0, True), (100, 51, True)]
)
def test_windows_longer_than_the_way_round_would_let_messages_come_too_late(window, offset, late):
    left, right = Echo("left", 1000), Echo("right", 1000)
    left.arrivals = list(range(100))  # so that both have work in each window
    wires = {"left": {np.dtype(np.int64): [right]}, "right": {np.dtype(np.int64): [left]}}
    scheduler = WindowScheduler([left, right], wires, window, offset_ticks={"right": offset})
    with pytest.raises(AssertionError) if late else contextlib.nullcontext():
        scheduler.run()


def test_a_part_runs_only_in_windows_in_which_it_has_work():
    left, right = exchange(1)
    assert (left.runs, right.runs) == (10, 9)


def crowd(pool=None, parts: int = 5, part: type[Echo] = Echo) -> list[Echo]:
    """Pairs of parts that answer each other, all in the same windows."""
    echoes = [part(f"left{i}", 10, first=7) for i in range(parts)] + [part(f"right{i}", 10) for i in range(parts)]
    message = np.dtype(np.int64)
    wires = {f"left{i}": {message: [echoes[parts + i]]} for i in range(parts)}
    wires |= {f"right{i}": {message: [echoes[i]]} for i in range(parts)}
    WindowScheduler(echoes, wires, LATENCY, pool=pool).run()
    return echoes


@pytest.fixture
def shared(monkeypatch):
    """A thread beside the caller's, which every window is worth."""
    monkeypatch.setattr(window, "WORTH_A_HAND_OVER_NS", -1)
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_parts_that_threads_share_do_what_they_do_one_after_the_other(shared):
    alone = [(echo.name, echo.handled, echo.runs) for echo in crowd()]
    assert [(echo.name, echo.handled, echo.runs) for echo in crowd(shared)] == alone


def test_short_windows_are_not_handed_over():
    class NoPool:
        def submit(self, work):
            raise AssertionError("handed over")

    assert crowd(NoPool())[0].handled


@pytest.mark.parametrize("here", [True, False])
def test_what_a_part_raises_in_a_thread_is_raised_when_none_runs_any_more(shared, here):
    caller, running = threading.get_ident(), []

    class Failing(Echo):
        def advance(self, until):
            running.append(self)
            try:
                if (threading.get_ident() == caller) == here and self.runs == 2:
                    raise ValueError(self.name)
                time.sleep(0.002)  # so that both threads come to have a part
                return super().advance(until)
            finally:
                running.remove(self)

    with pytest.raises(ValueError, match="left|right"):
        crowd(shared, part=Failing)
    assert not running


def test_a_lost_answer_is_reported_as_a_deadlock(monkeypatch):
    advance = L2Part.advance
    monkeypatch.setattr(
        L2Part, "advance", lambda self, until: [batch for batch in advance(self, until) if batch.dtype != RESPONSE]
    )
    asm = Asm().load(lambda b, w: (1 << 30, 4)).exit(wait_mask=1)
    with pytest.raises(DeadlockError, match="by_hand.*gpu0.sm.*1 unanswered reads"):
        simulate(build(asm), small_gpu(), threads=2)  # one thread calls no part's advance where Python need not


def test_impossible_launches_are_refused():
    with pytest.raises(LaunchError, match="shared memory"):
        simulate(build(Asm().exit(), shared_bytes=300 * 1024), small_gpu())
    with pytest.raises(LaunchError, match="registers"):
        simulate(build(Asm().exit(), threads=1024, registers=255), small_gpu())
    with pytest.raises(LaunchError, match="compute capability"):
        simulate(build(Asm().exit(), capability=(8, 0)), small_gpu())
    with pytest.raises(UsageError):
        simulate([], small_gpu())
    with pytest.raises(UsageError, match="threads"):
        simulate(build(Asm().exit()), small_gpu(), threads=0)


def test_a_trace_that_lacks_blocks_is_refused():
    trace = build(Asm().exit(), blocks=10, blocks_per_chunk=4)
    del trace.chunk_list[1]
    with pytest.raises(TraceFormatError, match="block 4"):
        simulate(trace, small_gpu())


def test_a_path_without_instructions_is_refused():
    trace = build(Asm().exit())
    trace.chunk_list[0].runs["count"] = 0
    with pytest.raises(TraceFormatError):
        simulate(trace, small_gpu())


def test_a_block_may_outlive_the_chunks_behind_its_own():
    asm = Asm()
    for i in range(12):
        asm.load(lambda b, w, i=i: ((1 << 30) + (i << 20) * (b == 0), 4), wait_mask=1)
    trace = build(asm.exit(wait_mask=1), blocks=30, blocks_per_chunk=2, shared_bytes=200 * 1024)
    starts, ends = simulate(trace, small_gpu(sm_count=2)).launches[0].block_times.T[:2]
    assert ends[0] > ends[8] and (ends > starts).all()


MESSAGE = np.dtype([("time", "<i8"), ("sequence", "<i4"), ("sm", "<i2"), ("kind", "<i2")])


def test_an_inbox_refuses_more_messages_than_its_keys_can_tell_apart():
    inbox = Inbox(MESSAGE, (("sm", 12), ("sequence", 20)))
    inbox.add(np.zeros(1 << 22, MESSAGE))
    with pytest.raises(SpecError, match="4,194,304 messages wait for one part of the machine"):
        inbox.ordered()


@given(st.lists(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 3)), max_size=30), max_size=6), st.data())
def test_an_inbox_merges_what_comes_in_the_total_order(batches, data):
    inbox, held, sequence = Inbox(MESSAGE, (("sm", 12), ("sequence", 20))), [], 0
    for batch in batches:
        rows = np.zeros(len(batch), MESSAGE)
        for row, (tick, sm) in zip(rows, batch, strict=True):
            row["time"], row["sm"], row["sequence"], sequence = tick, sm, sequence, sequence + 1
        inbox.add(rows)
        held += rows.tolist()
        held.sort(key=lambda row: (row[0], row[2], row[1]))
        assert inbox.next_tick() == (held[0][0] if held else NEVER)
        if data.draw(st.booleans()):
            assert inbox.ordered().tolist() == held
            taken = data.draw(st.integers(0, len(held)))
            inbox.drop(taken)
            del held[:taken]
        assert len(inbox) == len(held)
    assert inbox.ordered().tolist() == held


def test_arena_reuses_the_place_of_finished_chunks():
    asm = Asm().load(lambda b, w: ((1 << 30) + b * 128, 4)).exit(wait_mask=1)
    trace = build(asm, blocks=400, blocks_per_chunk=10)
    arena = Arena()
    sizes = set()
    for chunk in trace.chunks():
        live = arena.add(chunk)
        rows = arena.tables.accesses[live.accesses : live.accesses + len(chunk.accesses)]
        np.testing.assert_array_equal(rows[:, 0], chunk.accesses["address"].astype(np.int64))
        arena.free(live)
        sizes.add(tuple(len(table) for table in arena.tables))
    assert len(sizes) == 1


def test_arena_keeps_live_chunks_while_it_grows():
    asm = Asm()
    for i in range(300):
        asm.load(lambda b, w, i=i: ((1 << 30) + b * 65536 + i * 128, 4), barrier=7)
    trace = build(asm.exit(), blocks=30, blocks_per_chunk=3)
    arena = Arena()
    live = [(chunk, arena.add(chunk)) for chunk in trace.chunks()]
    for chunk, place in live:
        rows = arena.tables.accesses[place.accesses : place.accesses + len(chunk.accesses)]
        np.testing.assert_array_equal(rows[:, 0], chunk.accesses["address"].astype(np.int64))


def test_a_finished_launch_leaves_nothing_to_the_garbage_collector(monkeypatch):
    kept = []
    monkeypatch.setattr(machine, "SmGroup", lambda *spec: kept.append(weakref.ref(group := SmGroup(*spec))) or group)
    gc.collect()
    gc.disable()
    try:
        simulate(build(Asm().exit(), blocks=3), small_gpu(2), threads=2)
        assert len(kept) == 2 and not any(group() for group in kept)
    finally:
        gc.enable()
