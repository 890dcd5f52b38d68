"""The time of clusters that running ones take over (clusterlaunchcontrol.try_cancel), beside the same ones dispatched
one after another."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cluster_kernels import cluster_kernel

import gpusim
from gpusim.engine.block_dispatcher import T_START
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace

pytestmark = pytest.mark.nightly  # as all that is compiled for sm_100 from the clusters' kernels

#: Eight blocks an SM: of 60 clusters of four the first wave is 8, of which four do 8 and four do 7.
WHOLE = load_gpu("b200")
B200 = replace(WHOLE, sm_count=4)
GRID, CLUSTER, BLOCKS, ROUNDS = (40, 6, 1), (2, 2), 240, 8


@cache
def captured(taken_over: bool) -> Trace:
    """Captured for a GPU that holds a few clusters, which take over all others, or for one that holds all of them, so
    that none is left to be."""
    out = np.zeros(GRID[::-1], np.uint32)
    gpu = B200 if taken_over else WHOLE
    return gpusim.capture(cluster_kernel("persistent", "sm_100"), GRID, 256, (out,), gpu=gpu, cluster=CLUSTER)


def with_turnaround(cycles: int) -> GpuSpec:
    return replace(B200, launch=replace(B200.launch, block_turnaround_cycles=cycles))


def test_windows_order_and_threads_change_nothing() -> None:
    trace = captured(taken_over=True)
    usual = simulate(trace, B200, threads=1)
    for window, threads, seed in ((1, 1, 3), (11, 2, 5), (None, 3, 7)):
        other = simulate(trace, B200, threads=threads, window_cycles=window, order_seed=seed)
        assert (other.cycles, other.stalls, other.counters) == (usual.cycles, usual.stalls, usual.counters)


def test_clusters_that_were_taken_over_are_not_dispatched_and_their_work_is_done() -> None:
    persistent, grid = (simulate(captured(taken_over), B200) for taken_over in (True, False))
    started = [int((result.launches[0].block_times[:, T_START] >= 0).sum()) for result in (persistent, grid)]
    assert started == [32, BLOCKS]
    atomics = "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"
    work = [result.counters[atomics] for result in (persistent, grid)]
    assert work == [BLOCKS, BLOCKS]


def test_taking_over_saves_the_turnaround_of_each_wave_but_the_first() -> None:
    cycles = {
        (taken_over, turnaround): simulate(captured(taken_over), with_turnaround(turnaround)).cycles
        for taken_over in (True, False)
        for turnaround in (200, 2200)
    }
    # Start and end are there once each either way; the grid pays a turnaround for each wave behind the first, less what
    # its clusters, which do not all end at once, wait for each other anyhow.
    assert abs(cycles[True, 2200] - cycles[True, 200]) < 2000
    assert cycles[False, 2200] - cycles[False, 200] == pytest.approx(2000 * (ROUNDS - 1), rel=0.1)
    assert cycles[True, 200] < cycles[False, 200]


def test_each_answer_takes_half_the_way_to_another_block_and_back() -> None:
    trace = captured(taken_over=True)
    near, far = (
        simulate(trace, replace(B200, l1=replace(B200.l1, cluster_shared_latency_cycles=latency))).cycles
        for latency in (200, 1200)
    )
    assert far - near == pytest.approx(ROUNDS * 500, rel=0.05)
