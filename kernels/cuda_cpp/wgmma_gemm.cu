// C = A B^T by warp groups' products: half in, half out, sums in single precision; six steps from plain copies to a persistent kernel.
// A is m x k, B is n x k, C is m x n, of whole tiles. A step along k is 64 halves, one row of the 128-byte swizzle.
//   LOADS       every thread copies (cp.async), no tensor maps
//   TMA         one thread asks the tensor memory accelerator for a tile, all wait for it, one buffer
//   PIPELINED   a producer warp runs ahead through STAGES buffers, two consumer warp groups multiply
//   MULTICAST   and the blocks of a cluster, one above the other, share the tile of B
//   COOPERATIVE and a block stays for many tiles, the producer fetches the next while consumers store
//   PING_PONG   as before, but a warp group has a tile of its own: one multiplies while the other stores
#include <cuda_fp16.h>
#include "wgmma.cuh"

enum Step { LOADS, TMA, PIPELINED, MULTICAST, COOPERATIVE, PING_PONG };

constexpr int BK = 64, ROW_BYTES = 128, GROUP = 128, ROWS = 64;

__device__ __forceinline__ unsigned swizzled(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// Tiles in columns of `BAND` tiles of A's rows, so that blocks which run together share what L2 holds.
template <int BAND>
__device__ __forceinline__ void place_of(int tile, int rows, int columns, int &row, int &column)
{
    const int band = tile / (BAND * columns), first = band * BAND, high = min(BAND, rows - first), inside = tile - band * BAND * columns;
    row = first + inside % high;
    column = inside / high;
}

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

// A step along k: PARTS times 64 rows of A by BN of B.
template <int BN, int PARTS>
__device__ __forceinline__ void multiply_step(float (&d)[PARTS][BN / 2], unsigned a, unsigned b, bool accumulate)
{
    product_fence();
    #pragma unroll
    for (int k = 0; k < BK / 16; ++k)
        #pragma unroll
        for (int part = 0; part < PARTS; ++part)
            multiply(Half(), d[part], described(a + part * ROWS * ROW_BYTES) + 2 * k, described(b) + 2 * k, accumulate || k > 0);
    product_commit();
}

// A and B of one tile without warp specialisation: two warp groups, each 64 rows.
template <int STEP, int BN>
__device__ __forceinline__ void multiply_in_turns(float (&d)[1][BN / 2], unsigned char *room, unsigned full, const TensorMap &map_a,
                                                  const TensorMap &map_b, const __half *a, const __half *b, int row, int column, int k)
{
    constexpr int BM = 2 * ROWS;
    const unsigned at_a = shared_address(room), at_b = at_a + BM * ROW_BYTES;
    const int group = threadIdx.x / GROUP;
    for (int step = 0; step < k / BK; ++step) {
        if constexpr (STEP == LOADS) {
            for (int i = threadIdx.x; i < (BM + BN) * 8; i += 2 * GROUP) {
                const int line = i / 8, chunk = i % 8;
                const __half *from = line < BM ? a + (size_t)(row + line) * k : b + (size_t)(column + line - BM) * k;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at_a + swizzled(line, chunk)), "l"(from + step * BK + 8 * chunk));
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            fence_async();
            __syncthreads();
        } else {
            if (threadIdx.x == 0) {
                mbarrier_expect(full, (BM + BN) * ROW_BYTES);
                tma_load(at_a, map_a, full, step * BK, row);
                tma_load(at_b, map_b, full, step * BK, column);
            }
            mbarrier_wait(full, step & 1);
        }
        multiply_step<BN, 1>(d, at_a + group * ROWS * ROW_BYTES, at_b, step > 0);
        product_wait<0>();
        __syncthreads();
    }
}

