"""Kernels of the CuTe DSL for tests, in a module of their own: the DSL reads their source. Import it where the DSL is
installed."""

from __future__ import annotations

import cutlass  # pyright: ignore[reportMissingImports]
from cutlass import cute  # pyright: ignore[reportMissingImports]

TILE = 32


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    threads, _, _ = cute.arch.block_dim()
    place = block * threads + thread
    if place < n:
        c[place] = a[place] + b[place]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    add_kernel(a, b, c, n).launch(grid=[(n + 127) // 128, 1, 1], block=[128, 1, 1])


@cute.kernel
def add_one_kernel(a: cute.Pointer, b: cute.Pointer):
    thread, _, _ = cute.arch.thread_idx()
    cute.make_tensor(b, cute.make_layout(32))[thread] = cute.make_tensor(a, cute.make_layout(32))[thread] + 1.0


@cute.jit
def add_one(a: cute.Pointer, b: cute.Pointer):
    add_one_kernel(a, b).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def transpose_kernel(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    column, row, _ = cute.arch.block_idx()
    tile = cutlass.memory.SmemAllocator().allocate_tensor(
        cutlass.Float32, cute.make_layout((TILE, TILE), stride=(TILE + 1, 1)), 16
    )
    for first in range(0, TILE, 8):
        tile[first + thread // TILE, thread % TILE] = a[
            row * TILE + first + thread // TILE, column * TILE + thread % TILE
        ]
    cute.arch.barrier()
    for first in range(0, TILE, 8):
        b[column * TILE + first + thread // TILE, row * TILE + thread % TILE] = tile[
            thread % TILE, first + thread // TILE
        ]


@cute.jit
def transpose(a: cute.Tensor, b: cute.Tensor):
    rows, columns = a.shape
    transpose_kernel(a, b).launch(grid=(columns // TILE, rows // TILE, 1), block=(256, 1, 1))


@cute.kernel
def gemm_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, tiled: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    mine = tiled.get_slice(thread)
    tile_a = cute.local_tile(a, (64, 16), (row, None))
    tile_b = cute.local_tile(b, (32, 16), (column, None))
    tile_c = cute.local_tile(c, (64, 32), (row, column))
    part_a, part_b, part_c = mine.partition_A(tile_a), mine.partition_B(tile_b), mine.partition_C(tile_c)
    own_a = cute.make_fragment_like(part_a[None, None, None, 0])
    own_b = cute.make_fragment_like(part_b[None, None, None, 0])
    sums = cute.make_fragment_like(part_c)
    sums.fill(0.0)
    for step in range(cute.size(tile_a, mode=[2])):
        cute.autovec_copy(part_a[None, None, None, step], own_a)
        cute.autovec_copy(part_b[None, None, None, step], own_b)
        cute.gemm(tiled, sums, own_a, own_b, sums)
    cute.autovec_copy(sums, part_c)


@cute.jit
def gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """C = A B^T by tensor cores: A of m x k, B of n x k, C of m x n."""
    atom = cute.nvgpu.warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    tiled = cute.make_tiled_mma(atom, cute.make_layout((2, 2, 1)))
    m, n = c.shape
    gemm_kernel(a, b, c, tiled).launch(grid=(m // 64, n // 32, 1), block=(128, 1, 1))


@cute.jit
def twice(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    add(a, b, c, n)
    add_kernel(a, c, b, n).launch(grid=[1, 1, 1], block=[64, 1, 1])


@cute.kernel
def add_ranks_kernel(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    rank = cute.arch.block_idx_in_cluster()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    b[block * TILE + thread] = a[block * TILE + thread] + cutlass.Float32(rank)


@cute.jit
def add_ranks(a: cute.Tensor, b: cute.Tensor):
    add_ranks_kernel(a, b).launch(grid=[8, 1, 1], block=[TILE, 1, 1], cluster=[4, 1, 1])


@cute.kernel
def stage_kernel(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4 * TILE), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
    for first in range(0, 4 * TILE, TILE):
        place = (first + thread,)
        cute.copy(atom, cute.local_tile(a, (1,), place), cute.local_tile(tile, (1,), place))
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.arch.barrier()
    for place in range(thread, 4 * TILE, TILE):
        b[place] = tile[4 * TILE - 1 - place]


@cute.jit
def stage(a: cute.Tensor, b: cute.Tensor):
    """B is A, of 128, backwards, through asynchronous copies, which only global memory has."""
    stage_kernel(a, b).launch(grid=[1, 1, 1], block=[TILE, 1, 1])


@cute.kernel
def add_times_kernel(a: cute.Tensor, b: cute.Tensor, times: cutlass.Constexpr[int], n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    if thread < n:
        for _ in cutlass.range_constexpr(times):
            b[thread] += a[thread]


class AddTimes:
    """Launches by being called, as CUTLASS's own examples do, with a constant of the code between two arguments."""

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, times: cutlass.Constexpr[int], n: cutlass.Int32):
        add_times_kernel(a, b, times, n).launch(grid=[1, 1, 1], block=[64, 1, 1])


@cute.jit
def add_times(a: cute.Tensor, b: cute.Tensor, times: cutlass.Constexpr[int], n: cutlass.Int32):
    add_times_kernel(a, b, times, n).launch(grid=[1, 1, 1], block=[64, 1, 1])
