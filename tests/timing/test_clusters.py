"""The time of thread-block clusters: blocks that start together, their barrier, and each other's shared memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cluster_kernels import cluster_kernel

import gpusim
from gpusim.engine.block_dispatcher import T_SM, T_START
from gpusim.engine.gpu import simulate
from gpusim.errors import LaunchError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace

H200 = replace(load_gpu("h200"), sm_count=6)


def with_latencies(**l1: int) -> GpuSpec:
    return replace(H200, l1=replace(H200.l1, **l1))


@cache
def captured(name: str, grid, block: int, *numbers: int, cluster=None) -> Trace:
    args = {
        "reduce": lambda: (np.zeros((2, 24, 64), np.int32), np.zeros((2, 24, 64), np.int32)),
        "ring": lambda: (np.zeros((6, 9, 64), np.float32), np.zeros((6, 64), np.float32)),
        "stores": lambda: (np.zeros((8, 4, 32), np.uint32), np.zeros(8, np.uint32)),
        "early": lambda: (np.zeros((24, 64), np.uint32),),
        "chase": lambda: (np.zeros(1, np.int32),),
        "syncs": tuple,
    }[name]()
    values = (*args, *(np.int32(number) for number in numbers))
    return gpusim.capture(cluster_kernel(name), grid, block, values, gpu="sm_90", cluster=cluster)


@pytest.mark.parametrize("cluster", [2, (2, 2), (4, 1), (3, 2)])
def test_the_blocks_of_a_cluster_start_together(cluster) -> None:
    trace = captured("reduce", (24, 2), 64, cluster=cluster)
    one_block = replace(H200, sm=replace(H200.sm, max_blocks=2))  # several waves
    times = simulate(trace, one_block).launches[0].block_times
    x, y = trace.launch.cluster[:2]
    starts = times[:, T_START].reshape(2 // y, y, 24 // x, x).transpose(0, 2, 1, 3).reshape(-1, x * y)
    assert (starts == starts[:, :1]).all() and len(np.unique(starts)) > 2
    assert (times[:, T_SM] >= 0).all()


@pytest.mark.parametrize(
    "launch",
    [
        ("reduce", (24, 2), 64, ((2, 2),)),
        ("ring", 12, 64, (None, 9)),
        ("stores", 8, 32, (None,)),
        ("early", 24, 64, (None,)),
    ],
    ids=lambda launch: launch[0],
)
def test_windows_order_and_threads_change_nothing(launch) -> None:
    name, grid, block, (cluster, *numbers) = launch
    trace = captured(name, grid, block, *numbers, cluster=cluster)
    usual = simulate(trace, H200, threads=1)
    for window, threads, seed in ((1, 1, 3), (11, 2, 5), (None, 3, 7)):
        other = simulate(trace, H200, threads=threads, window_cycles=window, order_seed=seed)
        assert (other.cycles, other.stalls, other.counters) == (usual.cycles, usual.stalls, usual.counters)


def test_each_barrier_of_a_cluster_takes_its_latency() -> None:
    few, many = (captured("syncs", 12, 96, n, cluster=4) for n in (28, 60))
    for latency in (190, 330):
        gpu = with_latencies(cluster_barrier_latency_cycles=latency)
        each = (simulate(many, gpu).cycles - simulate(few, gpu).cycles) / 32
        assert latency < each < latency + 40
    stalls = simulate(many, H200).stalls
    assert stalls["barrier"] > 0.5 * sum(stalls.values())


def test_a_load_of_another_block_costs_the_way_there_and_back() -> None:
    gpu = with_latencies(cluster_shared_latency_cycles=222, cluster_shared_spread_cycles=0)
    cycles = {
        (to, n): simulate(captured("chase", 2, 32, to, n, cluster=2), gpu).cycles for to in (0, 1) for n in (64, 192)
    }
    own, other = ((cycles[to, 192] - cycles[to, 64]) / 128 for to in (0, 1))
    assert abs(other - own - (222 - gpu.l1.shared_latency_cycles)) < 1


def hop_cycles(gpu: GpuSpec, to: int) -> float:
    """Cycles of a hop through the shared memory of the block with rank ``to`` of a cluster of eight, one an SM."""
    few, many = (simulate(captured("chase", 8, 32, to, n, cluster=8), gpu).cycles for n in (64, 192))
    return (many - few) / 128


def test_how_far_two_sms_are_apart_goes_with_the_pair() -> None:
    """Of 424 pairs of an H800 all lie within 17 cycles of their mean, and 1 % only within a cycle of either end."""
    near, far = (replace(load_gpu("h200"), sm_count=8), with_latencies(cluster_shared_spread_cycles=0))
    times = np.array([hop_cycles(near, to) for to in range(1, 8)])
    assert 3 < np.ptp(times) <= 2 * near.l1.cluster_shared_spread_cycles
    assert abs(times.mean() - hop_cycles(replace(far, sm_count=8), 1)) < near.l1.cluster_shared_spread_cycles
    assert times[1] == times[2] != times[3]  # SMs 2 and 3 are of one TPC, 4 is of the next


def test_who_waits_for_another_blocks_arrival_waits_longer_where_it_is_farther() -> None:
    trace = captured("ring", 12, 64, 9)
    near, far = (simulate(trace, with_latencies(cluster_shared_latency_cycles=n)).cycles for n in (2_000, 10_000))
    # Nine times a buffer is filled, of two: from the third time on it has to be emptied before, so there and back four
    # times at least.
    assert far - near > 4 * 8_000 * 0.9


def test_a_cluster_larger_than_the_gpu_holds_at_once_is_refused() -> None:
    tiny = replace(H200, sm_count=1, sm=replace(H200.sm, max_blocks=1))
    with pytest.raises(LaunchError, match="a cluster of 4 blocks, but .* holds only 1 at once"):
        simulate(captured("reduce", (24, 2), 64, cluster=(4, 1)), tiny)
