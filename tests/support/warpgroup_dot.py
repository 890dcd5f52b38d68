"""A Triton kernel of one tile of D = A B, which Hopper computes with wgmma."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def multiply(a, b, out, depth, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, columns, inside = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    left, right = a + rows[:, None] * depth + inside[None, :], b + inside[:, None] * N + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, depth, STEP):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += STEP
        right += STEP * N
    tl.store(out + rows[:, None] * N + columns[None, :], total)
