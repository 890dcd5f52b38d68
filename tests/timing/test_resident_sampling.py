"""Is the rest of a persistent launch left out only where its rate is steady, and right then?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.engine.sampled import resident
from gpusim.gpus.load import load_gpu
from gpusim.model.stall_reasons import SELECTED

pytestmark = pytest.mark.usefixtures("without_source_lines")

SOURCE = Path(__file__).parents[2] / "tools" / "asynchronous" / "bulk_copies.cu"
SMS, BYTES = 4, 1024
GPU = replace(load_gpu("h100_pcie"), sm_count=SMS)
FAR = replace(GPU, crossbar=replace(GPU.crossbar, sm_spread_ns=60.0, slice_spread_ns=34.0))


def copies(loads: int):
    args = np.zeros(BYTES * SMS * loads, np.uint8), np.zeros(SMS, np.float32), BYTES, loads
    return gpusim.capture(gpusim.cuda_cpp(SOURCE, "stream"), SMS, 1, args, gpu="h100_pcie", shared_bytes=BYTES)


@pytest.fixture(scope="module")
def trace():
    return copies(160)


def test_the_rest_of_a_steady_launch_is_left_out_within_what_is_claimed(trace, monkeypatch) -> None:
    monkeypatch.setattr(resident, "LEAST_INSTRUCTIONS", 1000)
    (part,) = gpusim.simulate(trace, GPU, sample=True).launches
    (whole,) = gpusim.simulate(trace, GPU).launches
    assert part.sampling is not None and part.sampling.simulated_percent < 80
    assert abs(part.cycles - whole.cycles) <= part.sampling.error_cycles < 0.1 * whole.cycles
    assert part.stalls_by_instruction[:, SELECTED].sum() == pytest.approx(
        whole.stalls_by_instruction[:, SELECTED].sum(), rel=0.02
    )
    for name in ("dram__bytes_read.sum", "tma__l2_requests.sum"):
        assert part.counters[name] == pytest.approx(whole.counters[name], rel=0.1)
    assert part.counters["sm__ctas_launched.sum"] == SMS


def test_what_comes_before_another_launch_is_simulated_whole(trace, monkeypatch) -> None:
    monkeypatch.setattr(resident, "LEAST_INSTRUCTIONS", 1000)
    first, last = gpusim.simulate([trace, trace], GPU, sample=True).launches
    assert first.sampling is not None and first.sampling.simulated_percent == 100
    assert last.sampling is not None and last.sampling.simulated_percent < 80


def test_small_launches_and_those_with_waves_are_not_resident(trace, monkeypatch) -> None:
    assert not resident.is_resident(trace, GPU)
    monkeypatch.setattr(resident, "LEAST_INSTRUCTIONS", 1000)
    assert resident.is_resident(trace, GPU)
    assert not resident.is_resident(trace, FAR)
    assert not resident.is_resident(replace(trace, launch=replace(trace.launch, grid=(10_000, 1, 1))), GPU)
