"""Gluon kernels of tensor memory, tcgen05, block scales, specialised warps, gathered rows and cluster launch control.

Mental model: each does what one of Triton's Gluon tutorials teaches, in the project's own words; `gluon_cases.py` gives
arguments and references.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
)
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

#: Two blocks of a cluster share the first dimension.
PAIR = gl.constexpr([[1, 0]])


@gluon.jit
def small_product(
    a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, LEFT_IN_TENSOR_MEMORY: gl.constexpr, ROWS: gl.constexpr
):
    """c = a b + c by one tcgen05 product, its left operand in shared or tensor memory."""
    x = gl.allocate_shared_memory(a.dtype, [M, K], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [K, N], b.layout)
    z = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes + c.block_type.nbytes)
    tma.async_load(a, [0, 0], bar, x)
    tma.async_load(b, [0, 0], bar, y)
    tma.async_load(c, [0, 0], bar, z)
    mbarrier.wait(bar, 0)
    L: gl.constexpr = TensorMemoryLayout([ROWS, N], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], L)
    acc.store(z.load(acc.get_reg_layout()))
    if LEFT_IN_TENSOR_MEMORY:
        left = allocate_tensor_memory(a.dtype, [M, K], TensorMemoryLayout([ROWS, K], col_stride=1))
        left.store(x.load(left.get_reg_layout()))
        tcgen05_mma(left, y, acc)
    else:
        tcgen05_mma(x, y, acc)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 1)
    z.store(acc.load())
    fence_async_shared()
    tma.async_store(c, [0, 0], z)
    tma.store_wait(0)


@gluon.jit
def _load_partition(a, b, x, y, full, empty, row, column, K, STEP: gl.constexpr, STAGES: gl.constexpr):
    for i in range(K // STEP):
        at, phase = i % STAGES, (i // STAGES) & 1
        mbarrier.wait(empty.index(at), phase ^ 1)
        mbarrier.expect(full.index(at), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, i * STEP], full.index(at), x.index(at))
        tma.async_load(b, [i * STEP, column], full.index(at), y.index(at))


@gluon.jit
def _product_partition(x, y, acc, full, empty, done, K, STEP: gl.constexpr, STAGES: gl.constexpr):
    for i in range(K // STEP):
        at, phase = i % STAGES, (i // STAGES) & 1
        mbarrier.wait(full.index(at), phase)
        tcgen05_mma(x.index(at), y.index(at), acc, use_acc=i > 0, mbarriers=[empty.index(at)])
    tcgen05_commit(done)


@gluon.jit
def _store_partition(c, acc, done, row, column):
    mbarrier.wait(done, 0)
    z = gl.allocate_shared_memory(c.dtype, acc.shape, c.layout)
    z.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], z)
    tma.store_wait(0)


@gluon.jit
def specialised(a, b, c, K, M: gl.constexpr, N: gl.constexpr, STEP: gl.constexpr, STAGES: gl.constexpr):
    """c = a b: a warp loads, a warp multiplies, four store."""
    x = gl.allocate_shared_memory(a.dtype, [STAGES, M, STEP], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [STAGES, STEP, N], b.layout)
    acc = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    full, empty = mbarrier.allocate_mbarrier(batch=STAGES), mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    gl.warp_specialize(
        [
            (_store_partition, (c, acc, done, row, column)),
            (_load_partition, (a, b, x, y, full, empty, row, column, K, STEP, STAGES)),
            (_product_partition, (x, y, acc, full, empty, done, K, STEP, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def gathered(x, y, places, column, R: gl.constexpr, C: gl.constexpr, L: gl.constexpr):
    """Rows `places` of x, from `column` on, are put, doubled, to rows 31 - places of y."""
    tile = gl.allocate_shared_memory(x.dtype, [R, C], x.layout)
    out = gl.allocate_shared_memory(y.dtype, [R, C], y.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    OFFSETS: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, gl.num_warps()], [1, 0]))
    rows = gl.load(places + gl.arange(0, R, OFFSETS))
    mbarrier.expect(bar, R * x.block_type.nbytes)
    blackwell.tma.async_gather(x, rows, column, bar, tile)
    mbarrier.wait(bar, 0)
    out.store(2 * tile.load(L))
    fence_async_shared()
    blackwell.tma.async_scatter(y, 31 - rows, column, out)
    tma.store_wait(0)


@gluon.jit
def copied(x, y, M: gl.constexpr, N: gl.constexpr, S: gl.constexpr):
    """x to y by way of shared memory, a tcgen05.cp and tensor memory."""
    T: gl.constexpr = TensorMemoryLayout([M, N], col_stride=32 // x.dtype.element_ty.primitive_bitwidth)
    hold = allocate_tensor_memory(x.dtype.element_ty, [M, N], T)
    R: gl.constexpr = hold.get_reg_layout()
    at = gl.arange(0, M, gl.SliceLayout(1, R))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, R))[None, :]
    tile = gl.allocate_shared_memory(x.dtype.element_ty, [M, N], S, gl.load(x + at))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    tcgen05_copy(tile, hold)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    gl.store(y + at, hold.load(R))


@gluon.jit
def scaled(
    a,
    b,
    c,
    of_a,
    of_b,
    M: gl.constexpr,
    N: gl.constexpr,
    K: gl.constexpr,
    KIND_A: gl.constexpr,
    KIND_B: gl.constexpr,
    GROUP: gl.constexpr,
):
    x = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    y = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], bar, x)
    tma.async_load(b, [0, 0], bar, y)
    mbarrier.wait(bar, 0)
    T: gl.constexpr = TensorMemoryScalesLayout()
    s = allocate_tensor_memory(of_a.dtype.element_ty, [M, K // GROUP], T)
    t = allocate_tensor_memory(of_b.dtype.element_ty, [N, K // GROUP], T)
    SL: gl.constexpr = s.get_reg_layout()
    TL: gl.constexpr = t.get_reg_layout()
    s.store(
        gl.load(
            of_a
            + gl.arange(0, M, gl.SliceLayout(1, SL))[:, None] * (K // GROUP)
            + gl.arange(0, K // GROUP, gl.SliceLayout(0, SL))[None, :]
        )
    )
    t.store(
        gl.load(
            of_b
            + gl.arange(0, N, gl.SliceLayout(1, TL))[:, None] * (K // GROUP)
            + gl.arange(0, K // GROUP, gl.SliceLayout(0, TL))[None, :]
        )
    )
    acc = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    tcgen05_mma_scaled(x, y.permute((1, 0)), acc, s, t, KIND_A, KIND_B, use_acc=False)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 1)
    R: gl.constexpr = acc.get_reg_layout()
    at = gl.arange(0, M, gl.SliceLayout(1, R))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, R))[None, :]
    gl.store(c + at, acc.load(R))


@gluon.jit
def taken(out, BLOCK: gl.constexpr, L: gl.constexpr):
    """Each tile's number is written by whoever takes it: blocks cancel others that have not begun."""
    result = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tile, phase, more = gl.program_id(0), 0, True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(result, bar)
        place = gl.arange(0, BLOCK, L)
        gl.store(out + tile * BLOCK + place, gl.load(out + tile * BLOCK + place) + tile + 1)
        mbarrier.wait(bar, phase)
        got = clc.load_result(result)
        gl.barrier()
        more = got.is_canceled()
        tile = got.program_id(0)
        phase ^= 1


