"""8-bit integer matrix product on tensor cores: shared tiles, ldmatrix, mma.sync, 32-bit sums."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, int32, int64, uint32

from .case import Case, Kernel, Launch, blocks_for, require_positive
from .matrix_ptx import load_four, load_matrices, multiply, shared_address, store_four

#: A block of four warps computes 64 x 64 elements, a warp 32 x 32 of them, 64 bytes of k at a time.
TILE, TILE_K, THREADS = 64, 64, 128
#: Bytes of a row of both tiles, with 16 bytes of padding against bank conflicts.
ROW_BYTES = TILE_K + 16
SHARED_WORDS = 2 * TILE * ROW_BYTES // 4


@functools.cache
def _kernel():
    mma, load = multiply("m8n8k16.row.col.s32.s8.s8.s32"), load_matrices(4)

    @cuda.jit(device=True)
    def multiply_row(s0, s1, s2, s3, a, b):
        """A row of four 8 x 8 tiles: the sums, plus an 8 x 16 piece of A times four 16 x 8 pieces of B."""
        one = (a,)
        return mma(s0, one, (b[0],)), mma(s1, one, (b[1],)), mma(s2, one, (b[2],)), mma(s3, one, (b[3],))

    @cuda.jit
    def igemm_int8(a, b, c, k):
        """c int32[m, n] = A B; a uint32[m * k / 4] and b uint32[n * k / 4] hold bytes, rows of A and columns of B."""
        tiles = cuda.shared.array(SHARED_WORDS, uint32)
        m, n = c.shape[0], c.shape[1]
        thread = cuda.threadIdx.x
        lane = thread & 31
        warp_row, warp_column = (thread >> 6) * 32, ((thread >> 5) & 1) * 32
        row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
        a_tile = shared_address(tiles)
        b_tile = a_tile + uint32(TILE * ROW_BYTES)
        # Four threads move a row of each tile, 16 bytes each; then 32 rows on.
        own_y, own_x = thread >> 2, 16 * (thread & 3)
        to = uint32(ROW_BYTES * own_y + own_x)
        # An 8 x 8 matrix of 16-bit elements is 8 rows of 16 bytes; four of them are a warp's 32 rows.
        a_at = a_tile + uint32((warp_row + lane) * ROW_BYTES)
        b_at = b_tile + uint32((warp_column + lane) * ROW_BYTES)
        none = (uint32(0), uint32(0), uint32(0), uint32(0))
        zero = (int32(0), int32(0))
        s00, s01, s02, s03 = zero, zero, zero, zero
        s10, s11, s12, s13 = zero, zero, zero, zero
        s20, s21, s22, s23 = zero, zero, zero, zero
        s30, s31, s32, s33 = zero, zero, zero, zero
        for start in range(0, k, TILE_K):
            low, high, left, right = none, none, none, none
            if start + own_x < k:
                if row + own_y < m:
                    low = load_four(a, (int64(row + own_y) * k + start + own_x) >> 2)
                if row + own_y + 32 < m:
                    high = load_four(a, (int64(row + own_y + 32) * k + start + own_x) >> 2)
                if column + own_y < n:
                    left = load_four(b, (int64(column + own_y) * k + start + own_x) >> 2)
                if column + own_y + 32 < n:
                    right = load_four(b, (int64(column + own_y + 32) * k + start + own_x) >> 2)
            cuda.syncthreads()  # the last tiles have been read
            store_four(a_tile + to, low)
            store_four(a_tile + to + uint32(32 * ROW_BYTES), high)
            store_four(b_tile + to, left)
            store_four(b_tile + to + uint32(32 * ROW_BYTES), right)
            cuda.syncthreads()
            for step in range(TILE_K // 16):
                a0, a1, a2, a3 = load(a_at + uint32(16 * step))
                pieces = load(b_at + uint32(16 * step))
                s00, s01, s02, s03 = multiply_row(s00, s01, s02, s03, a0, pieces)
                s10, s11, s12, s13 = multiply_row(s10, s11, s12, s13, a1, pieces)
                s20, s21, s22, s23 = multiply_row(s20, s21, s22, s23, a2, pieces)
                s30, s31, s32, s33 = multiply_row(s30, s31, s32, s33, a3, pieces)
        y = row + warp_row + (lane >> 2)
        x = column + warp_column + 2 * (lane & 3)
        _store(c, y, x, s00, s01, s02, s03)
        _store(c, y + 8, x, s10, s11, s12, s13)
        _store(c, y + 16, x, s20, s21, s22, s23)
        _store(c, y + 24, x, s30, s31, s32, s33)

    return igemm_int8


@cuda.jit(device=True)
def _store(c, y, x, s0, s1, s2, s3):
    """A lane's pairs in row y of four neighbouring 8 x 8 tiles."""
    if y < c.shape[0]:
        for i in range(2):
            if x + i < c.shape[1]:
                c[y, x + i] = s0[i]
            if x + i + 8 < c.shape[1]:
                c[y, x + i + 8] = s1[i]
            if x + i + 16 < c.shape[1]:
                c[y, x + i + 16] = s2[i]
            if x + i + 24 < c.shape[1]:
                c[y, x + i + 24] = s3[i]


def make(*, m: int, n: int, k: int, seed: int = 0) -> Case:
    require_positive(m=m, n=n, k=k)
    if k % 16:
        raise ValueError(f"k must be a multiple of 16 (16 bytes are moved at once), not {k}")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (n, k), np.int8)
    c = np.zeros((m, n), np.int32)

    def check() -> None:
        np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64).T)

    grid = (blocks_for(n, TILE), blocks_for(m, TILE))
    args = (a.reshape(-1).view(np.uint32), b.reshape(-1).view(np.uint32), c, np.int32(k))
    return Case(
        launches=(Launch(_kernel(), grid, (THREADS,), args),),
        check=check,
        work={"ops": 2.0 * m * n * k, "bytes_read": 1.0 * (m * k + k * n), "bytes_written": 4.0 * m * n},
    )


_SIZES = (64, 112, 256, 512, 1024)

KERNELS = {
    "igemm_int8": Kernel(
        name="igemm_int8",
        purpose="tensor cores on bytes: integer products, exact sums",
        axes={"m": _SIZES, "n": _SIZES, "k": _SIZES},
        default={"m": 256, "n": 256, "k": 256},
        small={"m": 80, "n": 72, "k": 80},
        make=make,
    ),
}
