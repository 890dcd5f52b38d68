"""FP64 units that an SM shares: three registers, or fewer and a constant?

Measured: one block on an RTX 2080 Ti (Newtyyyyy/gpu-benches-baseliner, gpu-incore, at 1,365 MHz): chains of DFMA with
a constant take 48.1 cycles alone and 19.0 an operation with 4 to 32 warps; divisions 159.4 and roots 162.4 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

import gpusim
from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import PipeClass

_SOURCE = """
extern "C" __global__ void chains(double *out, int rounds)
{
    double value = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        #pragma unroll
        for (int i = 0; i < 128; ++i) value = STEP;
    }
    out[threadIdx.x] = value;
}
"""
THREE, TWO = (2, 4, 6), (2, 4, -1)


def cycles_each(sources: tuple[int, ...], fewer_cycles: int) -> float:
    gpu = small_gpu(fp64__interval_cycles=16, fp64__shared_by_sm=True, fp64__fewer_registers_cycles=fewer_cycles)
    asm = Asm()
    for _ in range(40):
        asm.op(PipeClass.FP64, 1, sources=sources, source_words=(2, 2, 2))
    return run_cycles(simulate(build(asm.exit(), threads=256), gpu)) / (8 * 40)


@pytest.mark.parametrize(("sources", "fewer_cycles", "each"), [(THREE, 3, 16), (TWO, 3, 19), (TWO, 0, 16)])
def test_an_operation_of_fewer_than_three_registers_keeps_the_unit_longer(sources, fewer_cycles, each):
    assert cycles_each(sources, fewer_cycles) == pytest.approx(each, rel=0.01)


@pytest.mark.parametrize(
    ("step", "warps", "cycles"),
    [
        ("value * 0.9 + 0.5", 1, 48.1),
        ("value * 0.9 + 0.5", 4, 19.0),
        ("value * 0.9 + 0.5", 8, 19.0),
        ("0.1 / (value + 0.2)", 8, 159.0),
        ("sqrt(value + 0.2)", 8, 162.0),
    ],
)
def test_chains_take_what_an_rtx_2080_ti_takes(tmp_path, step, warps, cycles):
    source = tmp_path / "chains.cu"
    source.write_text(_SOURCE.replace("STEP", step))
    gpu = load_gpu("rtx2080ti")
    taken = {}
    for rounds in (1, 3):
        kernel = gpusim.cuda_cpp(str(source), "chains")
        trace = gpusim.capture(kernel, (1,), (32 * warps,), (np.zeros(32 * warps), rounds), gpu=gpu)
        taken[rounds] = run_cycles(simulate(trace, gpu))
    assert (taken[3] - taken[1]) / (2 * 128 * warps) == pytest.approx(cycles, rel=0.01)
