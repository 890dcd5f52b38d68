"""Clusters used wrongly: what the error names, and what the checks find."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kernels import cluster_kernel

import gpusim
from gpusim.errors import AddressError, DeadlockError, ExecutionError, LaunchError


def fails(error, name: str, *args, grid=2, block=64, **options) -> str:
    with pytest.raises(error) as caught:
        gpusim.capture(cluster_kernel(name), grid, block, args, gpu="sm_90", **options)
    assert "\n" not in str(caught.value) and name in str(caught.value)
    return str(caught.value)


def out() -> np.ndarray:
    return np.zeros(384, np.uint32)


def test_a_barrier_that_a_block_does_not_come_to_says_who_waits_for_whom() -> None:
    text = fails(DeadlockError, "mismatched", out())
    assert "deadlock in a cluster of 2 blocks" in text
    assert "its barrier waits for block (1, 0, 0) (0 of 32 threads have arrived)" in text
    assert "UCGABAR_WAIT" in text and "for barrier 3, at which 32 of 64 threads have arrived" in text


def test_a_second_arrival_without_a_wait_is_refused() -> None:
    assert "arrives at the barrier of the cluster again" in fails(ExecutionError, "twice", out())


def test_registers_that_nobody_gives_are_waited_for_in_vain() -> None:
    text = fails(DeadlockError, "too_many_registers", out(), grid=1, block=384)
    assert (
        "for 2048 registers, to have 232 a thread instead of 168 (setmaxnreg.inc); the block's pool holds 1024" in text
    )


@pytest.mark.parametrize(
    "ahead, rank, why",
    [
        (1, 1, "byte 256 of the shared memory of block 1 of the cluster, which has 256 bytes"),
        (0, 2, "byte 0 of the shared memory of block 2 of the cluster, which has 2 blocks"),
    ],
)
def test_an_address_that_no_block_of_the_cluster_has(ahead: int, rank: int, why: str) -> None:
    assert why in fails(AddressError, "beyond", out(), np.int32(ahead), np.int32(rank))


def test_shared_memory_of_a_block_that_has_ended() -> None:
    assert "of block 0 of the cluster, which has ended" in fails(AddressError, "ended", out())


def test_checks_find_bad_addresses_and_barriers_of_clusters() -> None:
    found = gpusim.capture(
        cluster_kernel("beyond"), 2, 64, (out(), np.int32(1), np.int32(1)), gpu="sm_90", check=("memory",)
    ).findings
    assert [(each.what, each.count) for each in found] == [("Invalid generic read of size 4 bytes", 2)]
    assert "block 1 of the cluster" in found[0].detail
    found = gpusim.capture(cluster_kernel("mismatched"), 2, 64, (out(),), gpu="sm_90", check=("sync",)).findings
    assert {each.what for each in found} >= {"Divergent thread(s) in block"}
    values, sums = np.zeros((4, 64), np.int32), np.zeros((4, 64), np.int32)
    checks = ("memory", "race", "sync")
    trace = gpusim.capture(cluster_kernel("reduce"), 4, 64, (values, sums), gpu="sm_90", cluster=4, check=checks)
    assert not trace.findings  # the barrier of the cluster is one of the block


@pytest.mark.parametrize(
    "grid, options, why",
    [
        (16, {"cluster": 3}, "grid x is 16, which does not divide into clusters of 3 blocks"),
        (32, {"cluster": 32}, "has 32, at most 16 are possible"),
        (32, {"cluster": 0}, "0 is not positive"),
        (2, {"cluster": (2, 2)}, "grid y is 1, which does not divide into clusters of 2 blocks"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(grid: int, options: dict, why: str) -> None:
    with pytest.raises(LaunchError, match=why.replace("(", r"\(")):
        gpusim.capture(cluster_kernel("shape"), grid, 32, (out(),), **{"gpu": "sm_90", **options})


def test_a_cluster_that_the_kernel_was_not_compiled_for_is_refused() -> None:
    with pytest.raises(LaunchError, match="compiled for"):
        gpusim.capture(cluster_kernel("twice"), 4, 32, (out(),), gpu="sm_90", cluster=4)