// Blocks: 128 x BN of C, each warp group of PING_PONG, too, but 64 x 256 of the widest. CLUSTER blocks along m share B where they multicast.
template <int STEP, int BN, int STAGES, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(STEP < PIPELINED ? 256 : 384, 1)
wgmma_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
           const __half *a, const __half *b, int m, int n, int k)
{
    constexpr int BM = STEP == PING_PONG && BN > 128 ? ROWS : 2 * ROWS, PARTS = STEP == PING_PONG ? BM / ROWS : 1;
    constexpr int STAGE = (BM + BN) * ROW_BYTES, PART_BYTES = ROWS * BN * 2, C_BYTES = PARTS * PART_BYTES;
    constexpr bool PERSISTENT = STEP >= COOPERATIVE;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u64 bars[2 * STAGES + 2];
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, order = empty + 8 * STAGES;
    const int group = threadIdx.x / GROUP, rows = m / BM, columns = n / BN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, CLUSTER * (STEP == PING_PONG ? 1 : 2));
        }
        publish_mbarriers();
    }
    if constexpr (CLUSTER > 1) cluster_barrier(); else __syncthreads();

    if constexpr (STEP < PIPELINED) {
        int row, column;
        place_of<8>(blockIdx.x, rows, columns, row, column);
        float d[1][BN / 2];
        multiply_in_turns<STEP, BN>(d, room, full, map_a, map_b, a, b, row * BM, column * BN, k);
        store_tile<BN>(shared_address(room) + STAGES * STAGE + group * C_BYTES, map_c, d[0], 1 + group, row * BM + group * ROWS, column * BN);
    } else {
        const int rank = CLUSTER > 1 ? cluster_rank() : 0, first = blockIdx.x / CLUSTER;
        const int stride = PERSISTENT ? gridDim.x / CLUSTER : 1 << 30, tiles = rows / CLUSTER * columns, steps = k / BK;
        if (group == 2) {
            give_registers<40>();
            if (threadIdx.x == 2 * GROUP) {
                int fetched = 0;
                for (int tile = first; tile < tiles; tile += stride) {
                    int row, column;
                    place_of<8 / CLUSTER>(tile, rows / CLUSTER, columns, row, column);
                    row = row * CLUSTER + rank;
                    for (int step = 0; step < steps; ++step, ++fetched) {
                        const int stage = fetched % STAGES;
                        const unsigned to = shared_address(room) + stage * STAGE, bar = full + 8 * stage;
                        mbarrier_wait(empty + 8 * stage, fetched / STAGES + 1 & 1);
                        mbarrier_expect(bar, STAGE);
                        tma_load(to, map_a, bar, step * BK, row * BM);
                        if constexpr (CLUSTER > 1) {
                            constexpr int PART = BN / CLUSTER;
                            tma_load_multicast(to + (BM + rank * PART) * ROW_BYTES, map_b, bar, step * BK, column * BN + rank * PART, (1 << CLUSTER) - 1);
                        } else {
                            tma_load(to + BM * ROW_BYTES, map_b, bar, step * BK, column * BN);
                        }
                    }
                }
            }
        } else {
            take_registers<232>();
            const unsigned c_room = shared_address(room) + STAGES * STAGE + group * C_BYTES;
            const unsigned mine = STEP == PING_PONG ? 0 : group * ROWS * ROW_BYTES;
            int taken = 0, turn = 0;
            auto free_stage = [&](int stage) {  // every block of the cluster may write it
                if (CLUSTER == 1 ? threadIdx.x % GROUP == 0 : threadIdx.x % GROUP < CLUSTER) {
                    if constexpr (CLUSTER > 1) mbarrier_arrive_there(in_block(empty + 8 * stage, threadIdx.x % GROUP));
                    else mbarrier_arrive(empty + 8 * stage);
                }
            };
            if (STEP == PING_PONG && group == 1) named_arrive(3, 2 * GROUP);  // the first group goes first
            for (int tile = first; tile < tiles; tile += stride, ++turn) {
                if (STEP == PING_PONG && (turn & 1) != group) {
                    taken += steps;
                    continue;
                }
                int row, column;
                place_of<8 / CLUSTER>(tile, rows / CLUSTER, columns, row, column);
                row = row * CLUSTER + rank;
                if constexpr (STEP == PING_PONG) named_barrier(3 + group, 2 * GROUP);
                float d[PARTS][BN / 2];
                for (int step = 0; step < steps; ++step, ++taken) {
                    const int stage = taken % STAGES;
                    const unsigned at = shared_address(room) + stage * STAGE;
                    mbarrier_wait(full + 8 * stage, taken / STAGES & 1);
                    multiply_step<BN, PARTS>(d, at + mine, at + BM * ROW_BYTES, step > 0);
                    if (step > 0) {
                        product_wait<1>();
                        free_stage((taken - 1) % STAGES);
                    }
                }
                if constexpr (STEP == PING_PONG) named_arrive(4 - group, 2 * GROUP);  // the other may multiply
                product_wait<0>();
                free_stage((taken - 1) % STAGES);
                #pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    pin(d[part]);
                    const int line = row * BM + (STEP == PING_PONG ? part : group) * ROWS;
                    store_tile<BN>(c_room + part * PART_BYTES, map_c, d[part], 1 + group, line, column * BN);
                }
            }
        }
    }
    if (threadIdx.x % GROUP == 0) tma_wait_read<0>();  // shared memory stays until all has been read that is stored
    if constexpr (CLUSTER > 1) cluster_barrier();  // no block ends while another one writes or tells it something
}
