"""Half-precision matrix product on tensor cores: shared tiles, ldmatrix, mma.sync, FP32 sums."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32, int64, uint32

from .case import Case, Kernel, Launch, blocks_for, require_positive
from .matrix_ptx import load_four, load_matrices, multiply, shared_address, store_four

#: A block of four warps computes 64 x 64 elements, a warp 32 x 32 of them, 32 of k at a time.
TILE, TILE_K, THREADS = 64, 32, 128
#: Bytes of a row of the tiles of A and B: 16 bytes of padding keep the 8 rows of a matrix in different banks.
A_BYTES, B_BYTES = 2 * TILE_K + 16, 2 * TILE + 16
SHARED_WORDS = (TILE * A_BYTES + TILE_K * B_BYTES) // 4


@functools.cache
def _kernel(depth: int):
    """The kernel with m16n8k8 (every GPU since Turing) or m16n8k16 products (since Ampere)."""
    mma = multiply(f"m16n8k{depth}.row.col.f32.f16.f16.f32")
    load_a, load_b = load_matrices(depth // 4), load_matrices(depth // 8, True)

    @cuda.jit
    def hgemm_tensor(a, b, c, k):
        """c float32[m, n] = A B; a uint32[m * k / 2] and b uint32[k * n / 2] hold pairs of halves, row by row."""
        tiles = cuda.shared.array(SHARED_WORDS, uint32)
        m, n = c.shape[0], c.shape[1]
        thread = cuda.threadIdx.x
        lane = thread & 31
        warp_row, warp_column = (thread >> 6) * 32, ((thread >> 5) & 1) * 32
        row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
        a_tile = shared_address(tiles)
        b_tile = a_tile + uint32(TILE * A_BYTES)
        # Who moves what: four threads a row of A's tile, eight a row of B's, eight halves each; then 32 or 16 rows on.
        a_y, a_x = thread >> 2, 8 * (thread & 3)
        b_y, b_x = thread >> 3, 8 * (thread & 7)
        a_to = a_tile + uint32(A_BYTES * a_y + 2 * a_x)
        b_to = b_tile + uint32(B_BYTES * b_y + 2 * b_x)
        # Lane 8 i + r names row r of matrix i: rows 0 and 8 of A, then the same 8 columns on; rows of k of B.
        matrix, inside = lane >> 3, lane & 7
        a_at = a_tile + uint32(A_BYTES * (warp_row + inside + 8 * (matrix & 1)) + 16 * ((matrix >> 1) & (depth // 16)))
        b_at = b_tile + uint32(B_BYTES * (lane & (depth - 1)) + 2 * warp_column)
        none = (uint32(0), uint32(0), uint32(0), uint32(0))
        zero = (float32(0), float32(0), float32(0), float32(0))
        s00, s01, s02, s03 = zero, zero, zero, zero
        s10, s11, s12, s13 = zero, zero, zero, zero
        for start in range(0, k, TILE_K):
            low, high, upper, lower = none, none, none, none
            if start + a_x < k:
                if row + a_y < m:
                    low = load_four(a, (int64(row + a_y) * k + start + a_x) >> 1)
                if row + a_y + 32 < m:
                    high = load_four(a, (int64(row + a_y + 32) * k + start + a_x) >> 1)
            if column + b_x < n:
                if start + b_y < k:
                    upper = load_four(b, (int64(start + b_y) * n + column + b_x) >> 1)
                if start + b_y + 16 < k:
                    lower = load_four(b, (int64(start + b_y + 16) * n + column + b_x) >> 1)
            cuda.syncthreads()  # the last tiles have been read
            store_four(a_to, low)
            store_four(a_to + uint32(32 * A_BYTES), high)
            store_four(b_to, upper)
            store_four(b_to + uint32(16 * B_BYTES), lower)
            cuda.syncthreads()
            for step in range(TILE_K // depth):
                a0 = load_a(a_at + uint32(2 * depth * step))
                a1 = load_a(a_at + uint32(2 * depth * step + 16 * A_BYTES))
                place = b_at + uint32(depth * B_BYTES * step)
                b0, b1 = load_b(place), load_b(place + uint32(16))
                b2, b3 = load_b(place + uint32(32)), load_b(place + uint32(48))
                s00, s01, s02, s03 = mma(s00, a0, b0), mma(s01, a0, b1), mma(s02, a0, b2), mma(s03, a0, b3)
                s10, s11, s12, s13 = mma(s10, a1, b0), mma(s11, a1, b1), mma(s12, a1, b2), mma(s13, a1, b3)
        y = row + warp_row + (lane >> 2)
        x = column + warp_column + 2 * (lane & 3)
        _store(c, y, x, s00, s01, s02, s03, 0)
        _store(c, y + 8, x, s00, s01, s02, s03, 2)
        _store(c, y + 16, x, s10, s11, s12, s13, 0)
        _store(c, y + 24, x, s10, s11, s12, s13, 2)

    return hgemm_tensor


@cuda.jit(device=True)
def _store(c, y, x, s0, s1, s2, s3, first):
    """A lane's pairs in row y of four neighbouring tiles of 8 columns; n is a multiple of 8."""
    if y < c.shape[0]:
        if x < c.shape[1]:
            c[y, x], c[y, x + 1] = s0[first], s0[first + 1]
        if x + 8 < c.shape[1]:
            c[y, x + 8], c[y, x + 9] = s1[first], s1[first + 1]
        if x + 16 < c.shape[1]:
            c[y, x + 16], c[y, x + 17] = s2[first], s2[first + 1]
        if x + 24 < c.shape[1]:
            c[y, x + 24], c[y, x + 25] = s3[first], s3[first + 1]


