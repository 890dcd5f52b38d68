// Kernels that use their thread-block cluster, for tests/support/cluster_kernels.py.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned long long u64;
typedef unsigned u32;

#define CLUSTER_ARRIVE asm volatile("barrier.cluster.arrive;" ::: "memory")
#define CLUSTER_WAIT asm volatile("barrier.cluster.wait;" ::: "memory")

__device__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u32 mapa(const void* p, u32 rank) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared(p)), "r"(rank));
    return there;
}
__device__ void init(u64* bar, u32 threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(bar)), "r"(threads));
    asm volatile("fence.mbarrier_init.release.cluster;");
}
__device__ void wait(u64* bar, u32 phase) {
    u32 done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(shared(bar)), "r"(phase) : "memory");
    } while (!done);
}
__device__ void arrive(u64* bar, u32 rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(bar, rank)) : "memory");
}
#define RED(op, to, value, bar) \
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." op " [%0], %1, [%2];" \
                 ::"r"(to), "r"(value), "r"(bar) : "memory")

// What the special registers and cooperative groups say, 16 words a block.
extern "C" __global__ void shape(u32* out) {
    auto cluster = cg::this_cluster();
    u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    u32 x, y, z, nx, ny, nz, set;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(x));
    asm("mov.u32 %0, %%clusterid.y;" : "=r"(y));
    asm("mov.u32 %0, %%clusterid.z;" : "=r"(z));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(nx));
    asm("mov.u32 %0, %%nclusterid.y;" : "=r"(ny));
    asm("mov.u32 %0, %%nclusterid.z;" : "=r"(nz));
    asm("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p;}" : "=r"(set));
    dim3 here = cluster.block_index(), all = cluster.dim_blocks();
    u32 said[] = {cluster.block_rank(), cluster.num_blocks(), here.x, here.y, here.z, all.x, all.y, all.z,
                  x, y, z, nx, ny, nz, set, 7};
    for (int i = 0; i < 16; i++) out[block * 16 + i] = said[i];
}

// Each block adds what all blocks of its cluster have, backwards: plain loads of distributed shared memory.
extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    u32 block = blockIdx.x + gridDim.x * blockIdx.y, t = threadIdx.x, rank = cluster.block_rank();
    s[t] = in[block * 64 + t];
    cluster.sync();
    int sum = 0;
    for (u32 i = 0; i < cluster.num_blocks(); i++)
        sum += (i + 1) * cluster.map_shared_rank(s, (rank + i) % cluster.num_blocks())[63 - t];
    cluster.sync();
    out[block * 64 + t] = sum;
}

// Bins spread over the cluster's shared memory, counted by atomics.
extern "C" __global__ void histogram(const u32* in, u32* bins, int per_block_bins, int per_block) {
    extern __shared__ u32 own[];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < per_block_bins; i += blockDim.x) own[i] = 0;
    cluster.sync();
    for (int i = threadIdx.x; i < per_block; i += blockDim.x) {
        u32 bin = in[blockIdx.x * per_block + i];
        atomicAdd(cluster.map_shared_rank(own, bin / per_block_bins) + bin % per_block_bins, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < per_block_bins; i += blockDim.x)
        atomicAdd(bins + cluster.block_rank() * per_block_bins + i, own[i]);
}

