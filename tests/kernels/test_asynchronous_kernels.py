"""Kernels of the suite on one architecture's asynchronous units: NumPy's result, and a time that the engine finds."""

from __future__ import annotations

import pytest

import gpusim
from gpusim.cases.names import suite
from gpusim.cases.run_case import run_case
from gpusim.cases.suite import find_kernel
from gpusim.gpus.load import load_gpu

pytestmark = pytest.mark.usefixtures("without_source_lines")

STEPS = ("loads", "tma", "pipelined", "multicast", "cooperative", "ping_pong")
#: Steps whose code holds what the others' does: the rest at night.
EVERYDAY = ("cooperative", "ping_pong")
SMALL = find_kernel("cpp_wgmma_gemm").small | {"m": 256, "n": 128}


def steps():
    return [s if s in EVERYDAY else pytest.param(s, marks=pytest.mark.nightly) for s in STEPS]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", steps())
def test_a_step_of_the_ladder_equals_numpy_and_is_simulated(step: str) -> None:
    """Two stages for three steps along k, and more tiles than persistent blocks: every buffer is used again."""
    ran = run_case("cpp_wgmma_gemm", SMALL | {"step": step}, load_gpu("h200"))
    assert ran.checked
    assert gpusim.simulate(ran.launches[0].trace, "h200").cycles > 0


@pytest.mark.parametrize(
    "shape",
    [
        {},  # pairs of blocks share A; three steps for two buffers, tiles of 48 columns reach into a second scale
        pytest.param({"rows": 64, "m": 64, "columns": 128, "cluster": 1, "n": 136}, marks=pytest.mark.nightly),
        pytest.param({"columns": 112, "cluster": 1, "n": 336, "stages": 3}, marks=pytest.mark.nightly),
    ],
)
def test_a_product_with_block_scales_equals_numpy_exactly(shape: dict) -> None:
    """Whole numbers and powers of two, whose sums are exact in any order: each scale is applied where it belongs."""
    ran = run_case("cpp_fp8_gemm", find_kernel("cpp_fp8_gemm").small | shape, load_gpu("h800"))
    assert ran.checked
    assert gpusim.simulate(ran.launches[0].trace, "h800").cycles > 0


@pytest.mark.parametrize(
    "shape",
    [
        {},  # three tiles of keys for two buffers
        pytest.param({"causal": 1, "keys": 256}, marks=pytest.mark.nightly),
        pytest.param({"depth": 128, "keys": 256, "heads": 2}, marks=pytest.mark.nightly),
        pytest.param({"step": "turns"}, marks=pytest.mark.nightly),
    ],
)
def test_attention_equals_numpy_and_its_groups_take_turns(shape: dict) -> None:
    ran = run_case("cpp_wgmma_attention", find_kernel("cpp_wgmma_attention").small | shape, load_gpu("h200"))
    assert ran.checked
    assert gpusim.simulate(ran.launches[0].trace, "h200").stalls["barrier"] > 0


@pytest.mark.nightly
def test_attention_with_all_that_overlaps_is_faster_than_with_nothing() -> None:
    gpu, cycles = load_gpu("h200"), {}
    for step in ("serial", "overlapped", "both"):
        ran = run_case("cpp_wgmma_attention", find_kernel("cpp_wgmma_attention").small | {"step": step}, gpu)
        assert ran.checked
        cycles[step] = gpusim.simulate(ran.launches[0].trace, gpu).cycles
    assert cycles["both"] < cycles["serial"]


def test_a_launch_without_data_has_the_same_trace() -> None:
    """Paths, addresses and what is waited for, so the cycles, do not depend on what copies bring and products
    compute."""
    gpu = load_gpu("h200")
    whole = run_case("cpp_wgmma_gemm", SMALL | {"step": "cooperative"}, gpu).launches[0].trace
    bare = run_case("cpp_wgmma_gemm", SMALL | {"step": "cooperative"}, gpu, sample=True)
    trace = bare.launches[0].trace
    assert trace.without_data and not trace.has_results and not bare.checked
    assert "clusters" in trace.why_whole
    assert trace.warp_instructions == whole.warp_instructions
    for one, other in zip(whole.chunks(), trace.chunks(), strict=True):
        assert (one.bulks["bytes"] == other.bulks["bytes"]).all()
        assert (one.signals["polls"] == 1).sum() == (other.signals["polls"] == 1).sum() > 0
    assert gpusim.simulate(trace, gpu).cycles == gpusim.simulate(whole, gpu).cycles


def test_an_entry_says_what_it_needs_and_refuses_what_does_not_fit() -> None:
    entry = find_kernel("cpp_wgmma_gemm")
    assert suite().needs(entry.name) == (9, 0) and suite().needs("saxpy") is None
    assert set(entry.axes) == set(entry.default) == set(entry.small)
    with pytest.raises(ValueError, match="step must be one of loads, tma"):
        entry.make(**entry.small | {"step": "fast"})
    with pytest.raises(ValueError, match="shared memory"):
        entry.make(**entry.small | {"columns": 256, "n": 256, "stages": 8})
    with pytest.raises(AssertionError):
        entry.make(**entry.small).check()


def test_warps_that_wait_at_an_mbarrier_leave_room_for_others() -> None:
    """A look at an mbarrier is one read for all lanes of a warp. As 32 atomics on one word, eight warps' looks kept the
    LSU from the producer: a step along k took three times as long as its 192 lines take to come from L2."""
    gpu = load_gpu("h200")

    def cycles(k: int) -> float:
        shape = SMALL | {"m": 128, "n": 64, "k": k, "step": "pipelined", "columns": 64, "stages": 4}
        return gpusim.simulate(run_case("cpp_wgmma_gemm", shape, gpu, sample=True).launches[0].trace, gpu).cycles

    arrive_cycles = 192 * gpu.l1.line_bytes / gpu.tma.fill_bytes_per_cycle
    assert arrive_cycles <= (cycles(3072) - cycles(1024)) / 32 < 1.5 * arrive_cycles
