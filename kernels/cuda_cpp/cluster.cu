// Blocks of a cluster that work through each other's shared memory (PTX ISA: mapa, ld/st.async/red with .shared::cluster).
#include "hopper.cuh"

constexpr int WARP = 32;

__device__ __forceinline__ float of_warp(float sum)
{
    #pragma unroll
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    return sum;
}
__device__ __forceinline__ void add_there(unsigned address, unsigned amount)
{
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(address), "r"(amount) : "memory");
}
// The word is written there, and the mbarrier there is told of its four bytes.
__device__ __forceinline__ void push_there(unsigned address, float value, unsigned bar)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 ::"r"(address), "r"(__float_as_uint(value)), "r"(bar) : "memory");
}

enum How { PULL, PUSH };

// sums[row] of rows x columns: a row is a cluster's, each of its blocks adds up every CLUSTER-th stretch of THREADS elements. The first block then
// reads what the others have (PULL), between two barriers of the cluster; or the others store it there and tell an mbarrier (PUSH).
template <int HOW, int CLUSTER, int THREADS>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
cluster_reduce(float *sums, const float *x, int columns)
{
    __shared__ float of_warps[THREADS / WARP], parts[CLUSTER];
    __shared__ u64 bar;
    const int rank = cluster_rank(), row = blockIdx.x / CLUSTER;
    const unsigned at = shared_address(parts), told = shared_address(&bar);
    if (HOW == PUSH) {
        if (threadIdx.x == 0 && rank == 0) {
            mbarrier_init(told, 1);
            publish_mbarriers();
            mbarrier_expect(told, CLUSTER * 4);
        }
        cluster_barrier();  // the mbarrier is there before anyone tells it something
    }
    float sum = 0;
    for (int i = rank * THREADS + threadIdx.x; i < columns; i += CLUSTER * THREADS) sum += x[(size_t)row * columns + i];
    sum = of_warp(sum);
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int warp = 0; warp < THREADS / WARP; ++warp) sum += of_warps[warp];
        if (HOW == PULL) parts[0] = sum;
        else push_there(in_block(at + 4 * rank, 0), sum, in_block(told, 0));
    }
    if (HOW == PULL) cluster_barrier();
    if (rank == 0 && threadIdx.x < WARP) {
        if (HOW == PUSH) mbarrier_wait(told, 0);
        sum = 0;
        if (threadIdx.x < CLUSTER) sum = HOW == PULL ? read_there(in_block(at, threadIdx.x)) : parts[threadIdx.x];
        sum = of_warp(sum);
        if (threadIdx.x == 0) sums[row] = sum;
    }
    if (HOW == PULL) cluster_barrier();  // shared memory stays until it has been read
}

// counts[bins] += how often each key occurs; the bins of a cluster lie in the shared memory of all its blocks, `bins` / CLUSTER in each.
template <int CLUSTER, int THREADS>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
cluster_histogram(unsigned *counts, const unsigned *keys, int n, int bins)
{
    extern __shared__ unsigned mine[];
    const int rank = cluster_rank(), part = bins / CLUSTER;
    const unsigned at = shared_address(mine);
    for (int i = threadIdx.x; i < part; i += THREADS) mine[i] = 0;
    cluster_barrier();  // all are zero before anyone adds
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        const int key = keys[i];
        add_there(in_block(at + 4 * (key % part), key / part), 1);
    }
    cluster_barrier();  // all have added
    for (int i = threadIdx.x; i < part; i += THREADS)
        if (mine[i]) atomicAdd(counts + rank * part + i, mine[i]);
}
