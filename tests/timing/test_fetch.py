"""Instruction fetch and constants: what a cache lacks comes later, what it has costs nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import FULL, Asm, build, run_cycles, small_gpu
from hypothesis import given
from hypothesis import strategies as st
from oracles_sm import LruSets

from gpusim.engine.gpu import simulate
from gpusim.model.line_cache import arrival, install, line_cache
from gpusim.model.messages import NEVER
from gpusim.trace.record import Chunk, Flag, PipeClass, Trace

#: An instruction is 16 bytes, a line eight of them.
LINE = 8
L1_MISS, L15_HIT, L0_MISS, DECODE, AHEAD = 200, 50, 30, 2, 3


def gpu(**changes):
    base = {
        "instruction_cache__l0_miss_cycles": L0_MISS,
        "instruction_cache__l1_miss_cycles": L1_MISS,
        "instruction_cache__l15_hit_cycles": L15_HIT,
        "instruction_cache__l1_interval_cycles": 2,
        "instruction_cache__l1_fetch_lines": 1,
        "instruction_cache__l15_fetch_lines": 1,
        "instruction_cache__streams": 1,
        "instruction_cache__stream_entries": 0,
        "instruction_cache__buffer_entries": AHEAD,
        "instruction_cache__decode_cycles": DECODE,
    }
    return small_gpu(1, **base | changes)


def straight(instructions: int, stall: int = 1) -> Asm:
    asm = Asm()
    for _ in range(instructions):
        asm.op(PipeClass.NONE, stall)
    return asm


def along(asm: Asm, runs: list[tuple[int, int]], **more) -> Trace:
    """The program's instructions in another order: (first, count) after (first, count)."""
    trace = build(asm, **more)
    chunk = trace.chunk_list[0]
    path = np.array([(first, count, FULL) for first, count in runs], chunk.runs.dtype)
    trace.chunk_list[0] = Chunk(
        0, chunk.blocks, chunk.warps, path, np.array([0, len(path)]), chunk.accesses, chunk.scattered
    )
    return trace


@pytest.mark.parametrize("ways", [1, 2, 4])
@given(data=st.lists(st.integers(0, 40), max_size=60))
def test_a_line_cache_keeps_what_was_used_last_in_each_set(ways, data):
    lines = line_cache(1, 8 * ways * 64, 64, ways)
    oracle = LruSets(8, ways)
    for now, line in enumerate(data):
        there = arrival(lines, 0, line, now)
        assert (there != NEVER) == oracle.touch(line % 8, line)
        if there == NEVER:
            install(lines, 0, line, now + 100, now)


def test_the_first_instruction_comes_from_behind_the_caches():
    result = simulate(build(straight(4)), gpu())
    assert run_cycles(result) == L1_MISS + DECODE + 3
    assert result.stalls["no_instruction"] == L1_MISS + DECODE


def test_a_line_is_asked_for_when_the_instruction_buffer_has_room():
    first, second = (run_cycles(simulate(build(straight(n)), gpu())) for n in (LINE, LINE + 1))
    # Its first instruction follows the one that asked, AHEAD before it, as late as a miss takes.
    assert second - first == L1_MISS + DECODE - (AHEAD - 1)


def test_slow_issue_hides_what_is_asked_for_ahead():
    stall = 11
    slow = simulate(build(straight(2 * LINE, stall)), gpu(instruction_cache__l1_miss_cycles=AHEAD * stall - DECODE))
    assert slow.stalls["no_instruction"] == AHEAD * stall  # the first line's alone
    late = simulate(build(straight(2 * LINE, stall)), gpu(instruction_cache__l1_miss_cycles=AHEAD * stall - DECODE + 1))
    assert late.stalls["no_instruction"] == AHEAD * stall + 1 + 1


def test_a_second_warp_of_the_sub_core_waits_for_the_same_line():
    result = simulate(build(straight(4), threads=32 * 5), gpu())
    # Warps 0 and 4 share a sub-core; to the other three sub-cores the line comes when it comes to the first.
    assert result.stalls["no_instruction"] == 5 * (L1_MISS + DECODE)