@gluon.jit
def arithmetic(x, y, M: gl.constexpr, N: gl.constexpr):
    """Packed arithmetic of two floats, and a load of tensor memory that also gives each row's greatest."""
    hold = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    R: gl.constexpr = hold.get_reg_layout()
    at = gl.arange(0, M, gl.SliceLayout(1, R))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, R))[None, :]
    value = gl.load(x + at)
    hold.store(blackwell.fma2(value, value, blackwell.mul2(value, blackwell.add2(value, value))))
    gl.store(y + at, hold.load(R))


@gluon.jit
def paired_product(a, b, c, K, M: gl.constexpr, N: gl.constexpr, STEP: gl.constexpr):
    """Two blocks multiply as one (cta_group::2): each loads half of A's rows and of B's columns."""
    x = gl.allocate_shared_memory(a.dtype, [M, STEP], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [STEP, N], b.layout)
    acc = allocate_tensor_memory(
        gl.float32, [M, N], TensorMemoryLayout([M // 2, N], col_stride=1, cga_layout=PAIR, two_ctas=True)
    )
    full = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    for i in range(K // STEP):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, i * STEP], full, x)
        tma.async_load(b, [i * STEP, column], full, y)
        mbarrier.wait(full, i & 1)
        tcgen05_mma(x, y, acc, use_acc=i > 0, mbarriers=[done])
        mbarrier.wait(done, i & 1)
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    z = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    z.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], z)
    tma.store_wait(0)


@gluon.jit
def greatest(x, y, most, M: gl.constexpr, N: gl.constexpr):
    """A load of tensor memory that also gives each row's greatest."""
    hold = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    R: gl.constexpr = hold.get_reg_layout()
    at = gl.arange(0, M, gl.SliceLayout(1, R))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, R))[None, :]
    hold.store(gl.load(x + at))
    value, row = hold.load_max(R)
    gl.store(y + at, value)
    row = gl.convert_layout(row, gl.SliceLayout(1, R))
    gl.store(most + gl.arange(0, M, gl.SliceLayout(1, R)), row)
