"""Warps that poll: results, and what the trace says of the waiting, however the emulator went about it."""

from __future__ import annotations

import numpy as np
import pytest
from polling_kernels import EXPECTED, capture_polling

import gpusim
from gpusim.emulator import block_scheduler
from gpusim.emulator import state as emulator_state
from gpusim.trace.record import Trace

WAITING = [name for name in EXPECTED if name != "reads"]


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
    assert len(chunk.polls) and trace.warp_instructions < 3000  # not the rounds that the emulator went
    polls = chunk.signals[chunk.signals["polls"] == 1]
    writes = chunk.signals[chunk.signals["polls"] == 0]
    for poll in polls:
        (write,) = writes[(writes["word"] == poll["word"]) & (writes["count"] == poll["count"])]
        assert (write["block"], write["warp"]) == (poll["block"], poll["warp"])


@pytest.mark.parametrize("name", ["flags", "votes", "barrier", "inside"])
def test_the_trace_does_not_know_how_often_the_emulator_polled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = capture_polling(name)
    monkeypatch.setattr(block_scheduler, "_SLICE_TOGETHER", 64)
    monkeypatch.setattr(emulator_state, "BLOCK_SLICE", 64)
    monkeypatch.setattr(emulator_state, "WARP_QUANTUM", 16)
    assert contents(capture_polling(name)) == contents(usual)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
@pytest.mark.parametrize("name", WAITING)
@pytest.mark.nightly
def test_polls_are_found_in_other_machine_code(name: str, gpu: str) -> None:
    assert len(next(iter(capture_polling(name, gpu=gpu).chunks())).polls)


def test_a_counted_loop_of_volatile_loads_is_no_poll() -> None:
    chunk = next(iter(capture_polling("reads", blocks=1, work=20).chunks()))
    assert not len(chunk.polls) and not len(chunk.signals)
    assert len(chunk.accesses) == 2 * (20 + 1)


def test_a_chain_of_blocks_notes_each_link() -> None:
    chunk = next(iter(capture_polling("ticket", blocks=4).chunks()))
    served = chunk.signals[(chunk.signals["polls"] == 1)]
    assert np.unique(served["count"]).tolist() == [1, 2, 3]


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
