"""Whose cycles are those that warps spend at a barrier? The barrier's own, by instruction and by line."""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.capturing import capture
from gpusim.engine.gpu import simulate
from gpusim.report.attribution import by_instruction, by_line


@cuda.jit
def lopsided(x):
    t = cuda.threadIdx.x
    total = x[t]
    if t < 32:
        for i in range(100):
            total = total * 3 + i
    x[t] = total
    cuda.syncthreads()
    if t >= 32:
        x[t] += x[t - 32]


def test_waits_at_a_barrier_are_charged_to_it_and_add_up() -> None:
    trace = capture(lopsided, 1, 128, (np.ones(128, np.int32),), gpu="h200")
    launches = simulate(trace, "h200").launches
    waiting = {share.text: share.stalls["barrier"] for share in by_instruction(launches) if share.stalls["barrier"]}
    assert list(waiting) == ["BAR.SYNC.DEFER_BLOCKING 0x0"]
    (line,) = (share for share in by_line(launches) if share.stalls["barrier"])
    assert line.line == lopsided.py_func.__code__.co_firstlineno + 8 and line.top_stall == "barrier"
    assert line.stalls["barrier"] == sum(waiting.values()) > 1000  # three warps wait for a hundred dependent products
    assert sum(share.warp_cycles for share in by_line(launches)) == int(launches[0].stalls_by_instruction.sum())