def make(*, m: int, n: int, k: int, depth: int, seed: int = 0) -> Case:
    """``depth`` of one product: 8, or 16 (which needs compute capability 8.0)."""
    require_positive(m=m, n=n, k=k, depth=depth)
    if n % 8 or k % 8:
        raise ValueError(f"n and k must be multiples of 8 (16 bytes are moved at once), not {n} and {k}")
    if depth not in (8, 16):
        raise ValueError(f"depth must be 8 or 16, not {depth}")
    rng = np.random.default_rng(seed)
    a = (rng.random((m, k), np.float32) - 0.5).astype(np.float16)
    b = (rng.random((k, n), np.float32) - 0.5).astype(np.float16)
    c = np.zeros((m, n), np.float32)

    def check() -> None:
        # Products are exact; a sum is cut to 24 bits at each step, always towards zero, so that errors add up: k /
        # depth times a unit in the last place of sums that are below six of their standard deviations, k**0.5 / 2.
        expected = a.astype(np.float64) @ b.astype(np.float64)
        cut = k / depth * 2.0**-23 * k**0.5 / 2
        np.testing.assert_allclose(c, expected, rtol=0, atol=1e-6 * max(4.0, k**0.5) + cut)

    grid = (blocks_for(n, TILE), blocks_for(m, TILE))
    args = (a.reshape(-1).view(np.uint32), b.reshape(-1).view(np.uint32), c, np.int32(k))
    return Case(
        launches=(Launch(_kernel(depth), grid, (THREADS,), args),),
        check=check,
        work={"flops": 2.0 * m * n * k, "bytes_read": 2.0 * (m * k + k * n), "bytes_written": 4.0 * m * n},
    )


_SIZES = (64, 104, 256, 512, 1024)

KERNELS = {
    "hgemm_tensor": Kernel(
        name="hgemm_tensor",
        purpose="tensor cores: half-precision products fed by ldmatrix from padded shared tiles",
        axes={"m": _SIZES, "n": _SIZES, "k": _SIZES, "depth": (8, 16)},
        default={"m": 256, "n": 256, "k": 256, "depth": 8},
        small={"m": 80, "n": 72, "k": 40, "depth": 8},
        make=make,
    ),
}
