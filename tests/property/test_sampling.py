"""Sampled launches: is the real error within the claimed one, and is what is said to be exact exact?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu

from gpusim.cases.suite import capture_case, make_case, parse_request
from gpusim.engine.gpu import simulate
from gpusim.engine.sampling import BEHIND_SHARE, LEAST_CYCLES, LEAST_WAVES, TOLERANCE, steady_cost
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import PipeClass

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: Regular ones, irregular ones, one whose last wave is mostly empty.
LAUNCHES = (
    "saxpy:n=132000,block_threads=64",
    "spmv_csr:rows=32768,mean_row_length=4,block_threads=64",
    "histogram:n=131072,blocks=528,block_threads=64",
    "bfs:vertices=4096,mean_degree=8,block_threads=64",
    "matmul_tiled:m=256,n=256,k=64,tile=8",
    "mandelbrot:rows=256,columns=256,limit=16,block_x=8,block_y=4",
)


#: Of the same kind as one that runs by day: regular as saxpy, irregular as bfs.
NIGHTLY = (1, 4)


@pytest.mark.parametrize(
    "request_",
    [pytest.param(launch, marks=pytest.mark.nightly if i in NIGHTLY else ()) for i, launch in enumerate(LAUNCHES)],
)
def test_the_real_error_is_within_the_claimed_one(request_):
    spec = load_gpu("t4")
    name, shape = parse_request(request_)
    traces = [launch.trace for launch in capture_case(make_case(name, shape, spec), spec) if launch.timed]
    gpu = replace(spec, sm_count=1)
    sampled, full = simulate(traces, gpu, sample=True), simulate(traces, gpu)
    assert abs(sampled.cycles - full.cycles) <= sampled.error_cycles
    for counter in ("smsp__inst_executed.sum", "sm__ctas_launched.sum", "sm__warps_launched.sum"):
        assert sampled.counters[counter] == full.counters[counter]
    if sampled.simulated_percent == 100.0:
        assert sampled.counters == full.counters


def waves_of_equal_blocks(blocks: int):
    asm = Asm()
    for i in range(500):
        asm.op(PipeClass.FMA, 4 if i % 3 else 1)
    return build(asm.exit(), blocks=blocks, blocks_per_chunk=7, shared_bytes=100 * 1024)


def test_whole_waves_are_left_out_and_the_end_is_simulated():
    gpu = small_gpu(sm_count=3)
    trace = waves_of_equal_blocks(604)
    sampled, full = simulate(trace, gpu, sample=True).launches[0], simulate(trace, gpu).launches[0]
    wave = 3 * full.blocks_per_sm
    assert sampled.sampling.skipped_blocks % wave == 0
    assert sampled.sampling.simulated_percent < 50
    assert abs(sampled.cycles - full.cycles) <= 0.02 * full.cycles
    left_out = sampled.block_times[:, 2] < 0
    assert left_out.sum() == sampled.sampling.skipped_blocks
    assert not left_out[-wave:].any()
    selected = full.stalls_by_instruction[:, 0]
    np.testing.assert_array_equal(sampled.stalls_by_instruction[:, 0], selected)
    assert sum(sampled.stalls.values()) == sampled.counters["sm__warps_active.sum"]


def test_a_launch_of_few_waves_is_simulated_in_full():
    gpu = small_gpu(sm_count=3)
    trace = waves_of_equal_blocks(40)
    sampled, full = simulate(trace, gpu, sample=True), simulate(trace, gpu)
    assert sampled.counters == full.counters
    assert sampled.error_cycles == 0
    assert "waves" in sampled.launches[0].sampling.why_full


def test_a_launch_behind_a_sampled_one_finds_what_the_whole_one_would_have_left():
    gpu = small_gpu(sm_count=2)
    asm = Asm()
    for i in range(8):
        asm.load(lambda b, w, i=i: ((1 << 30) + b * 1024 + i * 128, 4), barrier=i % 6)
    trace = build(asm.exit(wait_mask=63), blocks=1500, shared_bytes=50 * 1024)
    sampled, full = simulate([trace, trace], gpu, sample=True), simulate([trace, trace], gpu)
    assert sampled.launches[0].sampling.skipped_blocks
    assert (
        full.launches[1].counters["dram__bytes_read.sum"] == sampled.launches[1].counters["dram__bytes_read.sum"] == 0
    )
    alone = simulate(trace, gpu, sample=True).launches[0].sampling.error_cycles
    second = sampled.launches[1]
    assert sampled.launches[0].sampling.error_cycles == alone
    assert second.sampling.error_cycles >= BEHIND_SHARE * second.cycles


def test_lines_that_others_left_to_be_written_back_are_displaced_before_anything_is_left_out():
    l2 = load_gpu("h200").l2
    gpu = small_gpu(sm_count=2, l2__total_bytes=4 * l2.slices * l2.ways * l2.line_bytes)
    blocks = 3 * gpu.l2.total_bytes // 1024
    asm = Asm()
    for i in range(8):
        asm.load(lambda b, w, i=i: ((1 << 30) + b * 1024 + i * 128, 4), barrier=i % 6)
    trace = build(asm.exit(wait_mask=63), blocks=blocks, blocks_per_chunk=100, shared_bytes=50 * 1024)
    (sampled,), (full,) = (simulate(trace, gpu, flush=True, sample=sample).launches for sample in (True, False))
    assert sampled.sampling.skipped_blocks
    assert abs(sampled.cycles - full.cycles) <= sampled.sampling.error_cycles
    written = "dram__bytes_write.sum"
    # Left out where half of its own lines are in would be counted as if all of them displaced dirty ones: 3 times what
    # L2 holds.
    assert sampled.counters[written] < 2 * gpu.l2.total_bytes


def test_a_drift_or_a_scatter_is_not_steady():
    work = [1000 * i for i in range(1, 12)]
    even = [5000 * i for i in range(1, 12)]
    cost = steady_cost(even, work)
    assert cost.cycles == 5
    assert cost.drift == cost.half_width == 0
    assert cost.last - cost.first == 7
    assert steady_cost(even, work, earliest=11 - LEAST_WAVES) is None
    assert steady_cost([n + 4 * TOLERANCE * n * n / 50000 for n in even], work) is None
    assert steady_cost([n + 400 * (i % 2) for i, n in enumerate(even)], work) is None
    assert steady_cost([n * LEAST_CYCLES / 50000 for n in even], work) is None
