"""How many blocks fit, what limits them, how dispatch places and refills them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_traces import Asm, build, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.engine.latencies import turnaround_halves
from gpusim.errors import LaunchError
from gpusim.gpus.load import load_gpu
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import PipeClass

KIB = 1024


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiter"),
    [
        (256, 32, 0, 8, "warps"),
        (32, 32, 0, 32, "blocks"),
        (256, 64, 0, 4, "registers"),
        (1024, 64, 0, 1, "registers"),
        (128, 40, 0, 12, "registers"),  # 40 * 32 = 1280 registers a warp: 51 warps, 48 in whole groups of four
        (256, 32, 48 * KIB, 4, "shared_mem"),  # 49 KiB with the reserve, 228 KiB an SM
        (64, 16, 113 * KIB, 2, "shared_mem"),
    ],
)
def test_occupancy_as_the_cuda_calculator_has_it(threads, registers, shared, blocks, limiter):
    trace = build(Asm().exit(), blocks=10000, threads=threads, registers=registers, shared_bytes=shared)
    fit = occupancy(trace.launch, load_gpu("h200"))
    assert (fit.blocks_per_sm, fit.limiter) == (blocks, limiter)
    assert fit.l1_bytes + fit.carveout_bytes == 256 * KIB
    assert fit.carveout_bytes >= blocks * (shared + KIB)


@pytest.mark.parametrize(
    ("gpu", "threads", "carveout_kib"),
    [
        ("rtx_a4000", 32, 16),
        ("rtx3090", 128, 16),
        ("rtx3090", 512, 8),
        ("a100_80gb", 32, 32),  # of the chase, not of a profile
        ("a100_80gb", 256, 32),
        ("h100", 256, 32),
        ("l40", 64, 32),  # of the chase
        ("rtx4090", 1024, 8),
        ("rtx4090", 256, 16),
        ("rtx5090", 128, 32),
        ("t4", 256, 32),
    ],
)
def test_the_carve_out_holds_the_blocks_that_fit_not_those_of_the_grid(gpu, threads, carveout_kib):
    """As Nsight Compute printed it on GPUs of the same chip."""
    trace = build(Asm().exit(), blocks=1, threads=threads, registers=40 if threads < 256 else 16)
    assert occupancy(trace.launch, load_gpu(gpu)).carveout_bytes == carveout_kib * KIB


def test_a_cooperative_launch_must_fit_on_the_machine_at_once():
    launch = replace(build(Asm().exit(), blocks=17, threads=1024, registers=32).launch, cooperative=True)
    with pytest.raises(LaunchError, match="cooperative"):
        occupancy(launch, small_gpu(sm_count=8))
    assert occupancy(launch, small_gpu(sm_count=9)).blocks_per_sm == 2


def test_first_blocks_go_round_the_sms_one_each_interval():
    gpu = small_gpu(sm_count=4, launch__dispatch_interval_cycles=10)
    asm = Asm().op(PipeClass.FMA, 4)
    ends = simulate(build(asm.exit(), blocks=8, threads=32), gpu).block_end_cycles
    assert (ends[1:] - ends[:-1] == 10).all()


def test_an_sms_first_block_takes_the_dispatcher_longer_than_those_after_it():
    gpu = small_gpu(sm_count=3, launch__dispatch_interval_cycles=2, launch__first_dispatch_interval_cycles=5)
    ends = simulate(build(Asm().op(PipeClass.FMA, 4).exit(), blocks=7, threads=32), gpu).block_end_cycles
    assert (ends[1:] - ends[:-1]).tolist() == [5, 5, 5, 2, 2, 2]


def test_a_freed_slot_is_refilled_after_the_turnaround():
    turnaround = 300
    gpu = small_gpu(sm_count=1, launch__block_turnaround_cycles=turnaround, sm__max_blocks=1)
    ends = simulate(build(Asm().op(PipeClass.FMA, 7).exit(), blocks=5), gpu).block_end_cycles
    assert (ends[1:] - ends[:-1] == turnaround + 7).all()
    assert sum(turnaround_halves(gpu)) == turnaround


def test_a_freed_slot_goes_to_the_next_block_in_order():
    asm = Asm()
    for _ in range(20):
        asm.op(PipeClass.FMA, 4)
    gpu = small_gpu(sm_count=3, sm__max_blocks=2)
    ends = simulate(build(asm.exit(), blocks=60, blocks_per_chunk=7), gpu).block_end_cycles
    assert (ends[1:] >= ends[:-1]).all()


def test_a_block_keeps_its_place_until_its_stores_have_left_the_queue():
    # the stores of a block that has issued EXIT still stand in the queue when the tag stage is slow
    asm = Asm()
    for i in range(5):
        asm.store(lambda b, w, i=i: ((1 << 30) + (b * 5 + i) * 8192, 256))
    gpu = small_gpu(sm_count=1, launch__block_turnaround_cycles=2, sm__max_blocks=1, l1__miss_entries=4)
    result = simulate(build(asm.exit(), blocks=6), gpu)
    assert result.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 6 * 5 * 32
    assert result.counters["lts__t_sectors_op_write.sum"] == 6 * 5 * 32


@pytest.mark.parametrize("rate", [32, 64])
def test_a_blocks_place_is_free_when_its_last_store_has_left_the_sm(rate):
    """One warp writes 8 lines, more slowly than it issues them: a line more holds the place as long as the port takes
    for it, whether or not L2 has answered."""
    gaps = []
    for lines in (8, 9):
        asm = Asm()
        for i in range(lines):
            asm.store(lambda b, w, i=i, n=lines: ((1 << 30) + (b * n + i) * 128, 4))
        gpu = small_gpu(
            sm_count=1, sm__max_blocks=1, launch__block_turnaround_cycles=300, l1__store_bytes_per_cycle=rate
        )
        ends = simulate(build(asm.exit(), blocks=6), gpu).block_end_cycles
        gaps.append(int(ends[-1] - ends[-2]))
    assert abs(gaps[1] - gaps[0] - (128 + 8) / rate) <= 1
    assert gaps[0] >= 300 + 8 * 128 / rate
