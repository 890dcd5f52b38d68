"""Do kernels run on a V100, whose machine code takes the assembler of CUDA 12 and a disassembler that is told it is
sm_75's?"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.errors import CompileError, ToolchainError
from gpusim.frontend.native import link_process
from gpusim.frontend.native.ptx_text import lowered

needs_assembler = pytest.mark.skipif(
    not link_process.has_older(), reason="needs the assembler of CUDA 12: gpusim[volta]"
)
SOURCE = """
extern "C" __global__ void scaled(float *y, const float *x, long long n, long long from) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n && (i >= from || x[i] > 3.f)) y[i] = 2.f * x[i] / (1.f + x[i]);
}
"""
TURING = """
extern "C" __global__ void wide(int *y) { asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(y[0]) : "r"(0)); }
"""


@cuda.jit
def sums(out, x):
    part = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.blockIdx.x * 64 + i]
    cuda.syncthreads()
    step = 32
    while step:
        if i < step:
            part[i] += part[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        cuda.atomic.add(out, 0, part[0])


@needs_assembler
def test_a_numba_kernel_runs_and_is_timed() -> None:
    x, out = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    trace = gpusim.capture(sums, 4, 64, (out, x), gpu="v100")
    assert trace.launch.capability == (7, 0) and out[0] == x.sum()
    assert gpusim.simulate(trace, "v100").cycles > 0


@needs_assembler
def test_cuda_cpp_runs() -> None:
    x, y = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    kernel = gpusim.cuda_cpp(SOURCE, "scaled")
    gpusim.capture(kernel, 4, 64, (y, x, np.int64(190), np.int64(100)), gpu="v100")
    index = np.arange(200)
    chosen = (index < 190) & ((index >= 100) | (x > 3))
    np.testing.assert_allclose(y, np.where(chosen, 2 * x / (1 + x), 0), rtol=1e-6)


@needs_assembler
def test_what_came_with_turing_is_refused_by_name() -> None:
    with pytest.raises(CompileError, match=r"wide does not link for sm_70: .*ldmatrix.* requires .target sm_75"):
        gpusim.capture(gpusim.cuda_cpp(TURING, "wide"), 1, 32, (np.zeros(32, np.int32),), gpu="v100")


def test_without_the_assembler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_process, "OLDER_PACKAGE", "nvidia-nvjitlink-of-nobody")
    link_process._older_library.cache_clear()
    with pytest.raises(ToolchainError, match=r"pip install \"gpusim\[volta\]\""):
        gpusim.capture(gpusim.ptx(PTX, "empty"), 1, 32, (), gpu="v100")
    link_process._older_library.cache_clear()


PTX = ".version 9.1\n.target sm_75, debug\n.address_size 64\n.visible .entry empty() { ret; }\n"


def test_text_of_today_is_lowered_and_older_text_stays() -> None:
    assert lowered(PTX).splitlines()[:2] == [".version 8.8", ".target sm_70, debug"]
    older = ".version 6.0\n.target sm_60\n"
    assert lowered(older) == older
