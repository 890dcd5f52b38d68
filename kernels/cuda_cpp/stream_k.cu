// C = A B^T by warp groups' products where the steps along k of all tiles are dealt out evenly (stream-K): half in, half out, sums in single
// precision. A is m x k, B is n x k, C is m x n, of whole tiles. A block stays for one stretch of steps, which may begin and end inside a
// tile. Whoever has a tile's first step stores it; who has later ones leaves sums in `parts` and raises a flag, first of all
// that it does, so nobody waits for who waits. Parts are added in the order of k. A producer warp runs ahead through STAGES buffers over
// the tiles' borders; two consumer warp groups have 64 rows of a tile each.
#include <cuda_fp16.h>
#include "wgmma.cuh"

constexpr int BK = 64, ROW_BYTES = 128, GROUP = 128, ROWS = 64, BM = 2 * ROWS;

__device__ __forceinline__ unsigned swizzled(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// 64 x BN sums of a warp group into C's tile in shared memory, in panels of 64 columns, then to memory.
template <int BN>
__device__ __forceinline__ void store_tile(unsigned room, const TensorMap &c, const float (&d)[BN / 2], int barrier, int row, int column)
{
    const int thread = threadIdx.x % GROUP, lane = thread % 32, line = thread / 32 * 16 + lane % 16;
    if (thread == 0) tma_wait_read<0>();  // what was stored before has been read
    named_barrier(barrier, GROUP);
    #pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
        unsigned pairs[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const __half2 both = __floats2half2_rn(d[8 * i + 2 * j], d[8 * i + 2 * j + 1]);
            pairs[j] = *reinterpret_cast<const unsigned *>(&both);
        }
        const unsigned to = room + i / 4 * ROWS * ROW_BYTES + swizzled(line, i % 4 * 2 + lane / 16);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(to), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
    }
    fence_async();
    named_barrier(barrier, GROUP);
    if (thread == 0) {
        #pragma unroll
        for (int panel = 0; panel < BN / 64; ++panel) tma_store(c, room + panel * ROWS * ROW_BYTES, column + 64 * panel, row);
        tma_commit();
    }
}

__device__ __forceinline__ int look(const int *flag)
{
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ __forceinline__ void raise(int *flag) { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory"); }

// First step of a block: as many for each, one more for the first ones.
__device__ __forceinline__ int first_of(int block, int blocks, int total) { return total / blocks * block + min(block, total % blocks); }

// flags: two a block, zero; parts: BM x BN a block.
template <int BN, int STAGES>
__global__ void __launch_bounds__(3 * GROUP, 1)
stream_k_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c, float *parts,
              int *flags, int m, int n, int k)
{
    constexpr int STAGE = (BM + BN) * ROW_BYTES, SUMS = BN / 2;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u64 bars[2 * STAGES];
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, base = shared_address(room);
    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, columns = n / BN, steps = k / BK, total = m / BM * columns * steps;
    const int begin = first_of(blockIdx.x, gridDim.x, total), end = first_of(blockIdx.x + 1, gridDim.x, total);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, 2);
        }
        publish_mbarriers();
    }
    __syncthreads();
    if (group == 2) {
        give_registers<40>();
        if (threadIdx.x == 2 * GROUP) {
            prefetch_map(map_a), prefetch_map(map_b), prefetch_map(map_c);
            for (int at = begin; at < end; ++at) {
                const int turn = at - begin, stage = turn % STAGES, tile = at / steps, step = at % steps;
                const unsigned to = base + stage * STAGE, bar = full + 8 * stage;
                mbarrier_wait(empty + 8 * stage, turn / STAGES + 1 & 1);
                mbarrier_expect(bar, STAGE);
                tma_load(to, map_a, bar, step * BK, tile / columns * BM);
                tma_load(to + BM * ROW_BYTES, map_b, bar, step * BK, tile % columns * BN);
            }
        }
    } else {
        take_registers<232>();
        const unsigned c_room = base + STAGES * STAGE + group * ROWS * BN * 2;
        // Sum i of all threads lies side by side.
        auto part_of = [&](int block, int i) { return parts + ((size_t)(2 * block + group) * SUMS + i) * GROUP + thread; };
        for (int at = begin; at < end;) {
            const int tile = at / steps, from = at, to = min(end, (tile + 1) * steps), row = tile / columns * BM + group * ROWS;
            float d[SUMS];
            for (; at < to; ++at) {
                const int turn = at - begin, stage = turn % STAGES;
                const unsigned a = base + stage * STAGE + group * ROWS * ROW_BYTES, b = base + stage * STAGE + BM * ROW_BYTES;
                mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
                product_fence();
                #pragma unroll
                for (int i = 0; i < BK / 16; ++i) multiply(Half(), d, described(a) + 2 * i, described(b) + 2 * i, at > from || i > 0);
                product_commit();
                if (at > from) {
                    product_wait<1>();
                    if (thread == 0) mbarrier_arrive(empty + 8 * ((turn - 1) % STAGES));
                }
            }
            product_wait<0>();
            pin(d);
            if (thread == 0) mbarrier_arrive(empty + 8 * ((at - 1 - begin) % STAGES));
            if (from > tile * steps) {  // another block stores this tile
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) *part_of(blockIdx.x, i) = d[i];
                named_barrier(1 + group, GROUP);
                if (thread == 0) {
                    __threadfence();
                    raise(flags + 2 * blockIdx.x + group);
                }
                continue;
            }
            for (int block = blockIdx.x + 1, got = to; got < (tile + 1) * steps; ++block) {
                got = first_of(block + 1, gridDim.x, total);
                if (thread == 0) {
                    while (!look(flags + 2 * block + group));
                    flags[2 * block + group] = 0;  // for the next launch
                }
                named_barrier(1 + group, GROUP);
                #pragma unroll
                for (int i = 0; i < SUMS; ++i) d[i] += __ldcg(part_of(block, i));
            }
            store_tile<BN>(c_room, map_c, d, 1 + group, row, tile % columns * BN);
        }
    }
    if (thread == 0) tma_wait_read<0>();  // shared memory stays until all has been read that is stored
}
