"""Operand reads: two banks of one port, a window of three cycles, and what the reuse bits save."""

from __future__ import annotations

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from oracles_sm import OperandReads

from gpusim.engine.gpu import simulate
from gpusim.gpus.spec import RegisterFileSpec
from gpusim.model import register_file
from gpusim.model.register_file import REGISTER_TABLE, operand_table
from gpusim.trace.record import PipeClass

GPU = small_gpu()


@njit
def allocate(registers, operands, sub, place, pc, now):
    """The component has no entry for Python of its own."""
    return register_file.allocate(registers, operands, sub, place, pc, now)


#: One warp instruction a cycle, so that nothing but operand reads can hold FMAs back.
EVEN, ODD = (10, 12, 14), (11, 13, 15)


def fma(asm: Asm, sources, reuse: int = 0, stall: int = 1, pipe: PipeClass = PipeClass.FMA) -> Asm:
    return asm.op(pipe, stall, sources=sources, source_words=(1, 1, 1), reuse_mask=reuse)


def clocks_around(first, second, **more) -> int:
    """Cycles between two clock reads around NOP, two FMAs and NOP: listing 1 of Huerta et al., MICRO 2025."""
    asm = Asm().op(PipeClass.ALU).op(PipeClass.NONE)
    fma(fma(asm, first), second, **more).op(PipeClass.NONE).op(PipeClass.ALU)
    return run_cycles(simulate(build(asm), GPU))


@pytest.mark.parametrize(
    ("x", "y", "cycles"),
    [(19, 21, 5), (18, 21, 6), (19, 22, 6), (18, 20, 7)],
)
def test_operands_of_one_bank_open_the_published_windows(x, y, cycles):
    assert clocks_around(EVEN, (16, x, y)) == cycles


def test_one_instruction_more_issues_before_the_sub_core_stops():
    asm = Asm().op(PipeClass.ALU).op(PipeClass.NONE)
    fma(fma(asm, EVEN), (16, 18, 20)).op(PipeClass.ALU)
    assert run_cycles(simulate(build(asm), GPU)) == 4


def test_a_single_instruction_reads_three_operands_of_a_bank_within_its_window():
    asm = Asm()
    for _ in range(20):
        fma(asm, EVEN, stall=4)
    assert run_cycles(simulate(build(asm), GPU)) == 19 * 4


@pytest.mark.parametrize(("sources", "cycles_each"), [(EVEN, 3), (ODD, 3), ((10, 12, 13), 2), ((10, 11, -1), 1)])
def test_a_stream_runs_at_the_rate_of_the_busier_bank(sources, cycles_each):
    asm = Asm()
    for _ in range(60):
        fma(asm, sources)
    result = simulate(build(asm), GPU)
    assert run_cycles(result) == pytest.approx(60 * cycles_each, abs=9)
    assert result.stalls["dispatch_stall"] == pytest.approx(60 * (cycles_each - 1), abs=6)


@pytest.mark.parametrize(
    ("second", "third", "reads"),
    [
        # Of the listing 4 of Huerta et al.: R2 in slot 0, kept by the first of three instructions.
        (((2, 7, 8), 0), ((2, 12, 13), 0), 1),  # used once and gone
        (((2, 7, 8), 1), ((2, 12, 13), 0), 0),  # used and kept again
        (((7, 2, 8), 0), ((2, 12, 13), 0), 0),  # another bank in slot 0 leaves it
        (((4, 7, 8), 0), ((2, 12, 13), 0), 1),  # the same bank in slot 0 takes its place
    ],
)
def test_what_stays_in_the_reuse_cache_is_not_read_again(second, third, reads):
    asm = Asm()
    fma(fma(fma(asm, (2, 3, 4), 1), *second), *third)
    table = operand_table(build(asm).program, GPU.register_file)
    registers = REGISTER_TABLE.zeros(1)
    for pc in range(2):
        allocate(registers, table, 0, 0, pc, 100 * pc)
    before = 200
    allocate(registers, table, 0, 0, 2, before)
    even = registers[0, 0] - before
    assert even == reads + 1  # and R12, which is even too


def test_another_warp_finds_nothing_of_its_own():
    asm = fma(fma(Asm(), (2, 3, 4), 1), (2, 5, 7))
    table = operand_table(build(asm).program, GPU.register_file)
    for place, reads in ((0, 0), (1, 1)):
        registers = REGISTER_TABLE.zeros(1)
        allocate(registers, table, 0, 0, 0, 0)
        allocate(registers, table, 0, place, 1, 100)
        assert max(registers[0, 0] - 100, 0) == reads


instruction = st.tuples(
    st.lists(st.integers(-1, 9), min_size=3, max_size=3),
    st.integers(0, 7),
    st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 1, 2)]),
    st.integers(0, 2),  # warp
    st.integers(1, 3),  # cycles since the one before, at least
)


@given(st.lists(instruction, min_size=1, max_size=30))
def test_every_sequence_waits_as_brute_force_does(sequence):
    asm = Asm()
    for sources, reuse, words, _, _ in sequence:
        asm.op(PipeClass.FMA, 1, sources=tuple(sources), source_words=words, reuse_mask=reuse)
    table = operand_table(build(asm).program, RegisterFileSpec(reads_per_bank=1))
    registers = REGISTER_TABLE.zeros(1)
    oracle = OperandReads()
    now = 0
    for pc, (sources, reuse, words, warp, gap) in enumerate(sequence):
        clear = allocate(registers, table, 0, warp, pc, now)
        assert clear == oracle.issue(now, warp, sources, words, reuse)
        now = max(now + gap, clear)


def test_without_conflicts_nothing_waits():
    gpu = small_gpu(register_file__bank_conflicts=False)
    asm = Asm()
    for _ in range(60):
        fma(asm, EVEN)
    result = simulate(build(asm), gpu)
    assert run_cycles(result) == 59 and result.stalls["dispatch_stall"] == 0


def test_two_ports_a_bank_read_twice_as_much():
    asm = Asm()
    for _ in range(60):
        fma(asm, EVEN)
    result = simulate(build(asm), small_gpu(register_file__reads_per_bank=2))
    assert run_cycles(result) == pytest.approx(60 * 2, abs=6)


def test_stall_reasons_add_up_while_operands_wait():
    asm = Asm()
    for i in range(40):
        fma(asm, EVEN if i % 3 else (10, 11, 12), reuse=i % 4, stall=1 + i % 2)
    result = simulate(build(asm.exit(), threads=512), GPU)
    assert result.stalls["dispatch_stall"] > 0
    assert sum(result.stalls.values()) == result.counters["sm__warps_active.sum"]
