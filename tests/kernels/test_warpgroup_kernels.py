"""Kernels whose inner loop is wgmma: CUDA C++ with inline PTX and Triton's tl.dot, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim

pytestmark = pytest.mark.usefixtures("without_source_lines")

COLUMNS = 32
_REGISTERS = COLUMNS // 2
_LIST = ",".join(f"%{i}" for i in range(_REGISTERS))
_BOUND = ",".join(f'"+f"(d[{i}])' for i in range(_REGISTERS))
#: D = A B of half matrices A [64 groups][depth], B [32][depth], both along k, in tiles of 64 along k with the 128-byte
#: swizzle. With ``late`` a warp comes late to its products, and another overwrites the tile as soon as it has waited
#: for them.
SOURCE = r"""
#include <cuda_fp16.h>
__device__ unsigned long long described(const void *tile)
{
    unsigned long long address = __cvta_generic_to_shared(tile);
    return address >> 4 | 64ull << 32 | 1ull << 62;
}
extern "C" __global__ void multiply(const __half *a, const __half *b, float *out, int depth, int late)
{
    extern __shared__ __align__(1024) unsigned char tiles[];
    int groups = blockDim.x / 128, group = threadIdx.x / 128;
    unsigned char *b_tile = tiles + groups * 8192;
    float d[REGISTERS];
    for (int i = 0; i < REGISTERS; i++) d[i] = 0;
    for (int k0 = 0; k0 < depth; k0 += 64) {
        for (int i = threadIdx.x; i < (groups * 64 + COLUMNS) * 8; i += blockDim.x) {
            int line = i / 8, chunk = i % 8;
            const __half *from = line < groups * 64 ? a + line * depth : b + (line - groups * 64) * depth;
            *(uint4 *)(tiles + line * 128 + ((chunk ^ line & 7) << 4)) = *(const uint4 *)(from + k0 + 8 * chunk);
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (late && threadIdx.x / 32 == 3)
            for (int i = 0; i < 3000; i++) asm volatile("nanosleep.u32 1;");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < 4; k++)
            asm volatile("wgmma.mma_async.sync.aligned.m64nCOLUMNSk16.f32.f16.f16 {LIST}, %REGISTERS, %AFTER, 1, 1, 1, 0, 0;"
                         : BOUND : "l"(described(tiles + group * 8192) + 2 * k), "l"(described(b_tile) + 2 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (late && threadIdx.x < 32)
            for (int i = threadIdx.x; i < COLUMNS * 32; i += 32) ((unsigned *)b_tile)[i] = 0x7e007e00;
        __syncthreads();
    }
    int row = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int i = 0; i < REGISTERS; i++)
        out[(row + 8 * (i / 2 % 2)) * COLUMNS + 8 * (i / 4) + column + i % 2] = d[i];
}
"""
for _name, _text in {
    "LIST": _LIST, "BOUND": _BOUND, "AFTER": str(_REGISTERS + 1), "REGISTERS": str(_REGISTERS), "COLUMNS": str(COLUMNS),
}.items():  # fmt: skip
    SOURCE = SOURCE.replace(_name, _text)


@pytest.fixture(scope="module")
def multiply(tmp_path_factory):
    pytest.importorskip("nvidia.cu13", reason="needs the CUDA wheels")
    path = tmp_path_factory.mktemp("wgmma") / "multiply.cu"
    path.write_text(SOURCE)
    return gpusim.cuda_cpp(path, "multiply")


def run(multiply, groups: int, depth: int, late: int) -> tuple[gpusim.Trace, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (lines, depth)).astype(np.float16) for lines in (64 * groups, COLUMNS))
    out = np.zeros((64 * groups, COLUMNS), np.float32)
    shared = groups * 8192 + COLUMNS * 128
    trace = gpusim.capture(multiply, 1, 128 * groups, (a, b, out, depth, late), gpu="h200", shared_bytes=shared)
    return trace, out, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("late", [0, 1])
def test_a_loop_along_k_from_swizzled_tiles(multiply, late):
    """Warps of a group that come at different times multiply what was there when the last of them came."""
    trace, out, expected = run(multiply, 2 - late, 128, late)
    np.testing.assert_array_equal(out, expected)
    result = gpusim.simulate(trace, "h200")
    assert result.stalls["gmma"] > 0


def test_triton_multiplies_with_warp_groups():
    triton_tests = pytest.importorskip("warpgroup_dot", reason="Triton is not installed")
    rng = np.random.default_rng(4)
    a, b = rng.integers(-3, 4, (64, 128)).astype(np.float16), rng.integers(-3, 4, (128, 64)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    kernel = gpusim.triton(triton_tests.multiply, M=64, N=64, STEP=64, num_warps=4, num_stages=2)
    trace = gpusim.capture(kernel, (1,), None, (a, b, out, 128), gpu="h200")
    assert any(text.startswith("HGMMA.64x64x16.F32") for text in trace.program.texts)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("fenced", [True, False])
def test_stores_that_no_fence_shows_to_the_tensor_core_are_found(fenced):
    source = SOURCE if fenced else SOURCE.replace('asm volatile("fence.proxy.async;" ::: "memory");', "")
    args = (
        np.ones((64, 64), np.float16),
        np.ones((COLUMNS, 64), np.float16),
        np.zeros((64, COLUMNS), np.float32),
        64,
        0,
    )
    kernel = gpusim.cuda_cpp(source, "multiply")
    trace = gpusim.capture(kernel, 1, 128, args, gpu="h200", shared_bytes=8192 + COLUMNS * 128, check=["async"])
    assert {each.what for each in trace.findings} == (set() if fenced else {"Missing fence between proxies"})
