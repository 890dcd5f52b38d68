"""What is the least time that a launch can take, counted by hand on a trace of two warps?"""

import numpy as np
import pytest

from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.contention import most_operations_on_a_word
from gpusim.theory.footprint import footprint
from gpusim.trace.record import (
    ACCESS,
    INSTRUCTION,
    RUN,
    SCATTERED,
    WARP,
    Chunk,
    Launch,
    MemoryKind,
    PipeClass,
    Program,
    Space,
    Trace,
)

pytestmark = pytest.mark.usefixtures("without_source_lines")


def two_warp_trace(accesses, scattered=(), kind=MemoryKind.LOAD):
    """Each of two warps: ALU, one 4-byte global access, FP64, and an exit-like branch."""
    table = np.zeros(4, INSTRUCTION)
    table["pipe"] = (PipeClass.ALU, PipeClass.LSU, PipeClass.FP64, PipeClass.BRANCH)
    table["stall_cycles"] = (4, 2, 1, 5)
    table["records"][1] = 1
    table["memory_kind"][1] = kind
    table["space"][1] = Space.GLOBAL
    table["access_bytes"][1] = 4
    warps = np.zeros(2, WARP)
    warps["access_count"] = 1
    warps["access_start"] = (0, 1)
    chunk = Chunk(
        first_block=0,
        blocks=2,
        warps=warps,
        runs=np.array([(0, 4, 0xFFFFFFFF)], RUN),
        path_start=np.array([0, 1]),
        accesses=np.array(accesses, ACCESS),
        scattered=np.array(scattered, np.uint64).reshape(-1, 32),
    )
    launch = Launch("k", (9, 0), (2, 1, 1), (32, 1, 1), 16, 0, 0, "")
    return Trace(Program(table, ("",) * 4), launch, [chunk])


def test_two_warps_on_the_same_line_touch_its_four_sectors_once():
    trace = two_warp_trace([(4096, 4, 0xFFFFFFFF), (4096, 4, 0xFFFFFFFF)])
    found = footprint(trace)
    assert (found.sectors, found.sectors_read_only, found.line_lookups) == (4, 4, 2)


def test_atomics_of_all_warps_on_one_word_are_counted_together():
    one_word = (4096, 0, 0xFFFFFFFF)
    for kind in (MemoryKind.ATOMIC, MemoryKind.REDUCTION):
        assert most_operations_on_a_word(two_warp_trace([one_word, one_word], kind=kind)) == 64
        assert most_operations_on_a_word(two_warp_trace([one_word, (4100, 4, 0xFF)], kind=kind)) == 32
        assert most_operations_on_a_word(two_warp_trace([(4096, 4, 0xF), (4096, 4, 0x3)], kind=kind)) == 2
    assert most_operations_on_a_word(two_warp_trace([one_word, one_word])) == 0


@pytest.mark.parametrize("form", ["int32_add", "int32_cas"])
def test_additions_to_one_word_last_as_long_as_its_slice_needs(form):
    """Whether or not anybody waits for their results: the launch ends when they are done."""
    gpu = load_gpu("h200")
    shape = {"form": form, "addresses": 1, "updates": 4, "block_threads": 256, "blocks": 8}
    (launch,) = capture_case(make_case("atomic_contention", shape, gpu), gpu)
    bounds = lower_bounds(launch.trace, gpu)
    assert bounds.limiter == "l2.atomics"
    # Lanes of one request are further apart than requests.
    apart_ns, lanes_apart_ns = sorted((gpu.l2.atomic_interval_ns, gpu.l2.atomic_sector_ns))
    assert bounds.cycles["l2.atomics"] >= 4 * 256 * 8 * gpu.cycles(apart_ns) * 0.98
    cycles = simulate(launch.trace, gpu).cycles
    assert bounds.least_cycles <= cycles <= bounds.least_cycles * lanes_apart_ns / apart_ns + 12_000


def test_lanes_that_are_off_touch_nothing():
    trace = two_warp_trace([(4096, 4, 0x000000FF), (8192, 4, 0)])
    assert footprint(trace).sectors == 1


def test_scattered_lanes_count_each_line_once():
    lanes = np.repeat(np.arange(16) * 128, 2)
    trace = two_warp_trace([(0, SCATTERED, 0xFFFFFFFF), (0, SCATTERED, 0xFFFFFFFF)], [lanes])
    found = footprint(trace)
    assert (found.sectors, found.line_lookups) == (16, 32)


def test_written_sectors_need_no_read_from_dram():
    trace = two_warp_trace([(4096, 4, 0xFFFFFFFF), (8192, 4, 0xFFFFFFFF)], kind=MemoryKind.STORE)
    found = footprint(trace)
    assert (found.sectors, found.sectors_read_only) == (8, 0)


def test_bounds_count_issue_ports_and_the_longest_warp():
    gpu = load_gpu("h200")
    found = lower_bounds(two_warp_trace([(4096, 4, 0xFFFFFFFF), (8192, 4, 0xFFFFFFFF)]), gpu)
    sub_cores = gpu.sm_count * gpu.sm.sub_cores
    assert found.cycles["issue"] == 8 / sub_cores
    assert found.cycles["warp"] == 4 + 2 + 1 + 5
    assert found.cycles["pipe.fp64"] == 2 * gpu.pipes["fp64"].interval_cycles / sub_cores
    assert found.limiter == "warp" and found.least_cycles == 12
    assert "dram" not in lower_bounds(two_warp_trace([(0, 4, 1), (0, 4, 1)]), gpu, cold=False).cycles


@pytest.mark.parametrize("gpu_name", ["a100_80gb", "h200"])
@pytest.mark.parametrize("kernel", ["saxpy", "stencil5", "matmul_tiled", "transpose", "histogram", "nbody"])
def test_no_simulated_time_beats_a_lower_bound(kernel, gpu_name):
    gpu = load_gpu(gpu_name)
    (launch,) = capture_case(make_case(kernel, {}, gpu, small=True), gpu)
    simulated = simulate(launch.trace, gpu).cycles
    bounds = lower_bounds(launch.trace, gpu)
    assert 0 < bounds.least_cycles <= simulated, bounds.limiter
