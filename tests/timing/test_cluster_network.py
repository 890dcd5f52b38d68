"""Does the network between the SMs of a cluster carry as much as its ports do, no more and no less?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cluster_kernels import cluster_kernel

import gpusim
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec

RING = Path(__file__).parents[2] / "tools" / "asynchronous" / "shared_ring.cu"
THREADS, ROUNDS = 512, (4, 12)


def gpu_with(port_bytes: int) -> GpuSpec:
    h200 = load_gpu("h200")
    return replace(h200, sm_count=2, l1=replace(h200.l1, cluster_shared_bytes_per_cycle=port_bytes))


@pytest.fixture(scope="module", params=[0, 1], ids=["reads", "writes"])
def traces(request):
    kernel = gpusim.cuda_cpp(RING, "ring", [f"-DWRITES={request.param}"])
    args = [(np.zeros(1, np.uint32), np.int32(n)) for n in ROUNDS]
    return [gpusim.capture(kernel, 2, THREADS, each, gpu="h200", cluster=2, shared_bytes=1 << 16) for each in args]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("port_bytes", [8, 16])
def test_a_port_carries_its_bandwidth_and_no_more(traces, port_bytes: int) -> None:
    """Sixteen bytes a thread and round, all of them through the port of the SM that asks."""
    few, many = (simulate(trace, gpu_with(port_bytes)).cycles for trace in traces)
    rate = 16 * THREADS * (ROUNDS[1] - ROUNDS[0]) / (many - few)
    assert 0.95 * port_bytes < rate <= port_bytes * 1.001


def test_a_wide_port_is_no_bottleneck(traces) -> None:
    narrow, wide = (simulate(traces[1], gpu_with(port_bytes)).cycles for port_bytes in (16, 128))
    assert wide < 0.6 * narrow


def test_the_port_adds_nothing_to_the_latency_of_one_word() -> None:
    args = (np.zeros(1, np.int32), np.int32(1), np.int32(64))
    trace = gpusim.capture(cluster_kernel("chase"), 2, 32, args, gpu="sm_90", cluster=2)
    assert simulate(trace, gpu_with(16)).cycles == simulate(trace, gpu_with(128)).cycles
