// C = A B^T of E4M3 with a scale for each 128 of a row of A and for each 128 x 128 of B; C is bfloat16. A is m x k, B n x k, k a multiple of 128.
// The tensor core sums 128 products, then its sums times both scales are added in registers in single precision. A persistent kernel: a producer
// thread runs ahead through STAGES buffers of 128 bytes of each row of A (BM) and B (BN) and the scales of A; a warp group for each 64 rows
// multiplies, and while one adds up, the other's products run. Both store a tile as one copy, which a thread waits for before the next tile's sums begin.
// CLUSTER blocks beside each other share the rows of A, that the first one fetches.
#include <cuda_bf16.h>
#include "wgmma.cuh"

constexpr int ROW_BYTES = 128, BK = 128, GROUP = 128, ROWS = 64, BAND = 16;

constexpr int round_up(int value, int to) { return (value + to - 1) / to * to; }

// Tiles in bands of BAND columns, along a row first: blocks that run together share rows of A, and the band of B stays in L2.
__device__ __forceinline__ void place_of(int tile, int rows, int columns, int &row, int &column)
{
    const int band = tile / (BAND * rows), first = band * BAND, wide = min(BAND, columns - first), inside = tile - band * BAND * rows;
    row = inside / wide;
    column = first + inside % wide;
}

