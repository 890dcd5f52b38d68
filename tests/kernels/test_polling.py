"""Warps that poll: results, and what the trace says of the waiting, however the emulator went about it."""

from __future__ import annotations

import numpy as np
import pytest
from polling_kernels import BETWEEN_LANES, EXPECTED, capture_polling

import gpusim
from gpusim.emulator import block_scheduler
from gpusim.emulator import state as emulator_state
from gpusim.errors import DeadlockError
from gpusim.trace.layout import SLEEP_ADDRESS
from gpusim.trace.record import Trace

WAITING = list(EXPECTED)


def contents(trace: Trace) -> list:
    return [
        [
            array.tolist()
            for array in (c.warps, c.runs, c.polls, c.accesses["mask"], c.signals[["access", "count", "polls"]])
        ]
        for c in trace.chunks()
    ]


@pytest.mark.parametrize("name", WAITING)
def test_each_wait_is_one_round_that_names_who_ends_it(name: str) -> None:
    trace = capture_polling(name)
    chunk = next(iter(trace.chunks()))
    most = 6000 if name in ("ring", "handoff") else 3000  # what they do beside waiting
    assert len(chunk.polls) and trace.warp_instructions < most  # not the rounds that the emulator went
    polls = chunk.signals[chunk.signals["polls"] == 1]
    writes = chunk.signals[chunk.signals["polls"] == 0]
    for poll in polls:
        (write,) = writes[(writes["word"] == poll["word"]) & (writes["count"] == poll["count"])]
        assert (write["block"], write["warp"]) == (poll["block"], poll["warp"])


@pytest.mark.parametrize("name", ["flags", "votes", "barrier", "inside", "tries", "mutex", "block_both", "ring"])
def test_the_trace_does_not_know_how_often_the_emulator_polled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = capture_polling(name)
    monkeypatch.setattr(block_scheduler, "_SLICE_TOGETHER", 64)
    monkeypatch.setattr(emulator_state, "BLOCK_SLICE", 64)
    monkeypatch.setattr(emulator_state, "WARP_QUANTUM", 16)
    assert contents(capture_polling(name)) == contents(usual)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", WAITING)
@pytest.mark.nightly
def test_polls_are_found_in_other_machine_code(name: str, gpu: str) -> None:
    assert len(next(iter(capture_polling(name, gpu=gpu).chunks())).polls)


def test_each_item_of_a_ring_waits_for_itself_however_far_the_emulator_was() -> None:
    """Its loop is unrolled: each wait compares with a constant, and finds that the other warp went on."""
    chunk = next(iter(capture_polling("ring", blocks=1).chunks()))
    signals = chunk.signals[np.concatenate(([True], chunk.signals["access"][1:] != chunk.signals["access"][:-1]))]
    owner = np.repeat(np.arange(len(chunk.warps)), chunk.warps["access_count"])[signals["access"]]
    items = signals["count"][(owner == 1) & (signals["polls"] == 1)]
    slots = signals["count"][(owner == 0) & (signals["polls"] == 1)]
    assert np.unique(items).tolist() == list(range(1, 9)) and np.unique(slots).tolist() == list(range(1, 5))


@pytest.mark.parametrize("name", ["mutex", "flags", "late_flags"])
def test_a_back_off_sleeps_as_the_code_says_whether_the_emulator_slept_or_not(name: str) -> None:
    """Twice as long from round to round, up to 256 ns, and the last round again and again."""
    chunk = next(iter(capture_polling(name, blocks=2).chunks()))
    sleeps = chunk.accesses[(chunk.accesses["address"] >> 52 == 1) & (chunk.accesses["mask"] != 0)][-6:]
    grows = [(8, 1), (16, 1), (32, 1), (64, 1), (128, 1), (256, 0)]
    got = list(zip((sleeps["address"] - SLEEP_ADDRESS).tolist(), sleeps["stride"].tolist(), strict=True))
    assert got == grows if name != "flags" else got[-5:] == grows[1:]  # its first sleep is a round that was made


def test_lanes_that_try_while_one_of_them_works_try_no_more_often_if_it_works_for_longer() -> None:
    short, long = (capture_polling("lanes_sleep", blocks=2, work=work) for work in (500, 1500))
    tries = [sum(len(chunk.accesses) for chunk in trace.chunks()) for trace in (short, long)]
    assert tries[1] < 1.1 * tries[0]


def test_a_counted_loop_of_volatile_loads_is_no_poll() -> None:
    chunk = next(iter(capture_polling("reads", blocks=1, work=20).chunks()))
    assert not len(chunk.polls) and not len(chunk.signals)
    assert len(chunk.accesses) == 2 * (20 + 1)


def test_a_loop_that_gives_up_is_as_long_as_it_was() -> None:
    five, ten = (capture_polling("gives_up", blocks=1, work=tries) for tries in (5, 10))
    assert len(next(iter(ten.chunks())).accesses) - len(next(iter(five.chunks())).accesses) == 5


def test_waiting_for_what_nobody_writes_names_line_and_address() -> None:
    with pytest.raises(DeadlockError) as caught:
        capture_polling("forgotten", blocks=3)
    text = str(caught.value)
    assert "forgotten: livelock" in text and "no warp is left that could write what they poll" in text
    assert "block (1, 0, 0): warp 0" in text and "polling address 0x" in text and "source.cu:" in text


