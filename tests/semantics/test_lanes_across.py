"""Shuffles, votes, matches, reductions and special registers against a lane-by-lane oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda

from gpusim.capturing import capture
from gpusim.isa.architectures import GENERATIONS

pytestmark = pytest.mark.usefixtures("without_source_lines")

lanes_lists = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=32, max_size=32)


def shuffle_oracle(mode: str, values, step: int, width: int):
    """PTX ISA 8, shfl.sync: lanes outside the segment keep their own value."""
    out = []
    for lane in range(32):
        segment = lane // width * width
        position = lane - segment
        source = {
            "idx": step % width,
            "up": position - step,
            "down": position + step,
            "xor": position ^ step,
        }[mode]
        inside = 0 <= source < width
        out.append(values[segment + source] if inside else values[lane])
    return out


@cuda.jit
def shuffles(values, step, out):
    t = cuda.threadIdx.x
    out[0, t] = cuda.shfl_sync(0xFFFFFFFF, values[t], step)
    out[1, t] = cuda.shfl_up_sync(0xFFFFFFFF, values[t], step)
    out[2, t] = cuda.shfl_down_sync(0xFFFFFFFF, values[t], step)
    out[3, t] = cuda.shfl_xor_sync(0xFFFFFFFF, values[t], step)


@given(lanes_lists, st.integers(0, 31))
def test_shuffles(values, step):
    values = np.array(values, np.int32)
    out = np.zeros((4, 32), np.int32)
    capture(shuffles, 1, 32, (values, step, out), gpu="sm_90")
    for row, mode in enumerate(("idx", "up", "down", "xor")):
        assert out[row].tolist() == shuffle_oracle(mode, values.tolist(), step, 32), mode


@cuda.jit
def votes(values, out):
    t = cuda.threadIdx.x
    p = values[t] > 0
    out[0, t] = cuda.ballot_sync(0xFFFFFFFF, p)
    out[1, t] = cuda.all_sync(0xFFFFFFFF, p)
    out[2, t] = cuda.any_sync(0xFFFFFFFF, p)
    out[3, t] = cuda.eq_sync(0xFFFFFFFF, p)
    out[4, t] = cuda.match_any_sync(0xFFFFFFFF, values[t])
    matched, same = cuda.match_all_sync(0xFFFFFFFF, values[t])
    out[5, t] = matched if same else 0
    out[6, t] = cuda.activemask()
    out[7, t] = cuda.lanemask_lt()


@given(st.lists(st.integers(-2, 2), min_size=32, max_size=32), st.booleans())
def test_votes_and_matches(values, equal):
    values = np.full(32, values[0], np.int32) if equal else np.array(values, np.int32)
    out = np.zeros((8, 32), np.int64)
    capture(votes, 1, 32, (values, out), gpu="sm_90")
    out &= 0xFFFFFFFF
    p = values > 0
    ballot = sum(1 << lane for lane in range(32) if p[lane])
    assert (out[0] == ballot).all()
    assert (out[1] == p.all()).all() and (out[2] == p.any()).all()
    assert (out[3] == (p.all() or not p.any())).all()
    for lane in range(32):
        assert out[4, lane] == sum(1 << o for o in range(32) if values[o] == values[lane])
        assert out[7, lane] == (1 << lane) - 1
    assert (out[5] == (0xFFFFFFFF if (values == values[0]).all() else 0)).all()
    assert (out[6] == 0xFFFFFFFF).all()


@cuda.jit
def where(out):
    i = cuda.grid(3)
    size = cuda.gridsize(3)
    linear = (i[2] * size[1] + i[1]) * size[0] + i[0]
    out[linear, 0] = cuda.threadIdx.x + 100 * cuda.threadIdx.y + 10000 * cuda.threadIdx.z
    out[linear, 1] = cuda.blockIdx.x + 100 * cuda.blockIdx.y + 10000 * cuda.blockIdx.z
    out[linear, 2] = cuda.blockDim.x + 100 * cuda.blockDim.y + 10000 * cuda.blockDim.z
    out[linear, 3] = cuda.gridDim.x + 100 * cuda.gridDim.y + 10000 * cuda.gridDim.z
    out[linear, 4] = cuda.laneid


@pytest.mark.parametrize("gpu", [row.name for row in GENERATIONS])
def test_positions_in_three_dimensions(gpu):
    grid, block = (3, 2, 2), (5, 4, 3)
    out = np.zeros((3 * 5 * 2 * 4 * 2 * 3, 5), np.int64)
    capture(where, grid, block, (out,), gpu=gpu)
    z, y, x = np.meshgrid(np.arange(6), np.arange(8), np.arange(15), indexing="ij")
    x, y, z = x.ravel(), y.ravel(), z.ravel()
    np.testing.assert_array_equal(out[:, 0], x % 5 + 100 * (y % 4) + 10000 * (z % 3))
    np.testing.assert_array_equal(out[:, 1], x // 5 + 100 * (y // 4) + 10000 * (z // 3))
    assert (out[:, 2] == 5 + 400 + 30000).all() and (out[:, 3] == 3 + 200 + 20000).all()
    linear = x % 5 + 5 * (y % 4) + 20 * (z % 3)
    np.testing.assert_array_equal(out[:, 4], linear % 32)