template <int BM, int BN, int STAGES, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BM / ROWS * GROUP + GROUP, 1)
fp8_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_scales,
         const __grid_constant__ TensorMap map_c, const float *scales_b, int m, int n, int k)
{
    constexpr int GROUPS = BM / ROWS, A_BYTES = BM * ROW_BYTES, STAGE = A_BYTES + BN * ROW_BYTES, SCALES = BM * 4, C_BYTES = BM * BN * 2;
    constexpr bool TWO_SCALES = 128 % BN != 0;  // a tile may reach into a second column of B's scales
    extern __shared__ __align__(1024) unsigned char room[];
    const int steps = k / BK, rows = (m + BM - 1) / BM, columns = (n + BN - 1) / BN, tiles = rows * columns;
    const unsigned base = shared_address(room), c_at = base + STAGES * STAGE, a_scales = round_up(c_at + C_BYTES, 128);
    const unsigned full = a_scales + STAGES * SCALES, empty = full + 8 * STAGES;
    float *b_scales = reinterpret_cast<float *>(room + (empty + 8 * STAGES - base));
    const int group = threadIdx.x / GROUP, rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, CLUSTER * GROUPS * 4);
        }
        publish_mbarriers();
    }
    if constexpr (CLUSTER > 1) cluster_barrier(); else __syncthreads();

    if (group == GROUPS) {
        if constexpr (GROUPS > 1) give_registers<40>();
        if (threadIdx.x == GROUPS * GROUP) {
            prefetch_map(map_a), prefetch_map(map_b), prefetch_map(map_scales), prefetch_map(map_c);
            unsigned phase = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row, column;
                place_of(tile, rows, columns, row, column);
                for (int first_step = 0; first_step < steps; first_step += STAGES, phase ^= 1) {
                    #pragma unroll
                    for (int stage = 0; stage < STAGES; ++stage) {
                        const int step = first_step + stage;
                        const unsigned to = base + stage * STAGE, bar = full + 8 * stage;
                        mbarrier_wait(empty + 8 * stage, phase ^ 1);
                        if (step >= steps) {  // the buffer is passed on, so that every tile begins with the first one
                            mbarrier_arrive(bar);
                            continue;
                        }
                        mbarrier_expect(bar, STAGE + SCALES);
                        if constexpr (CLUSTER == 1) {
                            tma_load(to, map_a, bar, step * BK, row * BM);
                            tma_load(a_scales + stage * SCALES, map_scales, bar, row * BM, step);
                        } else if (rank == 0) {
                            tma_load_multicast(to, map_a, bar, step * BK, row * BM, (1 << CLUSTER) - 1);
                            tma_load_multicast(a_scales + stage * SCALES, map_scales, bar, row * BM, step, (1 << CLUSTER) - 1);
                        }
                        tma_load(to + A_BYTES, map_b, bar, step * BK, column * BN);
                    }
                }
            }
        }
    } else {
        if constexpr (GROUPS > 1) take_registers<232>();
        const int thread = threadIdx.x % GROUP, lane = thread % 32, line = group * ROWS + thread / 32 * 16;
        const int scale_columns = (n + 127) / 128;
        unsigned phase = 0;
        auto release = [&](int stage) {  // every block of the cluster may write it
            if (lane < CLUSTER) {
                if constexpr (CLUSTER > 1) mbarrier_arrive_there(in_block(empty + 8 * stage, lane));
                else mbarrier_arrive(empty + 8 * stage);
            }
        };
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int row, column;
            place_of(tile, rows, columns, row, column);
            const int first = column * BN / 128, switches = TWO_SCALES ? (first + 1) * 128 - column * BN : BN;  // columns of the first scale
            // All but the warp that waits for the store of the tile before; everybody has read that tile's scales (barrier in front of the store).
            for (int i = threadIdx.x - 32; i >= 0 && i < (TWO_SCALES ? 2 : 1) * steps; i += GROUPS * GROUP - 32) {
                const int step = i % steps, at = min(first + i / steps, scale_columns - 1);
                b_scales[i] = __ldg(scales_b + (size_t)at * steps + step);
            }
            named_barrier(1, GROUPS * GROUP);
            float sum[BN / 2] = {};
            for (int first_step = 0; first_step < steps; first_step += STAGES, phase ^= 1) {
                #pragma unroll
                for (int stage = 0; stage < STAGES; ++stage) {
                    const int step = first_step + stage;
                    const unsigned at = base + stage * STAGE;
                    const float *mine = reinterpret_cast<float *>(room + (a_scales - base) + stage * SCALES) + line + lane / 4;
                    mbarrier_wait(full + 8 * stage, phase);
                    if (step >= steps) {
                        release(stage);
                        continue;
                    }
                    const float upper = mine[0], lower = mine[8], b0 = b_scales[step], b1 = TWO_SCALES ? b_scales[steps + step] : 0;
                    float d[BN / 2];
                    product_fence();
                    #pragma unroll
                    for (int i = 0; i < BK / 32; ++i)
                        multiply(E4m3(), d, described(at + group * ROWS * ROW_BYTES) + 2 * i, described(at + A_BYTES) + 2 * i, i > 0);
                    product_commit();
                    product_wait<0>();
                    pin(d);
                    release(stage);
                    const float upper0 = upper * b0, lower0 = lower * b0, upper1 = upper * b1, lower1 = lower * b1;
                    #pragma unroll
                    for (int i = 0; i < BN / 8; ++i) {
                        const bool second = TWO_SCALES && 8 * i >= switches;
                        const float of_upper = second ? upper1 : upper0, of_lower = second ? lower1 : lower0;
                        sum[4 * i] += of_upper * d[4 * i], sum[4 * i + 1] += of_upper * d[4 * i + 1];
                        sum[4 * i + 2] += of_lower * d[4 * i + 2], sum[4 * i + 3] += of_lower * d[4 * i + 3];
                    }
                }
            }
            #pragma unroll
            for (int i = 0; i < BN / 8; i += 2) {
                const __nv_bfloat162 over = __floats2bfloat162_rn(sum[4 * i], sum[4 * i + 1]), under = __floats2bfloat162_rn(sum[4 * i + 2], sum[4 * i + 3]);
                const unsigned to = c_at + (line + lane % 16) * BN * 2 + 16 * i;
                if (i + 1 < BN / 8) {
                    const __nv_bfloat162 next_over = __floats2bfloat162_rn(sum[4 * i + 4], sum[4 * i + 5]), next_under = __floats2bfloat162_rn(sum[4 * i + 6], sum[4 * i + 7]);
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + lane / 16 * 16),
                                 "r"(*reinterpret_cast<const unsigned *>(&over)), "r"(*reinterpret_cast<const unsigned *>(&under)),
                                 "r"(*reinterpret_cast<const unsigned *>(&next_over)), "r"(*reinterpret_cast<const unsigned *>(&next_under)) : "memory");
                } else {
                    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to),
                                 "r"(*reinterpret_cast<const unsigned *>(&over)), "r"(*reinterpret_cast<const unsigned *>(&under)) : "memory");
                }
            }
            fence_async();
            named_barrier(1, GROUPS * GROUP);
            if (threadIdx.x == 0) {
                tma_store(map_c, c_at, column * BN, row * BM);
                tma_commit();
                tma_wait<0>();
            }
            __syncwarp();
        }
    }
    if constexpr (CLUSTER > 1) cluster_barrier();  // no block ends while another one writes or tells it something
}
