// C = A B^T by products into tensor memory: half in, half out, sums in single precision; A is m x k, B is n x k, C is m x n, of whole tiles.
// A persistent kernel of warps with one task each. A producer thread runs ahead through STAGES buffers; one thread asks for products; four warps
// take sums from tensor memory, which holds two tiles, so that one is stored while the next is computed. Of a PAIR of blocks each has 128 rows of
// A and half of the rows of B, and the first one asks for the products of both: 256 x BN.
#include "tensor_panels.cuh"

constexpr int BK = 64, ROWS = 128, TAKERS = 4;

template <bool PAIR, int BN, int STAGES>
__global__ void __cluster_dims__(PAIR ? 2 : 1, 1, 1) __launch_bounds__((TAKERS + 2) * WARP, 1)
tcgen05_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c, int m, int n,
             int k)
{
    constexpr int BLOCKS = PAIR ? 2 : 1, BM = BLOCKS * ROWS, A_BYTES = ROWS * ROW_BYTES, STAGE = A_BYTES + BN / BLOCKS * ROW_BYTES;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u64 bars[2 * STAGES + 4];
    __shared__ unsigned allocated;
    const unsigned base = shared_address(room), panels = base + STAGES * STAGE;
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, ready = empty + 8 * STAGES, taken = ready + 16;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, rank = PAIR ? cluster_rank() : 0;
    const int columns = n / BN, tiles = m / BM * columns, first = blockIdx.x / BLOCKS, stride = gridDim.x / BLOCKS, steps = k / BK;
    auto of_first = [&](unsigned bar) { return PAIR ? in_block(bar, 0) : bar; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) mbarrier_init(full + 8 * i, 1), mbarrier_init(empty + 8 * i, 1);
        for (int i = 0; i < 2; ++i) mbarrier_init(ready + 8 * i, 1), mbarrier_init(taken + 8 * i, BLOCKS * TAKERS);
        publish_mbarriers();
    }
    if (warp == TAKERS + 1) tensor_allocate<PAIR>(shared_address(&allocated), 2 * BN);
    tensor_fence_before();
    if constexpr (PAIR) cluster_barrier(); else __syncthreads();
    tensor_fence_after();
    const unsigned memory = allocated;

    if (warp == TAKERS && lane == 0) {
        prefetch_map(map_a), prefetch_map(map_b), prefetch_map(map_c);
        int turn = 0;
        for (int tile = first; tile < tiles; tile += stride) {
            const int row = tile / columns * BM + rank * ROWS, column = tile % columns * BN + rank * (BN / BLOCKS);
            for (int step = 0; step < steps; ++step, ++turn) {
                const int stage = turn % STAGES;
                const unsigned to = base + stage * STAGE, bar = of_first(full + 8 * stage);
                mbarrier_wait(empty + 8 * stage, turn / STAGES + 1 & 1);
                if (rank == 0) mbarrier_expect(full + 8 * stage, BLOCKS * STAGE);
                tma_load_for<PAIR>(to, map_a, bar, step * BK, row);
                tma_load_for<PAIR>(to + A_BYTES, map_b, bar, step * BK, column);
            }
        }
    } else if (warp == TAKERS + 1 && lane == 0 && rank == 0) {
        int turn = 0, done = 0;
        for (int tile = first; tile < tiles; tile += stride, ++done) {
            const unsigned sums = memory + done % 2 * BN;
            mbarrier_wait(taken + done % 2 * 8, done / 2 + 1 & 1);
            tensor_fence_after();
            for (int step = 0; step < steps; ++step, ++turn) {
                const int stage = turn % STAGES;
                const u64 a = tensor_described(base + stage * STAGE), b = tensor_described(base + stage * STAGE + A_BYTES);
                mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
                tensor_fence_after();
                #pragma unroll
                for (int i = 0; i < BK / 16; ++i) tensor_multiply<PAIR>(sums, a + 2 * i, b + 2 * i, OF_HALVES<BM, BN>, step > 0 || i > 0);
                tensor_commit<PAIR>(empty + 8 * stage);
            }
            tensor_commit<PAIR>(ready + done % 2 * 8);
        }
    } else if (warp < TAKERS) {
        const unsigned mine = panels + warp * 2 * PANEL_BYTES;
        int done = 0, stored = 0;
        for (int tile = first; tile < tiles; tile += stride, ++done) {
            const int row = tile / columns * BM + rank * ROWS + warp * WARP, column = tile % columns * BN;
            const unsigned sums = memory + done % 2 * BN + (warp * WARP << 16);
            mbarrier_wait(ready + done % 2 * 8, done / 2 & 1);
            tensor_fence_after();
            for (int panel = 0; panel < BN / PANEL; ++panel, ++stored)
                store_panel(map_c, mine + stored % 2 * PANEL_BYTES, sums + panel * PANEL, column + panel * PANEL, row);
            tensor_fence_before();
            __syncwarp();
            if (lane == 0) {
                if constexpr (PAIR) mbarrier_arrive_there(of_first(taken + done % 2 * 8));
                else mbarrier_arrive(taken + done % 2 * 8);
            }
        }
        if (lane == 0) tma_wait_read<0>();  // shared memory stays until all has been read that is stored
    }
    __syncwarp();
    if constexpr (PAIR) cluster_barrier(); else __syncthreads();  // nobody uses tensor memory or tells the other block something any more
    if (warp == TAKERS + 1) tensor_free<PAIR>(memory, 2 * BN);
}
