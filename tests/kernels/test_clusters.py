"""Thread-block clusters: what kernels compute with each other's shared memory, barriers and mbarriers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cluster_kernels import cluster_kernel

import gpusim
from gpusim.emulator import block_scheduler
from gpusim.emulator.clusters import ClusterOrder
from gpusim.engine.gpu import simulate
from gpusim.engine.supply import has_runs
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import Space, Trace


@pytest.fixture(
    params=[
        "sm_90",
        pytest.param("sm_100", marks=pytest.mark.nightly),
        pytest.param("sm_120", marks=pytest.mark.nightly),
    ]
)
def arch(request) -> str:
    return request.param


def run(name: str, arch: str, grid, block, *args, **options) -> Trace:
    return gpusim.capture(cluster_kernel(name, arch), grid, block, args, gpu=arch, **options)


def test_registers_and_groups_say_where_a_block_is(arch: str) -> None:
    grid, cluster = (6, 4, 4), (3, 2, 2)
    out = np.zeros((4, 4, 6, 16), np.uint32)
    trace = run("shape", arch, grid, 32, out, cluster=cluster)
    for z, y, x in np.ndindex(4, 4, 6):
        here = x % 3, y % 2, z % 2
        rank = here[0] + 3 * (here[1] + 2 * here[2])
        assert out[z, y, x].tolist() == [rank, 12, *here, *cluster, x // 3, y // 2, z // 2, 2, 2, 2, 1, 7]
    assert trace.launch.cluster == cluster
    run("shape", arch, 2, 32, out)
    assert out.reshape(-1, 16)[1].tolist() == [0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 2, 1, 1, 0, 7]


@pytest.mark.parametrize("cluster", [(1, 1), (8, 1), (2, 2), (1, 4)])
def test_blocks_read_each_others_shared_memory(
    arch: str, cluster: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A log that holds little: the trace is cut in the midst of clusters.
    monkeypatch.setattr(block_scheduler, "LOG_LIMITS", (400, 400, 200))
    values = np.random.default_rng(1).integers(-1000, 1000, (4, 16, 64)).astype(np.int32)
    out = np.zeros_like(values)
    trace = run("reduce", arch, (16, 4), 64, values, out, cluster=cluster)
    x, y = cluster
    tiles = values.reshape(4 // y, y, 16 // x, x, 64).transpose(0, 2, 1, 3, 4).reshape(-1, x * y, 64)
    want = sum((i + 1) * np.roll(tiles, -i, axis=1)[..., ::-1] for i in range(x * y))
    got = out.reshape(4 // y, y, 16 // x, x, 64).transpose(0, 2, 1, 3, 4).reshape(-1, x * y, 64)
    np.testing.assert_array_equal(got, want)
    assert sum(chunk.blocks for chunk in trace.chunks()) == 64


@pytest.mark.parametrize("cluster", [2, 8, 16])
def test_a_histogram_over_the_clusters_shared_memory(arch: str, cluster: int) -> None:
    values = np.random.default_rng(2).integers(0, 128, 16 * 250).astype(np.uint32)
    bins = np.zeros(128, np.uint32)
    per = 128 // cluster
    run("histogram", arch, 16, 96, values, bins, np.int32(per), np.int32(250), cluster=cluster, shared_bytes=4 * per)
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=128))


def test_atomics_and_queries_tell_the_own_block_from_others(arch: str) -> None:
    out = np.zeros((2, 4), np.uint64)
    run("atomics", arch, 2, 64, out)
    for rank in range(2):
        said = 0 | 1 << 4 | (rank ^ 1) << 8
        assert out[rank].tolist() == [5 + (128 << 33), 6 + 128, 2**64 - 7, said]


def test_asynchronous_stores_and_reductions_complete_an_mbarrier_there(arch: str) -> None:
    out, sums = np.zeros((8, 4, 32), np.uint32), np.zeros(8, np.uint32)
    trace = run("stores", arch, 8, 32, out, sums)
    lane = np.arange(32)
    for block in range(8):
        before = (block - 1) % 4
        np.testing.assert_array_equal(out[block], [0 * lane + before, lane, before * lane, 0 * lane + 7])
    assert sums.tolist() == [4 * 496, 2**32 - 1, 15, (100 + 128) % 201] * 2
    code = trace.program.instructions
    assert (code["space"] == Space.CLUSTER).sum() == 5


def test_blocks_hand_buffers_to_each_other_by_remote_mbarriers(arch: str) -> None:
    values = np.random.default_rng(3).standard_normal((3, 7, 64)).astype(np.float32)
    out = np.zeros((3, 64), np.float32)
    trace = run("ring", arch, 6, 64, values, out, np.int32(7))
    want = np.zeros_like(out)
    for i in range(7):
        want += values[:, i, ::-1] * 2
    np.testing.assert_array_equal(out, want)
    for chunk in trace.chunks():  # each wait is a poll that names a write of the other block
        polls = chunk.signals[chunk.signals["polls"] == 1]
        assert len(polls) and len(chunk.polls)


def test_threads_and_blocks_that_have_ended_count_as_arrived(arch: str) -> None:
    out = np.zeros((4, 64), np.uint32)
    run("early", arch, 4, 64, out)
    whole = np.where(np.arange(64) < 13, 2, 1)
    np.testing.assert_array_equal(out, [whole, np.where(np.arange(64) < 32, whole, 0), 0 * whole, whole])


def test_registers_go_from_one_warp_group_to_others(arch: str) -> None:
    out = np.zeros((2, 384), np.uint32)
    run("registers", arch, 2, 384, out)
    np.testing.assert_array_equal(out, np.where(np.arange(384) < 128, 1, 2)[None].repeat(2, 0))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "grid, cluster",
    [((40, 3, 2), 1), ((40, 6, 1), (2, 2)), ((10, 1, 1), 1)],
)
def test_running_clusters_take_over_those_that_have_not_started(grid, cluster) -> None:
    out = np.zeros(grid[::-1], np.uint32)
    gpu = replace(load_gpu("b200"), sm_count=4)  # a first wave of few blocks
    trace = gpusim.capture(cluster_kernel("persistent", "sm_100"), grid, 256, (out,), gpu=gpu, cluster=cluster)
    x, y = cluster if isinstance(cluster, tuple) else (cluster, 1)
    ranks = 1 + np.add.outer(np.arange(grid[1]) % y * x, np.arange(grid[0]) % x)
    np.testing.assert_array_equal(out, np.broadcast_to(ranks, out.shape))
    ran = np.concatenate([has_runs(chunk).reshape(-1, 8).any(axis=1) for chunk in trace.chunks()])
    assert ran.sum() == min(out.size, 32)
    assert simulate(trace, gpu).cycles


@pytest.mark.parametrize("grid, cluster", [((8, 6, 4), (2, 3, 2)), ((8, 6, 4), (4, 1, 1)), ((6, 4, 1), (1, 2, 1))])
def test_the_order_of_blocks_goes_cluster_by_cluster_in_bands(grid, cluster) -> None:
    order = ClusterOrder(grid, cluster)
    blocks = [order.block(place) for place in range(grid[0] * grid[1] * grid[2])]
    assert [order.place(block) for block in blocks] == list(range(len(blocks)))
    for end in range(0, len(blocks) + 1, order.band):
        assert sorted(blocks[:end]) == list(range(end))
    corners = set()
    for first in range(0, len(blocks), order.size):
        places = [np.unravel_index(block, grid[::-1])[::-1] for block in blocks[first : first + order.size]]
        assert len({tuple(np.array(place) // cluster) for place in places}) == 1
        corners.add(tuple(np.array(places[0]) // cluster))
    assert len(corners) * order.size == len(blocks)