def test_another_sub_core_finds_the_line_in_the_sms_cache():
    # The second block starts on the same SM once the first is done; its warps' sub-core 1 has never run.
    later = Asm()
    for _ in range(4):
        later.op(PipeClass.NONE)
    result = simulate(build(later, threads=64), gpu(instruction_cache__l1_interval_cycles=10))
    # Both ask at once: the line that the first has asked for comes to both, for the second's turn at the port is over
    # by then.
    assert result.stalls["no_instruction"] == 2 * (L1_MISS + DECODE)


@pytest.mark.parametrize("together", [2, 3])
def test_lines_come_together_from_behind_the_l1(together):
    n = 6 * LINE
    result = simulate(build(straight(n)), gpu(instruction_cache__l15_fetch_lines=together))
    first, later = -(-6 // together), 6 - -(-6 // together)
    # Those that came with another one are in the L1 by the time that they are asked for.
    expected = first * (L1_MISS + DECODE - AHEAD) + AHEAD + later * (L0_MISS + DECODE - AHEAD)
    assert result.stalls["no_instruction"] == expected


def test_the_stream_buffer_brings_what_the_l1_holds_and_what_is_new():
    # Twice through code that the sub-core's cache does not hold and the SM's does: a stream runs ahead, and every line
    # is there.
    small = {"instruction_cache__l0_bytes": 512, "instruction_cache__l0_ways": 1}
    lines = 12
    jump = {rounds: loop(lines, rounds, **small, instruction_cache__stream_entries=8) for rounds in (2, 3)}
    assert jump[3] - jump[2] == L0_MISS  # the jump to the first line alone
    without = loop(lines, 3, **small) - loop(lines, 2, **small)
    one = loop(lines, 3, **small, instruction_cache__stream_entries=1) - loop(
        lines, 2, **small, instruction_cache__stream_entries=1
    )
    assert jump[3] - jump[2] < one < without
    n = 6 * LINE
    cold = simulate(build(straight(n)), gpu(instruction_cache__stream_entries=8))
    assert (
        cold.stalls["no_instruction"] == L1_MISS + DECODE
    )  # lines come two cycles apart, and eight instructions take eight


def test_the_stream_buffer_does_not_bring_again_what_the_l1_lost():
    small = {
        **{f"instruction_cache__{level}_bytes": 4 * LINE * 16 for level in ("l0", "l1")},
        **{f"instruction_cache__{level}_ways": 1 for level in ("l0", "l1")},
    }
    again = [
        loop(12, 3, **small, instruction_cache__stream_entries=entries)
        - loop(12, 2, **small, instruction_cache__stream_entries=entries)
        for entries in (0, 8)
    ]
    assert again[0] == again[1] == 12 * L15_HIT + 11 * (DECODE - AHEAD)


def test_what_the_l1_does_not_hold_comes_from_the_l15():
    # A loop of 16 lines: the L1.5 holds them, the L1 of eight none by the time they are wanted again, three come at
    # once.
    small = {
        **{f"instruction_cache__{level}_bytes": 8 * LINE * 16 for level in ("l0", "l1")},
        **{f"instruction_cache__{level}_ways": 1 for level in ("l0", "l1")},
        "instruction_cache__l1_fetch_lines": 4,
    }
    again = loop(16, 3, **small) - loop(16, 2, **small)
    assert again == (4 * L15_HIT + 12 * L0_MISS) + 15 * (DECODE - AHEAD)


def test_each_of_two_warps_in_different_code_has_a_stream():
    # Warps 0 and 4 share a sub-core, each in its own 96 lines, which the SM's cache holds and the sub-core's does not.
    rounds, lines = 3, 96
    trace = build(straight(2 * lines * LINE), threads=32 * 5)
    chunk = trace.chunk_list[0]
    runs = [(0, lines * LINE, FULL)] * rounds + [(0, 1, FULL)] + [(lines * LINE, lines * LINE, FULL)] * rounds
    warps = chunk.warps.copy()
    warps["path"] = [0, 1, 1, 1, 2]
    starts = np.array([0, rounds, rounds + 1, len(runs)])
    trace.chunk_list[0] = Chunk(0, 1, warps, np.array(runs, chunk.runs.dtype), starts, chunk.accesses, chunk.scattered)
    lost = []
    for streams in (1, 2):
        machine = gpu(
            instruction_cache__streams=streams, instruction_cache__stream_entries=8, instruction_cache__l0_bytes=1 << 10,
            instruction_cache__l0_ways=1, instruction_cache__l1_miss_cycles=L0_MISS, instruction_cache__l15_hit_cycles=L0_MISS,
        )  # fmt: skip
        lost.append(run_cycles(simulate(trace, machine)) - 2 * rounds * lines * LINE)
    assert lost[1] < lost[0] / 2


def loop(lines: int, rounds: int, **changes) -> int:
    runs = [(0, lines * LINE)] * rounds
    return simulate(along(straight(lines * LINE), runs), gpu(**changes)).stalls["no_instruction"]


def test_a_loop_that_fits_misses_once_and_one_that_does_not_misses_every_time():
    small = {"instruction_cache__l0_bytes": 512, "instruction_cache__l0_ways": 1}
    fits = loop(4, 2, **small)
    assert loop(4, 6, **small) == fits
    exceeds = loop(8, 2, **small)
    # A round more asks for eight lines again, which the SM's cache has by then; the jump waits for all of it.
    assert loop(8, 3, **small) - exceeds == 7 * (L0_MISS + DECODE - AHEAD) + L0_MISS


def test_a_jump_waits_for_its_target_beyond_the_branch_latency():
    program = straight(4 * LINE)
    program.rows[3]["flags"] = int(Flag.BRANCH)
    program.rows[3]["pipe"] = PipeClass.BRANCH
    trace = along(program, [(0, 4), (2 * LINE, 1)])
    branch = gpu().pipes["branch"].latency_cycles
    result = simulate(trace, gpu())
    assert run_cycles(result) == L1_MISS + DECODE + 3 + branch + L1_MISS
    assert result.stalls["branch_resolving"] == branch - 1


def test_the_same_program_again_finds_its_code():
    trace = build(straight(4 * LINE))
    first, second = simulate([trace, trace], gpu()).launches
    assert first.stalls["no_instruction"] > 0 and second.stalls["no_instruction"] == 0
    _, other = simulate([trace, build(straight(4 * LINE, 2))], gpu()).launches
    assert other.stalls["no_instruction"] > 0


@pytest.mark.parametrize(("l1_lines", "kept"), [(8, True), (4, False)])
def test_programs_launched_in_turn_find_their_code_as_far_as_it_fits(l1_lines, kept):
    one, other = build(straight(4 * LINE, 2)), build(straight(4 * LINE, 3))
    small = gpu(
        **{f"instruction_cache__{level}_bytes": l1_lines * LINE * 16 for level in ("l0", "l1", "l15")},
        **{f"instruction_cache__{level}_ways": 4 for level in ("l0", "l1", "l15")},
    )
    first, _, again, _ = simulate([one, other] * 2, small).launches
    assert again.stalls["no_instruction"] == (0 if kept else first.stalls["no_instruction"])


def test_a_miss_goes_before_what_streams_wait_for():
    # Two sub-cores miss at once, in different lines: the second's turn comes behind the first's, not behind its
    # stream's.
    program = straight(32 * LINE)
    trace = build(program, threads=64)
    chunk = trace.chunk_list[0]
    path = np.array([(0, LINE, FULL), (16 * LINE, LINE, FULL)], chunk.runs.dtype)
    warps = chunk.warps.copy()
    warps["path"] = [0, 1]
    trace.chunk_list[0] = Chunk(0, 1, warps, path, np.array([0, 1, 2]), chunk.accesses, chunk.scattered)
    result = simulate(trace, gpu(instruction_cache__l1_interval_cycles=10, instruction_cache__stream_entries=8))
    assert result.stalls["no_instruction"] == 2 * (L1_MISS + DECODE) + 10


def test_a_stream_that_is_aimed_elsewhere_gives_up_its_turns():
    # The jump misses while the stream still waits for six of eight lines; the line behind its target is wanted at once.
    program = straight(40 * LINE)
    program.rows[LINE - 1]["flags"] = int(Flag.BRANCH)
    trace = along(program, [(0, LINE), (20 * LINE, 2 * LINE)])
    times = [
        run_cycles(
            simulate(trace, gpu(instruction_cache__l1_interval_cycles=each, instruction_cache__stream_entries=8))
        )
        for each in (1, 100)
    ]
    # It waits for the turn that is under way and for the target's own, not for six more.
    assert times[1] - times[0] < 2 * (100 - 1)


@pytest.mark.parametrize("warps", [16, 32])
def test_a_larger_instruction_cache_is_hardly_slower_when_warps_drift_apart(warps):
    # Where the code is in the SM's cache, but not in the sub-cores', warps come to be at different lines: 28 % to three
    # times slower while streams took the port from misses. What is left is that warps which no slow miss gathers share
    # no lines.
    times = []
    for l1_bytes in (8 << 10, 64 << 10):
        machine = gpu(
            instruction_cache__l0_bytes=4 << 10, instruction_cache__l1_bytes=l1_bytes,
            instruction_cache__stream_entries=8, instruction_cache__l0_ways=4, instruction_cache__l1_ways=4,
        )  # fmt: skip
        trace = along(straight(100 * LINE), [(0, 100 * LINE)] * 3, threads=32 * warps)
        times.append(simulate(trace, machine).cycles)
    assert times[1] < 1.25 * times[0]


def test_stall_reasons_add_up_with_cold_caches():
    result = simulate(build(straight(100, 2), blocks=5, threads=320), gpu(instruction_cache__stream_entries=3))
    assert result.stalls["no_instruction"] > 0
    assert sum(result.stalls.values()) == result.counters["sm__warps_active.sum"]


# ---- constants


def constant(asm: Asm, offset: int, pipe: PipeClass = PipeClass.FMA, **fields: int) -> Asm:
    return asm.op(pipe, 1, constant_bytes=4, constant_bank=0, constant_offset=offset, **fields)


@pytest.mark.parametrize(("second", "misses"), [(0x164, 1), (0x180, 2)])
def test_a_constant_operand_waits_once_for_its_line(second, misses):
    asm = constant(constant(Asm().op(PipeClass.NONE), 0x160), second)
    result = simulate(build(asm), small_gpu(constant_cache__miss_cycles=79))
    assert result.stalls["imc_miss"] == misses * 79
    assert run_cycles(result) == 2 + misses * 79


def test_a_constant_load_does_not_fill_the_operands_cache():
    asm = constant(Asm(), 0x160, PipeClass.CONSTANT, write_barrier=0).op(PipeClass.NONE, 1, wait_mask=1)
    loaded = small_gpu(constant_cache__miss_cycles=79)
    latency = loaded.constant_cache.immediate_latency_cycles
    assert run_cycles(simulate(build(asm), loaded)) == latency + 79
    assert run_cycles(simulate(build(constant(asm, 0x160)), loaded)) == latency + 79 + 1 + 79


@pytest.mark.parametrize("addresses", [1, 2, 8, 32])
def test_an_indexed_constant_load_serves_one_address_at_a_time(addresses):
    asm = Asm()
    lanes = np.arange(32) % addresses * 4
    asm.addresses.append((0, lambda b, w: lanes, FULL))
    asm.op(PipeClass.CONSTANT, 2, records=1, access_bytes=4, write_barrier=0).op(PipeClass.NONE, 1, wait_mask=1)
    machine = small_gpu()
    interval = machine.pipes["constant"].interval_cycles
    latency = machine.l1.constant_latency_cycles
    assert run_cycles(simulate(build(asm), machine)) == latency + (addresses - 1) * interval
