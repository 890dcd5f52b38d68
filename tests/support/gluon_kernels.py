"""Gluon kernels of layouts, asynchronous copies, tensor maps, mbarriers, clusters and products of registers and warp
groups.

Mental model: each does what one of Triton's Gluon tutorials teaches, in the project's own words; `gluon_cases.py` gives
arguments and references.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)


@gluon.jit
def turned(x, y, rows, columns, R: gl.constexpr, C: gl.constexpr, A: gl.constexpr, B: gl.constexpr):
    """y = x.T by a conversion of layouts."""
    r = gl.program_id(0) * R + gl.arange(0, R, gl.SliceLayout(1, A))
    c = gl.program_id(1) * C + gl.arange(0, C, gl.SliceLayout(0, A))
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tile = gl.load(x + r[:, None] * columns + c[None, :], mask=inside, other=0.0)
    tile = gl.convert_layout(tile, B)
    r = gl.program_id(0) * R + gl.arange(0, R, gl.SliceLayout(1, B))
    c = gl.program_id(1) * C + gl.arange(0, C, gl.SliceLayout(0, B))
    gl.store(y + c[None, :] * rows + r[:, None], tile, mask=(r[:, None] < rows) & (c[None, :] < columns))


@gluon.jit
def doubled(x, y, n, BLOCK: gl.constexpr, STAGES: gl.constexpr, L: gl.constexpr):
    """y = 2x, `STAGES` tiles of cp.async under way."""
    S: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], S)
    place = gl.arange(0, BLOCK, L)
    for i in gl.static_range(STAGES - 1):
        at = i * BLOCK + place
        async_copy.async_load(tiles.index(i), x + at, mask=at < n)
        async_copy.commit_group()
    for i in range(gl.cdiv(n, BLOCK)):
        at = (i + STAGES - 1) * BLOCK + place
        async_copy.async_load(tiles.index((i + STAGES - 1) % STAGES), x + at, mask=at < n)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        tile = tiles.index(i % STAGES).load(L)
        at = i * BLOCK + place
        gl.store(y + at, 2 * tile, mask=at < n)


@gluon.jit
def tripled(x, y, BLOCK: gl.constexpr, L: gl.constexpr):
    """y = 3x by cp.async that arrives at an mbarrier."""
    tile = gl.allocate_shared_memory(gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    place = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, L)
    async_copy.async_load(tile, x + place)
    async_copy.mbarrier_arrive(bar)
    mbarrier.arrive(bar)
    mbarrier.wait(bar, 0)
    gl.store(y + place, 3 * tile.load(L))
    mbarrier.invalidate(bar)


@gluon.jit
def added(a, b, c, R: gl.constexpr, C: gl.constexpr, STEPS: gl.constexpr, L: gl.constexpr):
    """c = a + b by tensor maps, two tiles under way."""
    x = gl.allocate_shared_memory(a.dtype, [2, R, C], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [2, R, C], b.layout)
    z = gl.allocate_shared_memory(c.dtype, [2, R, C], c.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    row = gl.program_id(0) * R
    mbarrier.expect(bars.index(0), a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [row, 0], bars.index(0), x.index(0))
    tma.async_load(b, [row, 0], bars.index(0), y.index(0))
    for i in range(STEPS):
        after = i + 1
        ahead = after < STEPS
        mbarrier.expect(bars.index(after % 2), a.block_type.nbytes + b.block_type.nbytes, pred=ahead)
        tma.async_load(a, [row, after * C], bars.index(after % 2), x.index(after % 2), pred=ahead)
        tma.async_load(b, [row, after * C], bars.index(after % 2), y.index(after % 2), pred=ahead)
        mbarrier.wait(bars.index(i % 2), (i // 2) & 1)
        total = x.index(i % 2).load(L) + y.index(i % 2).load(L)
        tma.store_wait(pendings=1)
        z.index(i % 2).store(total)
        fence_async_shared()
        tma.async_store(c, [row, i * C], z.index(i % 2))
    tma.store_wait(pendings=0)


@gluon.jit
def reduced(c, R: gl.constexpr, C: gl.constexpr, L: gl.constexpr):
    """Block i's tile of numbers i + column is added to, or and-ed, or-ed, xor-ed, maximised, minimised into c by
    maps."""
    tile = gl.allocate_shared_memory(c.dtype, [R, C], c.layout)
    value = (
        gl.program_id(0)
        + gl.arange(0, C, gl.SliceLayout(0, L))[None, :]
        + 3 * gl.arange(0, R, gl.SliceLayout(1, L))[:, None]
    )
    tile.store(value)
    fence_async_shared()
    tma.async_atomic_add(c, [0, 0], tile)
    tma.async_atomic_max(c, [R, 0], tile)
    tma.async_atomic_min(c, [2 * R, 0], tile)
    tma.async_atomic_and(c, [3 * R, 0], tile)
    tma.async_atomic_or(c, [4 * R, 0], tile)
    tma.async_atomic_xor(c, [5 * R, 0], tile)
    tma.store_wait(0)


@gluon.jit
def group_product(
    a, b, c, K, M: gl.constexpr, N: gl.constexpr, STEP: gl.constexpr, FROM_REGISTERS: gl.constexpr, STAGES: gl.constexpr
):
    """c = a b by wgmma, products overlapped by one."""
    W: gl.constexpr = gl.num_warps()
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, N, 256 // a.dtype.primitive_bitwidth])
    x = gl.allocate_shared_memory(a.dtype, [STAGES, M, STEP], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [STAGES, STEP, N], b.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    for i in gl.static_range(STAGES - 2):
        mbarrier.expect(bars.index(i), a.block_type.nbytes + b.block_type.nbytes, pred=i * STEP < K)
        tma.async_load(a, [row, i * STEP], bars.index(i), x.index(i), pred=i * STEP < K)
        tma.async_load(b, [i * STEP, column], bars.index(i), y.index(i), pred=i * STEP < K)
    acc = warpgroup_mma_init(gl.zeros((M, N), gl.float32, ACC))
    for i in range(K // STEP):
        j = i + STAGES - 2
        at = j % STAGES
        mbarrier.expect(bars.index(at), a.block_type.nbytes + b.block_type.nbytes, pred=j * STEP < K)
        tma.async_load(a, [row, j * STEP], bars.index(at), x.index(at), pred=j * STEP < K)
        tma.async_load(b, [j * STEP, column], bars.index(at), y.index(at), pred=j * STEP < K)
        mbarrier.wait(bars.index(i % STAGES), (i // STAGES) & 1)
        if FROM_REGISTERS:
            left = x.index(i % STAGES).load(gl.DotOperandLayout(0, ACC, 32 // a.dtype.primitive_bitwidth))
            acc = warpgroup_mma_wait(0, deps=(acc,))
            acc = warpgroup_mma(left, y.index(i % STAGES), acc, is_async=True)
        else:
            acc = warpgroup_mma_wait(0, deps=(acc,))
            acc = warpgroup_mma(x.index(i % STAGES), y.index(i % STAGES), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    z = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    z.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], z)
    tma.store_wait(0)


@gluon.jit
def im2col(x, y, R: gl.constexpr, C: gl.constexpr, KW: gl.constexpr, L: gl.constexpr):
    """A column of pixels for each place of a 2D filter."""
    tile = gl.allocate_shared_memory(x.dtype, [R, C], x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    at = gl.arange(0, R, gl.SliceLayout(1, L))[:, None] * C + gl.arange(0, C, gl.SliceLayout(0, L))[None, :]
    for i in range(KW * KW):
        mbarrier.expect(bar, x.block_type.nbytes)
        tma.async_load_im2col(x, [0, -1, -1, 0], [(i // KW).to(gl.int16), (i % KW).to(gl.int16)], bar, tile)
        mbarrier.wait(bar, i & 1)
        gl.store(y + i * R * C + at, tile.load(L))
        gl.barrier()


@gluon.jit
def shared_rows(x, y, R: gl.constexpr, C: gl.constexpr, L: gl.constexpr):
    """A tile that both blocks of a cluster get by one load each (multicast), and the sum over rows that lie in both."""
    tile = gl.allocate_shared_memory(x.dtype, [R, C], x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x.nbytes_per_cta)
    cluster.barrier()
    tma.async_load(x, [0, 0], bar, tile, multicast=True)
    mbarrier.wait(bar, 0)
    total = gl.sum(tile.load(L), 0)
    gl.store(y + gl.arange(0, C, gl.SliceLayout(0, L)), total)
    cluster.barrier()


@gluon.jit
def small_product_of_registers(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    """mma.sync through Gluon, operands from swizzled shared memory by ldmatrix."""
    ACC: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    LA: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    LB: gl.constexpr = gl.DotOperandLayout(1, ACC, 2)
    B: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [gl.num_warps(), 1], [1, 0])
    m, k = gl.arange(0, M, gl.SliceLayout(1, B)), gl.arange(0, K, gl.SliceLayout(0, B))
    kk, n = gl.arange(0, K, gl.SliceLayout(1, B)), gl.arange(0, N, gl.SliceLayout(0, B))
    S: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    x = gl.allocate_shared_memory(gl.float16, [M, K], S, gl.load(a + m[:, None] * K + k[None, :]))
    y = gl.allocate_shared_memory(gl.float16, [K, N], S, gl.load(b + kk[:, None] * N + n[None, :]))
    acc = ampere.mma_v2(x.load(LA), y.load(LB), gl.zeros((M, N), gl.float32, ACC))
    gl.store(
        c + gl.arange(0, M, gl.SliceLayout(1, ACC))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, ACC))[None, :], acc
    )
