"""Waiting at simulated time: as long as it takes whoever is waited for, in rounds that cost what they cost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from polling_kernels import SOURCE, capture_polling

from gpusim.engine import poll_watch
from gpusim.engine.gpu import simulate
from gpusim.engine.result import LaunchResult
from gpusim.errors import DeadlockError
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import Trace
from gpusim.why.advice import advise
from gpusim.why.explain import explain

#: Cycles that a round of polling takes at most with nothing in its way: an access to the L2 and the loop around it.
ROUND_CYCLES = 1500


def polling(result: LaunchResult) -> tuple[float, float]:
    """(warp cycles spent polling, instructions issued for it)."""
    return result.counters["sm__warp_cycles_polling.sum"], result.counters["sm__inst_issued_polling.sum"]


@pytest.mark.parametrize("name", ["flags", "late", "inside", "barrier", "tries", "both", "states"])
def test_whoever_waits_waits_for_the_work_of_the_other(name: str) -> None:
    blocks = 1 if name == "inside" else 3
    times = [simulate(capture_polling(name, blocks=blocks, work=work), "h200") for work in (1000, 3000)]
    spent = [polling(result) for result in times]
    longer = times[1].cycles - times[0].cycles
    assert longer > 4 * 2000  # a dependent multiply-add a step
    waiters = {"flags": 2, "late": 2, "inside": 1, "barrier": 2, "tries": 2, "both": 2, "states": 2}[name]
    rounds = 2 if name == "barrier" else 1  # the slow block comes late to both
    assert spent[1][0] - spent[0][0] == pytest.approx(waiters * longer, abs=waiters * rounds * ROUND_CYCLES)
    assert spent[1][1] > spent[0][1] > 0


def test_nobody_waits_for_what_has_been_written() -> None:
    """The only difference is the work of the block that is waited for: without any, the flag is there in time or
    nearly."""
    result = simulate(capture_polling("late", blocks=2, work=0), "h200")
    assert polling(result)[0] < 2 * ROUND_CYCLES


def test_a_lock_is_held_by_one_at_a_time() -> None:
    alone, four = (simulate(capture_polling("spin", blocks=n, work=2000), "h200") for n in (1, 4))
    critical = 4 * 2000
    assert alone.cycles > critical and four.cycles > alone.cycles + 3 * critical
    assert four.cycles < 5 * alone.cycles


def test_a_lock_that_is_held_inside_the_loop_is_held_by_one_at_a_time() -> None:
    alone, four = (simulate(capture_polling("inner", blocks=n, work=500), "h200") for n in (1, 4))
    assert four.cycles > 3 * alone.cycles


@pytest.mark.parametrize("name", ["unrolled", "clocked"])
def test_the_emulator_s_late_look_is_no_waiting(name: str) -> None:
    """However often it looked before the writer had its turn: what counts is when the word is written."""
    soon, late = (simulate(capture_polling(name, blocks=3, work=work), "h200") for work in (0, 60_000))
    assert soon.cycles < 4 * ROUND_CYCLES + 2000
    assert late.cycles - soon.cycles > 4 * 60_000
    assert polling(late)[0] - polling(soon)[0] == pytest.approx(2 * (late.cycles - soon.cycles), rel=0.02)


def test_an_acquire_empties_the_l1() -> None:
    hits = [
        simulate(capture_polling(name, blocks=1, work=9), "h200").counters[
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
        ]
        for name in ("acquires", "block_acquires")
    ]
    assert hits[0] < 4 < 8 < hits[1]


@pytest.mark.parametrize("name", ["sleeps", "asked_sleeps"])
def test_a_sleep_takes_the_time_that_it_states(name: str) -> None:
    once, often = (simulate(capture_polling(name, blocks=1, work=times), "h200") for times in (1, 11))
    assert often.cycles - once.cycles == pytest.approx(load_gpu("h200").cycles(10 * 1000), rel=0.02)
    assert often.stalls["sleeping"] > 9 * once.stalls["sleeping"] > 0


def test_a_fence_of_the_gpu_goes_to_the_l2_and_back() -> None:
    def cycles(name: str, gpu: str) -> float:
        few, many = (simulate(capture_polling(name, blocks=1, work=times, gpu=gpu), gpu).cycles for times in (5, 25))
        return (many - few) / 20

    assert cycles("fences", "b200") == pytest.approx(290, rel=0.15)  # measured on a B300: 277 to 292
    assert cycles("block_fences", "b200") < 40


def test_polls_are_traffic() -> None:
    few, many = (simulate(capture_polling("late", blocks=n, work=3000), "h200") for n in (2, 9))
    reads = [result.counters["lts__t_sectors_op_read.sum"] for result in (few, many)]
    assert reads[1] > 4 * reads[0]


@pytest.mark.parametrize("threads", [1, 3])
def test_windows_and_threads_do_not_change_the_waiting(threads: int) -> None:
    trace = capture_polling("barrier", blocks=6, work=500)
    usual = simulate(trace, "h200")
    other = simulate(trace, "h200", threads=threads, window_cycles=17, order_seed=3)
    assert (other.cycles, other.counters) == (usual.cycles, usual.counters)


def two_sms() -> object:
    spec = load_gpu("h200")
    return replace(spec, sm_count=2, sm=replace(spec.sm, max_blocks=1))


def test_waiting_for_a_block_that_does_not_fit_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_watch, "PATIENCE_CYCLES", 1 << 14)
    monkeypatch.setattr(poll_watch, "_INTERVAL_CYCLES", 1 << 12)
    trace = capture_polling("flags", blocks=4)
    with pytest.raises(DeadlockError) as caught:
        simulate(trace, two_sms())
    text = str(caught.value)
    assert "block 0 warp 0 polls 0x" in text and "for block 3 warp 0, which is not resident" in text


def test_a_wait_that_nobody_ends_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_watch, "PATIENCE_CYCLES", 1 << 14)
    monkeypatch.setattr(poll_watch, "_INTERVAL_CYCLES", 1 << 12)
    trace = capture_polling("late", blocks=2)
    (chunk,) = trace.chunks()
    kept = chunk.signals[chunk.signals["polls"] == 1]
    with pytest.raises(DeadlockError, match="block 1 warp 0 polls .* written 0 of 1 times, for block 0 warp 0"):
        simulate(Trace(trace.program, trace.launch, [replace(chunk, signals=kept)]), "h200")


def test_why_names_who_polls_for_whose_store_and_what_it_costs() -> None:
    trace = capture_polling("spin", blocks=4, work=1000)
    (remedy,) = [one for one in advise([trace], simulate(trace, "h200")).remedies if one.rule == "waiting"]
    lines = SOURCE.splitlines()
    polled, stored = (lines[int(n) - 1] for n in re.findall(r"source.cu:(\d+)", f"{remedy.place} {remedy.problem}"))
    assert "while (atomicCAS(lock, 0, 1) != 0)" in polled and "atomicExch(lock, 0);" in stored
    assert 60 < remedy.saved_percent < 80  # one after the other takes four times as long as side by side
    assert "by polling" in remedy.sentence and "at most" in remedy.sentence


def test_waiting_is_among_what_is_made_free() -> None:
    trace, spec = capture_polling("spin", blocks=4, work=500), load_gpu("h200")
    found = {each.unit: each.saved_percent for each in explain([trace], spec, simulate(trace, spec)).findings}
    assert 40 < found["waiting by polling"] < 80


def test_nothing_is_said_of_waiting_where_nobody_waits() -> None:
    trace = capture_polling("queue", blocks=4)
    assert not [one for one in advise([trace], simulate(trace, "h200")).remedies if one.rule == "waiting"]
