"""The product of two matrices that PyTorch's compiler offers in Triton, after its description: a program a tile.

Mental model: tiles are dealt out in groups of rows of tiles, so that programs that run at once share what they load.
The first factor lies by rows, the second by columns, as the weights of a linear layer do; sizes are known when the
kernel is compiled, so that no step along the common dimension is guarded.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def autotuned_mm(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """``c`` (M x N) = ``a`` (M x K) times ``b`` (K x N, by columns), summed in FP32; K divides by BLOCK_K."""
    program = tl.program_id(0)
    tall: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    wide: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    group = program // (GROUP_M * wide)
    size = min(tall - group * GROUP_M, GROUP_M)
    row = group * GROUP_M + program % size
    column = program % (GROUP_M * wide) // size
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    of_a = tl.max_contiguous(tl.multiple_of(rows % M, BLOCK_M), BLOCK_M)
    of_b = tl.max_contiguous(tl.multiple_of(columns % N, BLOCK_N), BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, K // BLOCK_K):
        depth = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + of_a[:, None] * K + depth[None, :])
        b = tl.load(b_ptr + depth[:, None] + of_b[None, :] * K)
        total += tl.dot(a, b, out_dtype=tl.float32)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=inside)
