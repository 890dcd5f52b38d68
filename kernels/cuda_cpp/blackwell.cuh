// Blackwell's tensor memory and the products into it as PTX has them (PTX ISA: tcgen05); the rest of the asynchronous units is as Hopper's.
// PAIR: of two blocks of a cluster together, whose first one (even rank) asks for the products.
#pragma once
#include "hopper.cuh"

// ---- tensor memory: an address is lane << 16 | column. A whole warp allocates and frees, of both blocks of a pair.
template <bool PAIR>
__device__ __forceinline__ void tensor_allocate(unsigned to, int columns)
{
    if constexpr (PAIR) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "r"(columns) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    } else {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "r"(columns) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
}
template <bool PAIR>
__device__ __forceinline__ void tensor_free(unsigned memory, int columns)
{
    if constexpr (PAIR) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(memory), "r"(columns));
    else asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(memory), "r"(columns));
}
// What the tensor core does is ordered with barriers of threads by these, before one arrives and after one has waited.
__device__ __forceinline__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// 32 columns of the warp's quarter of the lanes: a lane each its own.
__device__ __forceinline__ void tensor_read(unsigned (&to)[32], unsigned memory)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]), "=r"(to[4]), "=r"(to[5]), "=r"(to[6]), "=r"(to[7]), "=r"(to[8]),
                   "=r"(to[9]), "=r"(to[10]), "=r"(to[11]), "=r"(to[12]), "=r"(to[13]), "=r"(to[14]), "=r"(to[15]), "=r"(to[16]),
                   "=r"(to[17]), "=r"(to[18]), "=r"(to[19]), "=r"(to[20]), "=r"(to[21]), "=r"(to[22]), "=r"(to[23]), "=r"(to[24]),
                   "=r"(to[25]), "=r"(to[26]), "=r"(to[27]), "=r"(to[28]), "=r"(to[29]), "=r"(to[30]), "=r"(to[31])
                 : "r"(memory));
}
__device__ __forceinline__ void tensor_read_done() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

// ---- products
// Of a tile whose rows are 128 bytes along k, in the 128-byte swizzle (8 rows are 1,024 bytes). 32 bytes further along k: + 2.
__device__ __forceinline__ u64 tensor_described(unsigned tile)
{
    return (u64)(tile >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 46 | (u64)2 << 61;
}
// The instruction descriptor of ROWS x COLUMNS of halves, sums in single precision (PTX ISA: kind::f16).
template <int ROWS, int COLUMNS>
constexpr unsigned OF_HALVES = 1 << 4 | COLUMNS / 8 << 17 | ROWS / 16 << 24;

template <bool PAIR>
__device__ __forceinline__ void tensor_multiply(unsigned d, u64 a, u64 b, unsigned kind, int accumulate)
{
    if constexpr (PAIR)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}"
                     ::"r"(d), "l"(a), "l"(b), "r"(kind), "r"(accumulate) : "memory");
    else
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}"
                     ::"r"(d), "l"(a), "l"(b), "r"(kind), "r"(accumulate) : "memory");
}
// The mbarrier (of both blocks of a pair) is told when all products that the thread has asked for are done.
template <bool PAIR>
__device__ __forceinline__ void tensor_commit(unsigned bar)
{
    if constexpr (PAIR)
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(bar), "h"((unsigned short)3) : "memory");
    else
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}

// ---- tensor memory accelerator: the mbarrier may be the other block's of the pair.
template <bool PAIR>
__device__ __forceinline__ void tma_load_for(unsigned to, const TensorMap &map, unsigned bar, int x, int y)
{
    if constexpr (PAIR)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y) : "memory");
    else tma_load(to, map, bar, x, y);
}
