"""Iterations of loops left out of sampled launches: is the real error within the claimed one, and what is exact
exact?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from regular_kernels import launch

import gpusim
from gpusim.engine.sampled.footprint import lines_in_steps, lines_of_an_iteration
from gpusim.engine.sampled.plan import plan_iterations
from gpusim.engine.sampling import BEHIND_SHARE
from gpusim.model.counters import LOAD_SECTOR_HITS, LOCAL_LOAD_SECTOR_HITS, WORK_NAMES
from gpusim.trace.record import SCATTERED

#: Kernel, GPU, SMs, blocks, iterations: whole waves and a rest, one wave, many; footprints that fit in L2 and that do
#: not.
LAUNCHES = (
    ("two_buffers", "a100_80gb", 1, 80, 150),
    ("two_buffers", "rtx_a6000", 2, 64, 200),
    ("product", "a100_80gb", 1, 150, 300),
    ("product", "h200", 2, 420, 270),
    ("two_buffers", "h200", 1, 250, 100),
)


def simulated(name: str, gpu: str, sms: int, blocks: int, iterations: int, instructions: int):
    spec = replace(gpusim.load_gpu(gpu), sm_count=sms)
    trace = gpusim.capture(*launch(name, blocks, iterations), gpu=gpu, sample=True)
    return trace, spec, gpusim.simulate(trace, spec, sample=True, sample_instructions=instructions).launches[0]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("what", LAUNCHES, ids=lambda what: "-".join(map(str, what)))
def test_the_whole_launch_is_within_the_claimed_error(what):
    trace, spec, sampled = simulated(*what, instructions=60_000)
    full = gpusim.simulate(trace, spec).launches[0]
    assert sampled.sampling.skipped_iterations > 0
    assert sampled.sampling.simulated_percent < 70
    assert sampled.sampling.run_blocks == len(trace.regular.held)
    assert abs(sampled.cycles - full.cycles) <= sampled.sampling.error_cycles
    assert sampled.sampling.error_cycles < 0.5 * full.cycles
    for counter in ("smsp__inst_executed.sum", "sm__ctas_launched.sum", "sm__warps_launched.sum"):
        assert sampled.counters[counter] == full.counters[counter]
    np.testing.assert_array_equal(sampled.stalls_by_instruction[:, 0], full.stalls_by_instruction[:, 0])
    for column, name in enumerate(WORK_NAMES):
        if column not in (
            LOAD_SECTOR_HITS,
            LOCAL_LOAD_SECTOR_HITS,
        ):  # what an access is does not depend on which iterations ran
            assert sampled.counters[name] == pytest.approx(full.counters[name], rel=0.02), name
    assert sampled.counters["lts__t_sectors_op_write.sum"] == pytest.approx(
        full.counters["lts__t_sectors_op_write.sum"], rel=0.01
    )
    assert sum(sampled.stalls.values()) == sampled.counters["sm__warps_active.sum"]
    assert (sampled.block_times == -1).all()


def test_a_launch_that_is_simulated_soon_enough_keeps_its_iterations():
    trace, spec, sampled = simulated("two_buffers", "a100_80gb", 1, 64, 100, instructions=80_000_000)
    full = gpusim.simulate(trace, spec).launches[0]
    assert plan_iterations(trace, spec) is None
    assert sampled.cycles == full.cycles
    assert sampled.sampling.skipped_iterations == 0


def test_iterations_are_counted_from_one_line_to_the_next():
    spec = replace(gpusim.load_gpu("a100_80gb"), sm_count=1)
    long, short = (
        gpusim.capture(*launch("product", 150, iterations), gpu="a100_80gb", sample=True) for iterations in (300, 250)
    )
    plan = plan_iterations(long, spec, 1000)
    assert plan.whole == 32  # 4 bytes an iteration
    assert {part.iterations % 32 for part in plan.parts} == {part.first_iteration % 32 for part in plan.parts} == {0}
    assert plan_iterations(short, spec, 1000) is None


def test_more_instructions_are_more_iterations():
    trace, spec, _ = simulated("two_buffers", "a100_80gb", 1, 64, 300, instructions=80_000_000)
    counts = [
        plan_iterations(trace, spec, instructions).parts[0].iterations for instructions in (40_000, 60_000, 90_000)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_a_launch_behind_one_without_all_its_iterations_finds_warm_caches():
    spec = replace(gpusim.load_gpu("a100_80gb"), sm_count=1)
    trace = gpusim.capture(*launch("two_buffers", 64, 100), gpu="a100_80gb", sample=True)
    both = gpusim.simulate([trace, trace], spec, sample=True, sample_instructions=60_000)
    second = both.launches[1]
    assert second.sampling.error_cycles >= BEHIND_SHARE * second.cycles


def test_blocks_left_over_are_simulated_alone_too():
    spec = replace(gpusim.load_gpu("a100_80gb"), sm_count=1)
    trace = gpusim.capture(*launch("two_buffers", 80, 150), gpu="a100_80gb", sample=True)
    plan = plan_iterations(trace, spec, 60_000)
    alone = plan.rest_alone()
    assert plan.waves * plan.wave + plan.rest == 80
    assert sum(part.blocks for part in plan.parts) == 80 - plan.left_out * plan.wave
    assert [(part.first, part.blocks) for part in alone.parts] == [(80 - plan.rest, plan.rest)]
    assert alone.part().launch.blocks == plan.rest


def test_lines_of_blocks_are_those_that_their_accesses_touch():
    trace = gpusim.capture(*launch("product", 150, 64), gpu="a100_80gb", sample=True)
    blocks = np.array([0, 1, 11, 40, 149])
    touched = set()
    for chunk in trace.chunks():
        warps = chunk.warps.reshape(chunk.blocks, -1)
        for block in set(blocks) & set(range(chunk.first_block, chunk.first_block + chunk.blocks)):
            for warp in warps[block - chunk.first_block]:
                for access in chunk.accesses[warp["access_start"] :][: warp["access_count"]]:
                    lanes = np.flatnonzero(int(access["mask"]) >> np.arange(32) & 1)
                    if access["stride"] == SCATTERED:
                        at = chunk.scattered[access["address"]][lanes].astype(np.int64)
                    else:
                        at = int(access["address"]) + lanes * int(access["stride"])
                    touched |= set((at >> 7).tolist())
    found = lines_in_steps(trace.regular, blocks, 1 << 20, trace.launch.allocations)
    assert set(found.tolist()) == {
        line
        for line in touched
        if any(a <= line << 7 < a + size or a <= (line << 7) + 127 < a + size for a, size in trace.launch.allocations)
    }
    assert lines_of_an_iteration(trace.regular, trace.launch.allocations) > 0


WRITES = r"""
extern "C" __global__ void copy(const float4 *x, float4 *y, int iterations) {
  #pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    int at = (i * gridDim.x + blockIdx.x) * 256 + threadIdx.x;
    y[at] = x[at];
  }
}
"""


def test_a_loop_that_writes_more_than_the_l2_holds_writes_back():
    spec = gpusim.load_gpu("a100_80gb")
    spec = replace(spec, sm_count=2, l2=replace(spec.l2, total_bytes=spec.l2.total_bytes // 8))
    n = 64 * 256 * 4 * 60
    args = (np.zeros(n, np.float32), np.zeros(n, np.float32), np.int32(60))
    trace = gpusim.capture(gpusim.cuda_cpp(WRITES, "copy"), 64, 256, args, gpu="a100_80gb", sample=True)
    sampled = gpusim.simulate(trace, spec, sample=True, sample_instructions=60_000).launches[0]
    full = gpusim.simulate(trace, spec).launches[0]
    assert sampled.sampling.skipped_iterations > 0
    assert abs(sampled.cycles - full.cycles) <= sampled.sampling.error_cycles
    assert sampled.counters["dram__bytes_write.sum"] == pytest.approx(full.counters["dram__bytes_write.sum"], rel=0.4)
