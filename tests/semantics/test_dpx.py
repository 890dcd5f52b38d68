"""The dynamic-programming intrinsics (DPX) of CUDA C++: one instruction on Hopper, several elsewhere, same results."""

import numpy as np
import pytest
from numba import cuda

from gpusim.capturing import capture

pytestmark = pytest.mark.usefixtures("without_source_lines")

_SOURCE = r"""
#define DPX(name, body) extern "C" __device__ int name(int *r, int a, int b) { bool p, q; (void)p; (void)q; body; return 0; }
DPX(dpx_max_s32, int m = __vibmax_s32(a, b, &p); *r = m ^ (p ? 1000 : 0))
DPX(dpx_min_u32, int m = __vibmin_u32(a, b, &p); *r = m ^ (p ? 1000 : 0))
DPX(dpx_max_s16x2, int m = __vibmax_s16x2(a, b, &p, &q); *r = m ^ (p ? 1000 : 0) ^ (q ? 77 : 0))
DPX(dpx_min_u16x2, int m = __vibmin_u16x2(a, b, &p, &q); *r = m ^ (p ? 1000 : 0) ^ (q ? 77 : 0))
DPX(dpx_three, *r = __vimax3_s32(a, b, a ^ b) + __vimin3_u16x2(a, b, a + b) + __vimax3_s16x2_relu(a, b, a * b))
DPX(dpx_add, *r = __viaddmax_s32(a, b, 7) + __viaddmax_s16x2_relu(a, b, a ^ b) + __vimax_s32_relu(a, b))
"""
_LINK = cuda.CUSource(_SOURCE)
_F = [
    cuda.declare_device(f"dpx_{name}", "int32(int32, int32)", link=_LINK)
    for name in ("max_s32", "min_u32", "max_s16x2", "min_u16x2", "three", "add")
]
max_s32, min_u32, max_s16x2, min_u16x2, three, add = _F


@cuda.jit
def kernel(x, y, out):
    i = cuda.grid(1)
    a, b = x[i], y[i]
    out[0, i] = max_s32(a, b)
    out[1, i] = min_u32(a, b)
    out[2, i] = max_s16x2(a, b)
    out[3, i] = min_u16x2(a, b)
    out[4, i] = three(a, b)
    out[5, i] = add(a, b)


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(8)
    halves = np.array([0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0xFFFE], np.uint16)
    x, y = (rng.choice(halves, 256).view(np.int32) for _ in range(2))
    equal = rng.random(128) < 0.3
    return x, np.where(equal, x, y)


def results(operands, capability):
    out = np.zeros((6, 128), np.int32)
    capture(kernel, 4, 32, (*operands, out), gpu=capability)
    return out


@pytest.mark.parametrize("capability", [(9, 0), (12, 0)])
def test_hopper_gives_what_ampere_computes_step_by_step(operands, capability):
    assert (results(operands, capability) == results(operands, (8, 0))).all()


def test_the_flags_say_which_source_was_taken(operands):
    x, y = (a.view(np.int16).reshape(-1, 2) for a in operands)
    pick = x >= y
    word = np.ascontiguousarray(np.where(pick, x, y)).view(np.int32)[:, 0]
    expected = word ^ np.where(pick[:, 1], 1000, 0) ^ np.where(pick[:, 0], 77, 0)  # the high half's flag comes first
    assert (results(operands, (9, 0))[2] == expected).all()
