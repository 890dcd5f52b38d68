"""A full-mask syncwarp inside a divergent branch: undefined in CUDA, got past by every GPU, relied on by Numba."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim

pytestmark = pytest.mark.usefixtures("without_source_lines")


@cuda.jit
def last_two(x, out):
    tid = cuda.threadIdx.x
    partial = cuda.shared.array(64, np.float32)
    partial[tid] = x[tid]
    cuda.syncthreads()
    if tid < 2:
        partial[tid] = max(partial[tid], partial[tid + 2])
        cuda.syncwarp()
    if tid == 0:
        out[0] = max(partial[0], partial[1])


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_lanes_at_syncwarp_go_on_when_the_rest_of_the_warp_waits_behind_the_branch(gpu) -> None:
    x, out = np.array([3, 1, 4, 1] * 16, np.float32), np.zeros(1, np.float32)
    gpusim.capture(last_two, 1, 64, (x, out), gpu=gpu)
    assert out[0] == 4
