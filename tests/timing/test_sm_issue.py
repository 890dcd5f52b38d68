"""When a warp's next instruction may issue: stall counts, pipes, counters, barriers, from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import Asm, build, run_cycles, small_gpu
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gpusim.engine.gpu import simulate
from gpusim.errors import DeadlockError
from gpusim.model.program import LONGEST_PLAIN_STALL, SHORT_STALL, STAND_ASIDE_CYCLES, effective_stall
from gpusim.model.scoreboard import DEEP_WIDTH, FALLS, few_from, release_at
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space

GPU = small_gpu()


def cycles(asm: Asm, gpu=GPU, **launch) -> int:
    """From the first issue to the last, both included."""
    return run_cycles(simulate(build(asm, **launch), gpu)) + 1


@pytest.mark.parametrize("stall", [1, 2, 4, 5, 11])
@pytest.mark.parametrize("pipe", [PipeClass.FMA, PipeClass.ALU, PipeClass.HALF])
def test_dependent_fixed_latency_chain_costs_its_stall_counts(pipe, stall):
    asm = Asm()
    for _ in range(50):
        asm.op(pipe, stall)
    interval = GPU.pipes[pipe.name.lower()].interval_cycles
    assert cycles(asm.exit()) == 1 + 49 * max(stall, interval) + stall


def test_stall_above_eleven_needs_the_yield_bit():
    assert effective_stall(LONGEST_PLAIN_STALL, 0) == LONGEST_PLAIN_STALL
    assert effective_stall(LONGEST_PLAIN_STALL + 1, 0) == SHORT_STALL
    assert effective_stall(15, 1) == 15


def test_stall_zero_with_yield_stands_aside():
    assert effective_stall(0, 1) == STAND_ASIDE_CYCLES
    assert effective_stall(0, 0) == 1


@pytest.mark.parametrize("interval", [1, 2, 4])
def test_a_pipe_takes_an_instruction_each_interval(interval):
    gpu = small_gpu(fma__interval_cycles=interval)
    asm = Asm()
    for _ in range(40):
        asm.op(PipeClass.FMA, 1)
    # eight warps on one sub-core need 8 * 40 slots of its port
    result = simulate(build(asm.exit(), threads=32 * 32), gpu)
    assert run_cycles(result) >= (8 * 40 - 1) * interval
    assert run_cycles(result) <= 8 * 40 * interval + 8 + 2 * interval


def test_a_unit_shared_by_the_sm_serves_one_sub_core_at_a_time():
    asm = Asm()
    for _ in range(10):
        asm.op(PipeClass.FP64, 1)
    own = run_cycles(simulate(build(asm.exit(), threads=128), small_gpu(fp64__interval_cycles=8)))
    shared = run_cycles(simulate(build(asm, threads=128), small_gpu(fp64__interval_cycles=8, fp64__shared_by_sm=True)))
    assert own < 2 + 10 * 8
    assert shared >= 4 * 10 * 8 - 8


@pytest.mark.parametrize(
    ("pipe", "cycles_a_pair"),
    [(PipeClass.IMAD, 2), (PipeClass.HALF_SINGLE, 2), (PipeClass.IMAD_WIDE, 4), (PipeClass.FMA, 2)],
)
def test_integers_take_a_half_of_an_fma_pipe_and_leave_the_other_to_fp32(pipe, cycles_a_pair):
    """An FP32 operation and another one in turn, eight warps: both halves work, and issue takes one a cycle."""
    gpu = small_gpu(
        fma__interval_cycles=1, imad__interval_cycles=2, half_single__interval_cycles=2, imad_wide__interval_cycles=4,
        register_file__bank_conflicts=False,
    )  # fmt: skip
    asm = Asm()
    for _ in range(40):
        asm.op(PipeClass.FMA, 1).op(pipe, 1)
    taken = run_cycles(simulate(build(asm.exit(), threads=32 * 32), gpu))
    assert taken == pytest.approx(8 * 40 * cycles_a_pair, rel=0.05)


def test_integers_alone_have_only_the_heavy_half():
    asm = Asm()
    for _ in range(40):
        asm.op(PipeClass.IMAD, 1).op(PipeClass.HALF, 1)
    gpu = small_gpu(fma__interval_cycles=1, imad__interval_cycles=2, half__interval_cycles=2)
    assert run_cycles(simulate(build(asm.exit(), threads=32 * 32), gpu)) >= (8 * 80 - 1) * 2


@pytest.mark.parametrize(
    ("pipe", "entrance", "cycles_a_turn"),
    [
        (PipeClass.ALU, 0, 4), (PipeClass.ALU, 4, 4 + 3), (PipeClass.HALF, 4, 4 + 3), (PipeClass.FMA, 3, 3 + 3),
        (PipeClass.UNIFORM, 4, 4),
    ],
)  # fmt: skip
def test_behind_a_wide_multiply_add_other_arithmetic_waits_at_the_entrance(pipe, entrance, cycles_a_turn):
    """A wide multiply-add and three others in turn, eight warps: what is no arithmetic issues in its shadow."""
    one = {
        "imad__interval_cycles": 1,
        f"{pipe.name.lower()}__interval_cycles": 1,
        "register_file__bank_conflicts": False,
    }
    gpu = small_gpu(imad_wide__interval_cycles=max(1, entrance), imad_wide__entrance_cycles=entrance, **one)
    asm = Asm()
    for _ in range(40):
        asm.op(PipeClass.IMAD_WIDE, 1).op(pipe, 1).op(pipe, 1).op(pipe, 1)
    taken = run_cycles(simulate(build(asm.exit(), threads=32 * 32), gpu))
    assert taken == pytest.approx(8 * 40 * cycles_a_turn, rel=0.05)


def test_few_fp64_units_also_convert_types_of_64_bits_and_many_do_not():
    """Conversions and FP64 operations in turn: one after another on units that the SM shares, side by side
    elsewhere."""
    both, doubles = Asm(), Asm()
    for _ in range(10):
        both.op(PipeClass.FP64, 1).op(PipeClass.CONVERT_WIDE, 1)
        doubles.op(PipeClass.FP64, 1)
    few = {"fp64__interval_cycles": 8, "fp64__shared_by_sm": True}
    few |= {"convert_wide__interval_cycles": 8, "convert_wide__shared_by_sm": True}
    many = {"fp64__interval_cycles": 8, "convert_wide__interval_cycles": 8}

    def run(asm: Asm, shape: dict) -> int:
        return run_cycles(simulate(build(asm, threads=128), small_gpu(**shape)))

    both.exit(), doubles.exit()
    assert run(both, few) >= 2 * run(doubles, few) - 8
    assert run(both, many) <= run(doubles, many) + 8


@pytest.mark.parametrize(("latency", "stall"), [(18, 2), (18, 15), (40, 2)])
def test_variable_latency_result_is_ready_at_its_latency_and_not_before(latency, stall):
    gpu = small_gpu(mufu__latency_cycles=latency)
    asm = Asm().op(PipeClass.MUFU, stall, yield_hint=1, write_barrier=3).op(PipeClass.FMA, 1, wait_mask=1 << 3)
    assert cycles(asm, gpu) == 1 + latency
    other = Asm().op(PipeClass.MUFU, stall, yield_hint=1, write_barrier=3).op(PipeClass.FMA, 1, wait_mask=1 << 2)
    assert cycles(other, gpu) == 1 + stall


def test_read_barrier_falls_after_the_operands_are_read():
    asm = Asm().op(PipeClass.MUFU, 2, read_barrier=1).op(PipeClass.FMA, 1, wait_mask=1 << 1)
    assert cycles(asm) == 1 + GPU.l1.operand_read_cycles


def test_depbar_waits_only_down_to_its_level():
    def chase(level: int) -> int:
        asm = Asm()
        asm.load(lambda b, w: (1 << 30, 4), barrier=0, stall=2)
        asm.load(lambda b, w: (1 << 31, 4), barrier=0, stall=2).op(PipeClass.FMA, 11).op(PipeClass.FMA, 11)
        asm.op(PipeClass.NONE, 4, flags=int(Flag.DEPBAR), depbar_index=0, depbar_level=level)
        return simulate(build(asm.exit()), GPU).stalls["long_scoreboard"]

    assert chase(2) == 0
    assert chase(0) >= chase(1) > 100


@njit
def note_and_ask(board, falls, level):
    for fall in falls:
        release_at(board, 0, 3, fall, 1)
    return few_from(board, 0, 3, level)


@given(falls=st.lists(st.integers(1, 60), max_size=2 * FALLS), level=st.integers(0, FALLS - 1))
def test_a_counter_is_at_most_a_level_once_as_few_of_its_falls_are_to_come(falls, level):
    board = np.zeros((1, DEEP_WIDTH), np.int64)
    cycle = note_and_ask(board, np.array(falls, np.int64), level)
    assert sum(fall > cycle for fall in falls) <= level
    assert cycle == 0 or sum(fall > cycle - 1 for fall in falls) > level


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_depbar_waits_for_hits_too_until_as_few_are_under_way(level):
    """Shared loads of one, two, four and eight words of a bank, which the data stage reads one after another."""
    asm = Asm()
    for words in (1, 2, 4, 8):
        lanes = 2**words - 1
        asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 128), lanes, write_barrier=0)
    asm.op(PipeClass.NONE, 4, flags=int(Flag.DEPBAR), depbar_index=0, depbar_level=level)
    result = simulate(build(asm, shared_bytes=4096), GPU)
    read = sum((1, 2, 4, 8)[: 4 - level])
    assert result.stalls["short_scoreboard"] + 4 == GPU.l1.shared_latency_cycles + read - 1


def test_warps_of_a_block_leave_a_barrier_together():
    latency = GPU.l1.barrier_latency_cycles
    asm = Asm().op(PipeClass.BARRIER, 1, flags=int(Flag.BARRIER_WAIT)).op(PipeClass.FMA, 1)
    # the SM takes one of the 32 arrivals each `interval` cycles, from whichever sub-core; the last one opens it
    interval = GPU.pipes["barrier"].interval_cycles
    arrivals = 31 * interval
    assert cycles(asm, threads=32 * 32) == 1 + arrivals + latency + 7


def test_a_barrier_does_not_wait_for_warps_that_have_ended():
    program = Asm().op(PipeClass.BARRIER, 1, flags=int(Flag.BARRIER_WAIT)).op(PipeClass.BRANCH, 5, flags=int(Flag.EXIT))
    trace = build(program, threads=64)
    chunk = trace.chunk_list[0]
    # the second warp's path is the exit alone
    runs = np.array([tuple(chunk.runs[0]), (1, 1, 0xFFFFFFFF)], chunk.runs.dtype)
    warps = chunk.warps.copy()
    warps["path"] = [0, 1]
    trace.chunk_list[0] = type(chunk)(0, 1, warps, runs, np.array([0, 1, 2]), chunk.accesses, chunk.scattered)
    result = simulate(trace, GPU)
    assert result.counters["smsp__inst_executed.sum"] == 3
    assert run_cycles(result) <= 3 + GPU.l1.barrier_latency_cycles


def test_fence_waits_for_the_warps_own_stores():
    asm = Asm().store(lambda b, w: (1 << 30, 4)).op(PipeClass.NONE, 2, flags=int(Flag.FENCE)).op(PipeClass.FMA, 1)
    fenced = simulate(build(asm.exit()), GPU)
    assert fenced.stalls["membar"] > 100
    plain = Asm().store(lambda b, w: (1 << 30, 4)).op(PipeClass.NONE, 2).op(PipeClass.FMA, 1)
    assert simulate(build(plain.exit()), GPU).stalls["membar"] == 0


def test_scheduler_is_greedy_and_then_takes_the_youngest_of_a_block():
    # Two warps on one sub-core; stall 1: the first to issue keeps issuing, and it is the younger.
    asm = Asm()
    for _ in range(10):
        asm.op(PipeClass.FMA, 1)
    trace = build(asm.exit(), threads=32 * 5)
    result = simulate(trace, small_gpu(sm_count=1))
    # warp 0 (older) shares sub-core 0 with warp 4; it loses all 11 slots of warp 4
    assert result.stalls["not_selected"] == 11
    yielding = Asm()
    for _ in range(10):
        yielding.op(PipeClass.FMA, 1, yield_hint=1)
    shared = simulate(build(yielding.exit(), threads=32 * 5), small_gpu(sm_count=1))
    assert run_cycles(shared) == run_cycles(result)


@pytest.mark.parametrize(
    ("sub_cores", "issues"),
    [
        (1, [2, 3, 4, 5, 6, 13, 17, 21]),
        (2, [2 * 2, 2 * 3, 2 * 4, 2 * 5, 2 * 6, 13 + 15, 17 + 19, 21 + 23]),
        (3, [3 * 2, 3 * 3, 3 * 4, 3 * 5, 3 * 6, 13 + 15 + 17, 19 + 21 + 23, 25 + 27 + 29]),
        (4, [4 * 2, 4 * 3, 4 * 4, 4 * 5, 4 * 6, 13 + 15 + 17 + 19, 21 + 23 + 25 + 27, 29 + 31 + 33 + 35]),
    ],
)
def test_back_to_back_memory_instructions_issue_when_they_do_on_silicon(sub_cores, issues):
    """Table 1 of Huerta et al., MICRO 2025 (RTX A6000): the cycles of issue, summed over the active sub-cores."""
    asm = Asm()
    for _ in issues:
        asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 4), write_barrier=7)
    front = {"l1__queue_entries": 4, "l1__operand_interval_cycles": 0, "l1__address_interval_cycles": 4}
    gpu = small_gpu(l1__accept_interval_cycles=2, l1__address_latency_cycles=11, **front)
    (launch,) = simulate(build(asm, threads=32 * sub_cores, shared_bytes=4096), gpu).launches
    late = np.cumsum(launch.stalls_by_instruction[:, list(launch.stalls).index("mio_throttle")])
    unhindered = sub_cores * np.arange(2, 2 + len(issues))
    assert (unhindered + late).tolist() == issues


@pytest.mark.parametrize(("width", "later"), [(4, -2), (8, 0), (16, 4)])
def test_a_wider_load_takes_as_much_longer_as_its_registers_take_to_write(width, later):
    asm = Asm().load(lambda b, w: (1 << 30, 0), width, barrier=0, stall=2)
    asm.load(lambda b, w: (1 << 30, 0), width, barrier=1, stall=2, wait_mask=1).op(PipeClass.FMA, 1, wait_mask=2)
    missed, hit = (simulate(build(asm, mask=1), small_gpu(1, l1__hit_latency_cycles=h)).cycles for h in (32, 42))
    assert hit - missed == 20  # of both the miss and the hit
    launch = simulate(build(asm, mask=1), small_gpu(1)).launches[0]
    waited = launch.stalls_by_instruction[2, list(launch.stalls).index("long_scoreboard")]
    assert waited + 2 == GPU.l1.hit_latency_cycles + later


def test_memory_queue_holds_its_entries_and_the_latch():
    # loads of 32 lines each: the back end is slow, so that the queue fills
    def stalls(loads: int) -> dict[str, int]:
        asm = Asm()
        for i in range(loads):
            asm.load(lambda b, w, i=i: ((1 << 30) + i * 8192, 128), barrier=7)
        return simulate(build(asm.exit()), GPU).stalls

    room = GPU.l1.queue_entries + 1
    assert stalls(room + 1)["lg_throttle"] == 0  # one in the back end, the rest in queue and latch
    assert stalls(room + 2)["lg_throttle"] > 0


def test_taken_branch_costs_the_branch_latency():
    program = Asm().op(PipeClass.BRANCH, 1, flags=int(Flag.BRANCH)).op(PipeClass.FMA, 1).op(PipeClass.FMA, 1)
    straight = build(program)
    taken = build(program)
    chunk = taken.chunk_list[0]
    runs = np.array([(0, 1, 0xFFFFFFFF), (2, 1, 0xFFFFFFFF)], chunk.runs.dtype)
    taken.chunk_list[0] = type(chunk)(0, 1, chunk.warps, runs, np.array([0, 2]), chunk.accesses, chunk.scattered)
    assert run_cycles(simulate(straight, GPU)) + 1 == 3
    result = simulate(taken, GPU)
    assert run_cycles(result) + 1 == 1 + GPU.pipes["branch"].latency_cycles
    assert result.stalls["branch_resolving"] == GPU.pipes["branch"].latency_cycles - 1


def test_shared_store_to_many_words_of_a_bank_is_slower():
    def cost(stride: int) -> int:
        asm = Asm()
        for _ in range(20):
            asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, stride), write_barrier=0)
        return cycles(asm.op(PipeClass.FMA, 1, wait_mask=1), shared_bytes=4096)

    # One sub-core works out an address each few cycles, and the data stage takes 32 for as many words of a bank.
    assert cost(128) - cost(4) == 19 * (32 - GPU.l1.address_interval_cycles) + 31


def meeting(warps: int, threads: int, waits: bool = True) -> Asm:
    flags = int(Flag.BARRIER_WAIT) if waits else 0
    return Asm().op(PipeClass.BARRIER, 1, flags=flags, barrier_id=3, barrier_threads=32 * warps).op(PipeClass.FMA, 1)


def test_a_barrier_of_some_warps_opens_when_so_many_have_come():
    latency = GPU.l1.barrier_latency_cycles
    # Warps come one each `interval`, from whichever sub-core; of four, two at a time meet, of eight, four or all.
    interval = GPU.pipes["barrier"].interval_cycles
    assert cycles(meeting(2, 128), threads=128) == 1 + 3 * interval + latency
    assert cycles(meeting(4, 256), threads=256) == 1 + 7 * interval + latency
    assert cycles(meeting(8, 256), threads=256) == 1 + 7 * interval + latency + 1


def test_a_barrier_that_expects_more_warps_than_come_is_a_deadlock():
    with pytest.raises(DeadlockError):
        simulate(build(meeting(3, 64), threads=64), GPU)