def test_who_takes_the_next_piece_of_work_waits_for_nobody() -> None:
    chunk = next(iter(capture_polling("queue", blocks=4).chunks()))
    assert not len(chunk.polls) and not (chunk.signals["polls"] == 1).any()


def test_waiters_of_a_barrier_look_a_few_times_however_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each arrival is a write of the word that all wait for; if all looked at each, this would grow with the square."""
    looks = []
    step = block_scheduler.BlockScheduler._step
    monkeypatch.setattr(block_scheduler.BlockScheduler, "_step", lambda self, *a: looks.append(1) or step(self, *a))
    counts = []
    for blocks in (16, 64):
        looks.clear()
        capture_polling("barrier", blocks=blocks, cooperative=True)
        counts.append(len(looks))
    assert counts[1] < 6 * counts[0]


def test_a_chain_of_blocks_notes_each_link() -> None:
    chunk = next(iter(capture_polling("ticket", blocks=4).chunks()))
    served = chunk.signals[(chunk.signals["polls"] == 1)]
    assert np.unique(served["count"]).tolist() == [1, 2, 3]


ON = {"sm_75": "t4", "sm_80": "a100_80gb", "sm_90": "h200", "sm_100": "b200"}


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", BETWEEN_LANES)
def test_lanes_of_a_warp_take_turns_one_by_one(name: str, gpu: str) -> None:
    """What one lane writes while the others of its warp poll stays in the log, so that whoever waits for it goes on."""
    trace = capture_polling(name, blocks=2, gpu=gpu)
    (chunk,) = trace.chunks()
    assert (chunk.signals["polls"] == 1).any()  # the second warp waits for the first
    for word in np.unique(chunk.signals["word"]):
        of_word = chunk.signals[chunk.signals["word"] == word]
        counts = np.unique(of_word["count"][of_word["polls"] == 0])  # twice in a round that is made again
        assert counts.tolist() == list(range(1, len(counts) + 1))
    assert gpusim.simulate(trace, ON[gpu]).cycles


@pytest.mark.parametrize("gpu", ON)
@pytest.mark.parametrize("name", BETWEEN_LANES)
@pytest.mark.nightly
def test_turns_of_lanes_take_time_in_proportion_to_them(name: str, gpu: str) -> None:
    one, four = (gpusim.simulate(capture_polling(name, blocks=b, gpu=gpu), ON[gpu]).cycles for b in (1, 4))
    # A lock in shared memory is each block's own; the other turns are all one after another.
    assert 0.9 < four / one < 1.2 if name == "lanes_shared" else 3 < four / one < 5


BARRIERS = r"""
#include <cuda/barrier>
#include <cooperative_groups.h>
extern "C" __global__ void met(int *out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  barrier.wait(barrier.arrive());
  cooperative_groups::this_grid().sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
"""


def test_who_arrives_at_a_barrier_of_its_block_waits_for_no_other_block(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []
    step = block_scheduler.BlockScheduler._step
    monkeypatch.setattr(
        block_scheduler.BlockScheduler, "_step", lambda self, *rest: turns.append(1) or step(self, *rest)
    )
    out = np.zeros(6 * 256, np.int32)
    gpusim.capture(gpusim.cuda_cpp(BARRIERS, "met", cooperative=True), 6, 256, (out,), gpu="h200")
    assert out.all() and len(turns) < 6 * 8  # a turn of every block for each of 8 warps would be more


def test_a_grid_s_barrier_takes_turns_in_proportion_to_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a launch that is not cooperative, whose blocks the emulator brings in as it finds that it needs them."""
    turns = 0
    step = block_scheduler.BlockScheduler._step

    def counted(*given):
        nonlocal turns
        turns += 1
        return step(*given)

    monkeypatch.setattr(block_scheduler.BlockScheduler, "_step", counted)
    capture_polling("barrier", blocks=64)
    assert turns < 10 * 64


SEMAPHORE = r"""
#include <cuda/semaphore>
#include <new>
using semaphore = cuda::binary_semaphore<cuda::thread_scope_block>;
extern "C" __global__ void guarded(int *x, int times) {
  __shared__ char room[sizeof(semaphore)];
  semaphore &mine = *reinterpret_cast<semaphore *>(room);
  if (threadIdx.x == 0) new (&mine) semaphore(1);
  __syncthreads();
  for (int i = 0; i < times; i++) { mine.acquire(); *x = *x + 1; mine.release(); }
}
"""


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", list(ON))
def test_lanes_of_a_warp_acquire_a_semaphore_one_after_another(gpu: str) -> None:
    """On sm_75 the loop in which the others wait ends with a branch into its midst, for lanes that join them there."""
    few, many = (
        (gpusim.capture(gpusim.cuda_cpp(SEMAPHORE, "guarded"), 1, lanes, (x, np.int32(2)), gpu=gpu), x, lanes)
        for lanes, x in ((4, np.zeros(1, np.int32)), (32, np.zeros(1, np.int32)))
    )
    for _, x, lanes in (few, many):
        assert x[0] == 2 * lanes
    cycles = [gpusim.simulate(trace, ON[gpu]).cycles for trace, _, _ in (few, many)]
    assert 4 < cycles[1] / cycles[0] < 16
