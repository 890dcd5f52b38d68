// C_g = A_g B_g^T for each group g of rows (as experts of a layer have them): half in, half out, sums in single precision, by Hopper's warp groups'
// products. The rows of all groups lie one behind another in A and C, as many in each as `first` says; B_g is n x k. A tile's rows may reach
// beyond its group's end: so blocks point tensor maps of their own at the group they come to, with its number of rows, and what lies beyond is
// read as zero and not written. A persistent kernel: a producer warp, and two consumer warp groups with 64 rows of a tile each.
#include <cuda_fp16.h>
#include "wgmma.cuh"

constexpr int BK = 64, ROW_BYTES = 128, GROUP = 128, ROWS = 64, BM = 2 * ROWS;

__device__ __forceinline__ unsigned swizzled(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// A warp's: the map `in_global` becomes `original` with another address and number of rows, by way of `in_shared`.
__device__ __forceinline__ void point_map(TensorMap *in_global, TensorMap *in_shared, const TensorMap &original, const void *address, int rows)
{
    const int lane = threadIdx.x % 32;
    reinterpret_cast<unsigned *>(in_shared)[lane] = reinterpret_cast<const unsigned *>(&original)[lane];
    __syncwarp();
    const unsigned at = shared_address(in_shared);
    if (lane == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(address) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(rows) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(in_global), "r"(at) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(in_global) : "memory");
}

// The tiles of all groups in their order, of which a block takes every gridDim.x-th.
struct Place {
    const int *first;
    int groups, columns, group = 0, before = 0;  // tiles of the groups before this one

    __device__ int rows() const { return first[group + 1] - first[group]; }
    // Whether there is this tile; then its group is found.
    __device__ bool find(int tile)
    {
        for (; group < groups; ++group) {
            const int here = (rows() + BM - 1) / BM * columns;
            if (tile < before + here) return true;
            before += here;
        }
        return false;
    }
};

// maps: three a block, to be pointed. first: groups + 1.
template <int BN, int STAGES>
__global__ void __launch_bounds__(3 * GROUP, 1)
grouped_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c, TensorMap *maps,
             const __half *a, __half *c, const int *first, int groups, int n, int k)
{
    constexpr int STAGE = (BM + BN) * ROW_BYTES;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(128) TensorMap drafts[3];
    __shared__ u64 bars[2 * STAGES];
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, base = shared_address(room);
    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, lane = threadIdx.x % 32, steps = k / BK, columns = n / BN;
    TensorMap *own = maps + 3 * blockIdx.x + group;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, 2);
        }
        publish_mbarriers();
    }
    __syncthreads();
    Place place = {first, groups, columns};
    int pointed = -1;
    if (group == 2) {
        give_registers<40>();
        if (thread < 32) {
            int turn = 0;
            for (int tile = blockIdx.x; place.find(tile); tile += gridDim.x) {
                const int inside = tile - place.before, column = inside % columns * BN;
                if (place.group != pointed) {
                    for (int past = max(0, turn - STAGES); past < turn; ++past)  // nothing under way reads the map any more
                        mbarrier_wait(full + 8 * (past % STAGES), past / STAGES & 1);
                    point_map(own, drafts + group, map_a, a + (size_t)first[place.group] * k, place.rows());
                    pointed = place.group;
                }
                for (int step = 0; step < steps; ++step, ++turn) {
                    if (lane == 0) {
                        const int stage = turn % STAGES;
                        const unsigned to = base + stage * STAGE, bar = full + 8 * stage;
                        mbarrier_wait(empty + 8 * stage, turn / STAGES + 1 & 1);
                        mbarrier_expect(bar, STAGE);
                        tma_load(to, *own, bar, step * BK, inside / columns * BM);
                        tma_load(to + BM * ROW_BYTES, map_b, bar, step * BK, place.group * n + column);
                    }
                }
                __syncwarp();
            }
        }
    } else {
        take_registers<232>();
        const unsigned c_room = base + STAGES * STAGE + group * ROWS * BN * 2;
        int turn = 0;
        for (int tile = blockIdx.x; place.find(tile); tile += gridDim.x) {
            const int inside = tile - place.before, row = inside / columns * BM + group * ROWS, column = inside % columns * BN;
            float d[BN / 2];
            for (int step = 0; step < steps; ++step, ++turn) {
                const int stage = turn % STAGES;
                const unsigned of_a = base + stage * STAGE + group * ROWS * ROW_BYTES, of_b = base + stage * STAGE + BM * ROW_BYTES;
                mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
                product_fence();
                #pragma unroll
                for (int i = 0; i < BK / 16; ++i) multiply(Half(), d, described(of_a) + 2 * i, described(of_b) + 2 * i, step > 0 || i > 0);
                product_commit();
                if (step > 0) {
                    product_wait<1>();
                    if (thread == 0) mbarrier_arrive(empty + 8 * ((turn - 1) % STAGES));
                }
            }
            product_wait<0>();
            pin(d);
            if (thread == 0) mbarrier_arrive(empty + 8 * ((turn - 1) % STAGES));
            if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // what was stored before has gone
            if (thread < 32 && place.group != pointed) {
                __syncwarp();
                point_map(own, drafts + group, map_c, c + (size_t)first[place.group] * n, place.rows());
            }
            pointed = place.group;
            named_barrier(1 + group, GROUP);
            #pragma unroll
            for (int i = 0; i < BN / 16; ++i) {
                unsigned pairs[4];
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const __half2 both = __floats2half2_rn(d[8 * i + 2 * j], d[8 * i + 2 * j + 1]);
                    pairs[j] = *reinterpret_cast<const unsigned *>(&both);
                }
                const unsigned to = c_room + i / 4 * ROWS * ROW_BYTES + swizzled(thread / 32 * 16 + lane % 16, i % 4 * 2 + lane / 16);
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                             ::"r"(to), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
            }
            fence_async();
            named_barrier(1 + group, GROUP);
            if (thread == 0) {
                #pragma unroll
                for (int panel = 0; panel < BN / 64; ++panel) tma_store(*own, c_room + panel * ROWS * ROW_BYTES, column + 64 * panel, row);
                tma_commit();
            }
        }
        if (thread == 0) tma_wait_read<0>();  // shared memory stays until all has been read that is stored
    }
}
