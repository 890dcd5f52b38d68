"""A compiler's template of a matrix product in Triton, after the options that its tuning logs print.

Mental model: a program makes one tile of C, tiles in groups of rows as L2 likes them. All sizes are constants of the
compiled program, but for the number of steps, so that a product cut short runs the same code. k is a multiple of the
tile's depth, so loads have no mask over it; rows and columns beyond C's are those from its beginning again, and only
stores are masked.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_place(m: tl.constexpr, n: tl.constexpr, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    """(row, column) of this program's tile, in tiles."""
    tiles_m, tiles_n = (m + M - 1) // M, (n + N - 1) // N
    program = tl.program_id(0)
    group = program // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    within = program % (GROUP * tiles_n)
    return group * GROUP + within % rows, within // rows


@triton.jit(do_not_specialize=["steps"])
def product(
    a_ptr, b_ptr, c_ptr,
    m: tl.constexpr, n: tl.constexpr, pitch: tl.constexpr, steps, B_ROW: tl.constexpr, B_COLUMN: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr, TF32: tl.constexpr,
):  # fmt: skip
    """C (m x n) = A (row by row, ``pitch`` apart) times B, ``steps`` tiles deep, B's elements ``B_ROW`` and
    ``B_COLUMN`` apart; summed in single precision. The depth is ``steps`` x K."""
    tile_m, tile_n = tile_place(m, n, M, N, GROUP)
    row, column = tile_m * M + tl.arange(0, M), tile_n * N + tl.arange(0, N)
    from_row = tl.max_contiguous(tl.multiple_of(row % m, M), M)
    from_column = tl.max_contiguous(tl.multiple_of(column % n, N), N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for step in range(0, steps):
        depth = step * K + inner
        a = tl.load(a_ptr + from_row[:, None] * pitch + depth[None, :])
        b = tl.load(b_ptr + depth[:, None] * B_ROW + from_column[None, :] * B_COLUMN)
        total += tl.dot(a, b, allow_tf32=TF32)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c_ptr + row[:, None] * n + column[None, :], total.to(c_ptr.dtype.element_ty), mask=inside)