// Atomics that the unit does, or leaves to a loop, in another block's and in the own shared memory; isspacep and getctarank.
extern "C" __global__ void __cluster_dims__(2, 1, 1) atomics(u64* out) {
    __shared__ u64 wide;
    __shared__ float real;
    __shared__ int low;
    auto cluster = cg::this_cluster();
    u32 t = threadIdx.x;
    if (t == 0) { wide = 5; real = 1.5f; low = 100; }
    cluster.sync();
    for (u32 rank = 0; rank < 2; rank++) {
        atomicAdd(cluster.map_shared_rank(&wide, rank), 1ull << 33);
        atomicAdd(cluster.map_shared_rank(&real, rank), 0.25f);
        atomicMin(cluster.map_shared_rank(&low, rank), (int)t - 7);
    }
    cluster.sync();
    if (t == 0) {
        u32 other = cluster.block_rank() ^ 1, is_own, is_cluster, rank;
        u64 far = (u64)cluster.map_shared_rank(&wide, other);
        asm("{.reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(is_own) : "l"(far));
        asm("{.reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(is_cluster) : "l"(far));
        asm("getctarank.u64 %0, %1;" : "=r"(rank) : "l"(far));
        u64* to = out + 4 * blockIdx.x;
        to[0] = wide; to[1] = (u64)(real * 4); to[2] = (u64)(long long)low; to[3] = is_own | is_cluster << 4 | rank << 8;
    }
}

// st.async of 16 bytes to the next block and red.async to rank 0, each told to an mbarrier there.
extern "C" __global__ void __cluster_dims__(4, 1, 1) stores(u32* out, u32* sums) {
    __shared__ __align__(16) u32 got[32 * 4];
    __shared__ u32 red[4];
    __shared__ u64 bar;
    auto cluster = cg::this_cluster();
    u32 rank = cluster.block_rank(), t = threadIdx.x, next = (rank + 1) & 3;
    if (t < 4) red[t] = t == 3 ? 100 : 0;
    if (t == 0) {
        init(&bar, 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(shared(&bar)), "r"(32 * 16 + (rank ? 0 : 4 * 32 * 4 * 4)));
    }
    cluster.sync();
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(mapa(got + 4 * t, next)), "r"(rank), "r"(t), "r"(rank * t), "r"(7), "r"(mapa(&bar, next)) : "memory");
    u32 to = mapa(red, 0), told = mapa(&bar, 0);
    RED("add.u32", to, t, told);
    RED("or.b32", to + 4, 1u << t, told);
    RED("max.s32", to + 8, (int)t - 16, told);
    RED("inc.u32", to + 12, 200, told);
    wait(&bar, 0);
    for (int i = 0; i < 4; i++) out[(blockIdx.x * 4 + i) * 32 + t] = got[4 * t + i];
    if (rank == 0 && t < 4) sums[blockIdx.x + t] = red[t];
    cluster.sync();
}

// Block 0 fills two buffers of block 1 in turn; full and empty mbarriers lie across.
extern "C" __global__ void __cluster_dims__(2, 1, 1) ring(const float* in, float* out, int n) {
    __shared__ float buffer[2][64];
    __shared__ u64 full[2], empty[2];
    auto cluster = cg::this_cluster();
    u32 t = threadIdx.x;
    if (t == 0)
        for (int i = 0; i < 2; i++) { init(full + i, 64); init(empty + i, 64); }
    cluster.sync();
    if (cluster.block_rank() == 0) {
        for (int i = 0; i < n; i++) {
            int k = i & 1;
            if (i >= 2) wait(empty + k, (i / 2 + 1) & 1);
            cluster.map_shared_rank(buffer[k], 1)[t] = in[(blockIdx.x / 2 * n + i) * 64 + t] * 2;
            arrive(full + k, 1);
        }
    } else {
        float sum = 0;
        for (int i = 0; i < n; i++) {
            int k = i & 1;
            wait(full + k, (i / 2) & 1);
            sum += buffer[k][63 - t];
            arrive(empty + k, 0);
        }
        out[blockIdx.x / 2 * 64 + t] = sum;
    }
    cluster.sync();
}

// Threads and blocks that have ended count as arrived; lanes of a warp arrive at different places.
extern "C" __global__ void __cluster_dims__(4, 1, 1) early(u32* out) {
    auto cluster = cg::this_cluster();
    u32 rank = cluster.block_rank(), t = threadIdx.x;
    if (rank == 2 || (rank == 1 && t >= 32)) return;
    if (t < 13) {
        CLUSTER_ARRIVE;
        CLUSTER_WAIT;
        out[blockIdx.x * 64 + t] = 2;
    } else {
        out[blockIdx.x * 64 + t] = 1;
        CLUSTER_ARRIVE;
        CLUSTER_WAIT;
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) registers(u32* out) {
    if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    out[blockIdx.x * 384 + threadIdx.x] = threadIdx.x < 128 ? 1 : 2;
}

#if __CUDA_ARCH__ >= 1000
// Blocks that take over others before they start: each block that is worked on gets 1 more, by rank.
extern "C" __global__ void persistent(u32* out) {
    __shared__ __align__(16) uint4 next;
    __shared__ u64 bar;
    auto cluster = cg::this_cluster();
    u32 rank = cluster.block_rank(), phase = 0;
    dim3 first(blockIdx.x - cluster.block_index().x, blockIdx.y - cluster.block_index().y, blockIdx.z - cluster.block_index().z);
    if (threadIdx.x == 0) init(&bar, 1);
    cluster.sync();
    while (true) {
        if (threadIdx.x == 0) {
            dim3 at(first.x + cluster.block_index().x, first.y + cluster.block_index().y, first.z + cluster.block_index().z);
            atomicAdd(out + at.x + gridDim.x * (at.y + gridDim.y * at.z), rank + 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" ::"r"(shared(&bar)));
        }
        cluster.sync();
        if (rank == 0 && threadIdx.x == 0) {
            if (cluster.num_blocks() == 1)
                asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                             ::"r"(shared(&next)), "r"(shared(&bar)) : "memory");
#if __CUDA_ARCH_FEAT_SM100_ALL
            else
                asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
                             ::"r"(shared(&next)), "r"(shared(&bar)) : "memory");
#endif
        }
        wait(&bar, phase);
        phase ^= 1;
        u32 x, y, z, got;
        asm volatile("{.reg .pred p; .reg .b128 h; ld.shared.b128 h, [%4];"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h; selp.u32 %3, 1, 0, p;"
                     "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0;"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, h;}"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(got) : "r"(shared(&next)) : "memory");
        if (!got) break;
        first = dim3(x, y, z);
        cluster.sync();
    }
    cluster.sync();
}
#endif

// ---- what cannot go on --------------------------------------------------------------------------
extern "C" __global__ void __launch_bounds__(384, 1) too_many_registers(u32* out) {
    if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 48;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    out[threadIdx.x] = 1;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) mismatched(u32* out) {
    CLUSTER_ARRIVE;
    CLUSTER_WAIT;
    if (cg::this_cluster().block_rank() == 0) { CLUSTER_ARRIVE; CLUSTER_WAIT; }
    else if (threadIdx.x < 32) asm volatile("barrier.sync 3, 64;");
    out[0] = 1;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) twice(u32* out) {
    CLUSTER_ARRIVE;
    out[0] = 1;
    CLUSTER_ARRIVE;
    CLUSTER_WAIT;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) beyond(u32* out, int ahead, int rank) {
    __shared__ u32 s[64];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = 1;
    cluster.sync();
    out[threadIdx.x] = *(u32*)((u64)(s + threadIdx.x + ahead) + ((u64)(rank - cluster.block_rank()) << 24));
    cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) ended(u32* out) {
    __shared__ u32 s[64];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = 1;
    cluster.sync();
    if (cluster.block_rank() == 1) out[threadIdx.x] = cluster.map_shared_rank(s, 0)[threadIdx.x];
}

// ---- what is timed ------------------------------------------------------------------------------
extern "C" __global__ void syncs(int n) {
    for (int i = 0; i < n; i++) {
        asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");  // no fence
        CLUSTER_WAIT;
    }
}
// One thread of block 0 follows indices in the shared memory of block ``to``.
extern "C" __global__ void chase(int* out, int to, int n) {
    __shared__ int s[256];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = (i + 1) & 255;
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        int* there = cluster.map_shared_rank(s, to);
        int at = 0;
        for (int i = 0; i < n; i++) at = there[at];
        out[0] = at;
    }
    cluster.sync();
}
