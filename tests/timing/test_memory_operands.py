"""How fast a sub-core hands memory instructions on to the SM's LSU, from both sides.

Measured by cicuvc/nvidia-sass-document on H800, H20 (h800_mio_queue_topology.md), RTX 5090 (mio_lsu_xu_topology.md) and
B200 (b200_mio_admission_depth.md, b200_lsu_exchange_topology.md), each with streams of one kind.
"""

from __future__ import annotations

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu
from sass_harness import assemble

from gpusim.emulator.program import make_program
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.isa.table import lower_all
from gpusim.model.program import COLLECT_CYCLES, program_table
from gpusim.trace.record import MemoryKind, PipeClass, Space

GPU = small_gpu(l1__operand_interval_cycles=2, l1__queue_entries=8)


def stream(count: int, words: tuple[int, ...], warps: int = 1, gpu=GPU, stall: int = 2) -> int:
    """Cycles of so many loads of shared memory a warp, each of which reads ``words`` registers of its operands."""
    sources = tuple(8 * i if i < len(words) else -1 for i in range(3))
    read = tuple(words[i] if i < len(words) else 0 for i in range(3))
    asm = Asm()
    for _ in range(count):
        asm.memory(
            MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 4), stall=stall, sources=sources, source_words=read
        )  # fmt: skip
    return run_cycles(simulate(build(asm, threads=32 * warps, shared_bytes=4096), gpu))


def interval(*args, **kwargs) -> float:
    """Cycles an instruction (of a warp) in the long run."""
    return (stream(128, *args, **kwargs) - stream(64, *args, **kwargs)) / 64


@pytest.mark.parametrize(
    ("words", "measured"),  # of one warp, which issues one each two cycles
    [((), 2.0), ((1,), 2.0), ((2,), 3.9), ((1, 1), 3.9), ((2, 1), 5.8), ((1, 1, 1), 5.8)],
)
def test_a_sub_core_collects_one_register_each_two_cycles(words, measured):
    """Shared loads and shuffles of none and of one, global loads and shuffles of two, shuffles of three."""
    assert interval(words) == pytest.approx(measured, rel=0.04)


def test_two_warps_of_a_sub_core_share_its_collector_and_those_of_two_do_not():
    # H800: shared loads without a register 0.98 a cycle from two warps of a sub-core, of one register 0.50, from two
    # sub-cores 0.98. Warps 0 and 4 share a sub-core, 1 to 3 have one each; the LSU takes one a cycle, in turn, until
    # these have ended.
    assert interval((), warps=5, stall=1) == pytest.approx(4 + 1, rel=0.03)
    assert interval((1,), warps=5, stall=1) == pytest.approx(4 + 2, rel=0.03)
    assert interval((2,), warps=5, stall=1) == pytest.approx(4 + 4, rel=0.03)
    assert interval((1,), warps=2) == pytest.approx(2.0, rel=0.03)


def test_a_store_of_four_words_takes_twelve_cycles_of_the_collector():
    """RTX 5090: an asynchronous copy's registers are released 19, 30, 40 and 50 cycles on behind 1 to 4 STG.128."""
    assert interval((2, 4)) == pytest.approx(12.0, rel=0.01)


def test_the_collector_runs_ahead_of_a_back_end_that_is_busy():
    """A load of 32 words of a bank keeps the data stage for 32 cycles; meanwhile the registers of what is behind it are
    collected, so that it follows at the LSU's rate; where addresses are worked out when the one before is taken, it
    does not."""

    def behind(gpu) -> int:
        def run(count: int) -> int:
            asm = Asm().memory(
                MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 128), source_words=(1, 0, 0), sources=(8, -1, -1)
            )
            for _ in range(count):
                asm.memory(
                    MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 4), sources=(8, 16, -1), source_words=(2, 1, 0),
                    write_barrier=0,
                )  # fmt: skip
            return run_cycles(simulate(build(asm.op(PipeClass.FMA, 1, wait_mask=1), shared_bytes=8192), gpu))

        return run(5) - run(1)

    assert behind(GPU) == 4
    assert (
        behind(small_gpu(l1__operand_interval_cycles=0, l1__address_interval_cycles=6))
        == 4 * 6 - GPU.l1.tag_lead_cycles
    )


@pytest.mark.parametrize("name", ["h100", "h800", "h20", "gh200", "b200", "rtx5090"])
def test_gpus_with_probes_say_so_and_others_do_not(name):
    assert load_gpu(name).l1.operand_interval_cycles == 2
    assert load_gpu("a100_80gb").l1.operand_interval_cycles == 0
    trace = build(Asm().load(lambda b, w: (1 << 30, 4), sources=(8, -1, -1), source_words=(2, 0, 0)))
    assert program_table(trace.program, load_gpu(name))[0, COLLECT_CYCLES] == 4
    assert program_table(trace.program, load_gpu("a100_80gb"))[0, COLLECT_CYCLES] == 0


@pytest.mark.parametrize(
    ("line", "registers"),
    [
        ("LDG.E R0, [R2.64]", 2),
        ("STG.E.128 [R2.64], R4", 6),
        ("STS.64 [R2], R4", 3),
        ("LDS R0, [R2]", 1),
        ("LDS R0, [UR4]", 0),
        ("SHFL.BFLY PT, R0, R2, 0x1, 0x1f", 1),
        ("SHFL.IDX PT, R0, R2, R3, 0x1f", 2),
        ("LDGSTS.E.128 [R8], [R2.64]", 3),
        ("ATOMS.ADD R0, [R2], R4", 2),
    ],
)
def test_all_registers_of_addresses_and_data_count(line, registers):
    instructions = assemble([line], 0x210)
    program = make_program(instructions, lower_all(instructions, "text"), (), {})
    collected = program_table(program, load_gpu("h100"))[0, COLLECT_CYCLES]
    assert collected == max(1, 2 * registers)
