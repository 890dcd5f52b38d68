"""Rates of an SM's arithmetic by generation: what NVIDIA documents and probes measured, from both sides.

``python tools/arithmetic_rates.py`` compares the whole table with compiled kernels.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import PipeClass

ALU, LITE, VIADD, FMA, IMAD = PipeClass.ALU, PipeClass.ALU_LITE, PipeClass.VIADD, PipeClass.FMA, PipeClass.IMAD
HALF, BFLOAT, MMA, SINGLE, PAIRS = (
    PipeClass.HALF, PipeClass.BFLOAT, PipeClass.HALF_MMA, PipeClass.HALF_SINGLE, PipeClass.FMA_PAIRS,
)  # fmt: skip
TURNS, WARPS, SUB_CORES, LANES = 40, 32, 4, 32


def lanes_a_clock(gpu: str, classes: tuple[PipeClass, ...], warps: int = WARPS) -> float:
    """Lanes of these classes' instructions in turn that an SM of ``gpu`` does a clock; its operands cost nothing."""
    spec = replace(small_gpu(register_file__bank_conflicts=False), pipes=load_gpu(gpu).pipes)
    cycles = []
    for turns in (TURNS, 3 * TURNS):
        asm = Asm()
        for _ in range(turns):
            for pipe in classes:
                asm.op(pipe, 1)
        cycles.append(run_cycles(simulate(build(asm.exit(), threads=LANES * warps), spec)))
    return 2 * TURNS * len(classes) * warps * LANES / (cycles[1] - cycles[0])


#: GPU, classes in turn, lanes a clock and SM: Programming Guide (results, of packed ones two a lane) but where another
#: source is named.
DOCUMENTED = (
    ("v100", (HALF,), 64),
    ("a100_80gb", (HALF, MMA), 128),
    ("a100_80gb", (BFLOAT,), 64),
    ("rtx3090", (HALF, MMA), 64),  # both are one unit there
    ("rtx3090", (ALU, LITE), 64),
    ("h100", (HALF, MMA), 128),
    ("h100", (BFLOAT,), 64),  # measured; with HFMA2.MMA in turn 128
    ("h100", (SINGLE,), 64),
    ("h100", (ALU, LITE), 64),
    ("h100", (ALU, VIADD), 128),  # a cycle apart in ptxas's schedules
    ("h100", (IMAD, HALF), 64),  # measured: one service
    ("b200", (HALF, MMA), 64),  # Best Practices Guide of CUDA 13
    ("b200", (PAIRS,), 64),  # 75 TFLOPS FP32
    ("rtx5090", (ALU,), 64),  # this and the next two: Best Practices Guide of CUDA 13; counters of an RTX 5090
    ("rtx5090", (LITE,), 128),
    ("rtx5090", (LITE, VIADD), 128),
    ("rtx5090", (ALU, IMAD), 128),
)


@pytest.mark.parametrize(("gpu", "classes", "lanes"), DOCUMENTED)
def test_arithmetic_goes_at_the_documented_rate(gpu, classes, lanes):
    assert lanes_a_clock(gpu, classes) == pytest.approx(lanes, rel=0.03)


@pytest.mark.parametrize("gpu", ["h100", "b200", "rtx5090"])
def test_a_packed_operation_takes_both_halves_of_the_fma_pipe(gpu):
    """FP32 and packed halves in turn, by one warp: 2 cycles each, measured on an H100 and a B200; FP32 and integers 1
    each."""
    assert lanes_a_clock(gpu, (FMA, HALF), warps=SUB_CORES) == pytest.approx(64, rel=0.05)
    assert lanes_a_clock(gpu, (FMA, IMAD), warps=SUB_CORES) == pytest.approx(128, rel=0.05)
