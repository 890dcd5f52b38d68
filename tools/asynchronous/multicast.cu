// Tiles through a tensor map, one in flight a warp: each block of a cluster loads the same tile itself, or its first block loads it for all.
// Kernel of lookup1980/microbench-blackwell as its counters' description has it: four warps, a buffer and an mbarrier each, a barrier of the cluster after each tile.
// Clusters are named by the launch, of one block too: warps wait for barriers as long in clusters of one, two and four (99, 102 and 111 cycles a round), so all take
// the cluster's barrier, with its fence of the whole GPU; otherwise a cluster of one block would take the block's.
struct alignas(64) TensorMap { char bytes[128]; };

constexpr int TILE = 4 * WIDTH * ROWS;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128, 1) load_tiles(const __grid_constant__ TensorMap map, unsigned long long *out, int rounds)
{
    extern __shared__ __align__(128) unsigned char room[];
    __shared__ unsigned long long bars[4];
    const int warp = threadIdx.x / 32, cluster = blockIdx.x / CLUSTER;
    const unsigned to = (unsigned)__cvta_generic_to_shared(room) + warp * TILE, bar = (unsigned)__cvta_generic_to_shared(bars + warp);
    unsigned rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x % 32 == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    for (int i = 0; i < rounds; ++i) {
        const int row = ((cluster * rounds + i) * 4 + warp) * ROWS;
        if (threadIdx.x % 32 == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(TILE) : "memory");
            if (!MULTICAST)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                             ::"r"(to), "l"(&map), "r"(bar), "r"(0), "r"(row) : "memory");
            else if (rank == 0)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                             " [%0], [%1, {%3, %4}], [%2], %5;"
                             ::"r"(to), "l"(&map), "r"(bar), "r"(0), "r"(row), "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
        }
        asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@!done bra AGAIN;\n}" ::"r"(bar), "r"(i & 1) : "memory");
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = rounds;
}
