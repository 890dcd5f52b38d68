// Hopper's asynchronous units as PTX has them (PTX ISA: mbarrier, cp.async.bulk.tensor, wgmma, setmaxnreg, clusters).
#pragma once

typedef unsigned long long u64;

// A CUtensorMap, whose 128 bytes are a kernel's argument (__grid_constant__).
struct alignas(64) TensorMap { char bytes[128]; };

__device__ __forceinline__ unsigned shared_address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// ---- mbarriers: addresses in shared memory of the own block, or of another one of the cluster by `in_block`.
__device__ __forceinline__ void mbarrier_init(unsigned bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
// Behind all mbarrier_init, in the thread that made them: the async proxy and other blocks of the cluster see them.
__device__ __forceinline__ void publish_mbarriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_expect(unsigned bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(unsigned bar, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN;\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ unsigned in_block(unsigned address, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
// Orders nothing that the thread has written for others: it only says that it has read.
__device__ __forceinline__ void mbarrier_arrive_there(unsigned bar)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

// ---- clusters
__device__ __forceinline__ int cluster_rank()
{
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ float read_there(unsigned address)
{
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

// ---- tensor memory accelerator: coordinates innermost first
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap &map, unsigned bar, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y) : "memory");
}
// Into every block of the cluster whose bit of `blocks` is set, at the same place, each told at its own mbarrier.
__device__ __forceinline__ void tma_load_multicast(unsigned to, const TensorMap &map, unsigned bar, int x, int y, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y), "h"(blocks) : "memory");
}
__device__ __forceinline__ void tma_load_4d(unsigned to, const TensorMap &map, unsigned bar, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap &map, unsigned from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(&map), "r"(from), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all groups but `LEFT` have read shared memory.
template <int LEFT>
__device__ __forceinline__ void tma_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }
// Until all groups but `LEFT` have written global memory.
template <int LEFT>
__device__ __forceinline__ void tma_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory"); }
// What was written by ordinary stores is seen by the asynchronous units.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void prefetch_map(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// ---- warp groups
template <int REGISTERS>
__device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }
template <int REGISTERS>
__device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS)); }
// Barrier `number` (1 to 15) of `threads` threads.
__device__ __forceinline__ void named_barrier(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
__device__ __forceinline__ void named_arrive(int number, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
__device__ __forceinline__ bool elected()
{
    unsigned one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
    return one;
}

// ---- wgmma
__device__ __forceinline__ void product_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void product_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void product_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
// Of a tile whose rows are 128 bytes along k, in the 128-byte swizzle (8 rows are 1,024 bytes). 32 bytes further along k: + 2.
__device__ __forceinline__ u64 described(unsigned tile) { return (u64)(tile >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }
// Keeps registers that products work on where they are.
template <int N>
__device__ __forceinline__ void pin(float (&d)[N])
{
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
