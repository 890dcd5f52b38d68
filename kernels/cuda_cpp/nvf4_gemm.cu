// C = A B^T of 4-bit floats (E2M1) with a scale (E4M3) for each 16 along k of a row, by Blackwell's block-scaled products into tensor memory; C is
// half, A is m x k, B is n x k, of whole tiles. Two elements are a byte. Scales lie as the tensor core takes them: 512 bytes for each 128
// rows and 64 along k, of which 16 bytes each belong to rows l, l + 32, l + 64 and l + 96. As tcgen05_gemm.cu otherwise, for one block.
#include "tensor_panels.cuh"

constexpr int BM = 128, BN = 128, STEP_BYTES = 128, PRODUCTS = STEP_BYTES / 32, TAKERS = 4, SCALES = 512 * PRODUCTS;  // a step: 256 along k

// A, B: E2M1; scales: E4M3.
constexpr unsigned KIND = 1 << 7 | 1 << 10 | BN / 8 << 17 | BM / 128 << 27;

// `bytes` that lie side by side.
__device__ __forceinline__ void bulk_load(unsigned to, const void *from, int bytes, unsigned bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
// 512 bytes of scales into four columns of tensor memory, of all four quarters of its lanes.
__device__ __forceinline__ void bring_scales(unsigned to, unsigned from)
{
    const u64 described = (u64)(from >> 4) | (u64)1 << 16 | (u64)8 << 32 | (u64)1 << 46;
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(described) : "memory");
}
__device__ __forceinline__ void multiply_scaled(unsigned d, u64 a, u64 b, unsigned scales_a, unsigned scales_b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%4], [%5], p;\n}"
                 ::"r"(d), "l"(a), "l"(b), "r"(KIND), "r"(scales_a), "r"(scales_b), "r"(accumulate) : "memory");
}

template <int STAGES>
__global__ void __launch_bounds__((TAKERS + 2) * WARP, 1)
nvf4_gemm(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
          const unsigned char *scales_a, const unsigned char *scales_b, int m, int n, int k)
{
    constexpr int A_BYTES = BM * STEP_BYTES, B_BYTES = BN * STEP_BYTES, STAGE = A_BYTES + B_BYTES + 2 * SCALES;
    constexpr int COLUMNS = 512, OF_SCALES = 2 * BN;  // of tensor memory: two tiles of sums, then scales of A and of B
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u64 bars[2 * STAGES + 4];
    __shared__ unsigned allocated;
    const unsigned base = shared_address(room), panels = base + STAGES * STAGE;
    const unsigned full = shared_address(bars), empty = full + 8 * STAGES, ready = empty + 8 * STAGES, taken = ready + 16;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int columns = n / BN, tiles = m / BM * columns, steps = k / 2 / STEP_BYTES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) mbarrier_init(full + 8 * i, 1), mbarrier_init(empty + 8 * i, 1);
        for (int i = 0; i < 2; ++i) mbarrier_init(ready + 8 * i, 1), mbarrier_init(taken + 8 * i, TAKERS);
        publish_mbarriers();
    }
    if (warp == TAKERS + 1) tensor_allocate<false>(shared_address(&allocated), COLUMNS);
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    const unsigned memory = allocated;

    if (warp == TAKERS && lane == 0) {
        prefetch_map(map_a), prefetch_map(map_b), prefetch_map(map_c);
        int turn = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int row = tile / columns, column = tile % columns;
            for (int step = 0; step < steps; ++step, ++turn) {
                const int stage = turn % STAGES;
                const unsigned to = base + stage * STAGE, bar = full + 8 * stage, of_scales = to + A_BYTES + B_BYTES;
                mbarrier_wait(empty + 8 * stage, turn / STAGES + 1 & 1);
                mbarrier_expect(bar, STAGE);
                tma_load(to, map_a, bar, step * STEP_BYTES, row * BM);
                tma_load(to + A_BYTES, map_b, bar, step * STEP_BYTES, column * BN);
                bulk_load(of_scales, scales_a + ((size_t)row * steps + step) * SCALES, SCALES, bar);
                bulk_load(of_scales + SCALES, scales_b + ((size_t)column * steps + step) * SCALES, SCALES, bar);
            }
        }
    } else if (warp == TAKERS + 1 && lane == 0) {
        int turn = 0, done = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++done) {
            const unsigned sums = memory + done % 2 * BN, of_a = memory + OF_SCALES, of_b = of_a + 4 * PRODUCTS;
            mbarrier_wait(taken + done % 2 * 8, done / 2 + 1 & 1);
            tensor_fence_after();
            for (int step = 0; step < steps; ++step, ++turn) {
                const int stage = turn % STAGES;
                const unsigned at = base + stage * STAGE, scales = at + A_BYTES + B_BYTES;
                const u64 a = tensor_described(at), b = tensor_described(at + A_BYTES);
                mbarrier_wait(full + 8 * stage, turn / STAGES & 1);
                tensor_fence_after();
                #pragma unroll
                for (int i = 0; i < PRODUCTS; ++i) {  // copies and products of one thread go in order
                    bring_scales(of_a + 4 * i, scales + 512 * i);
                    bring_scales(of_b + 4 * i, scales + SCALES + 512 * i);
                }
                #pragma unroll
                for (int i = 0; i < PRODUCTS; ++i) multiply_scaled(sums, a + 2 * i, b + 2 * i, of_a + 4 * i, of_b + 4 * i, step > 0 || i > 0);
                tensor_commit<false>(empty + 8 * stage);
            }
            tensor_commit<false>(ready + done % 2 * 8);
        }
    } else if (warp < TAKERS) {
        const unsigned mine = panels + warp * 2 * PANEL_BYTES;
        int done = 0, stored = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++done) {
            const int row = tile / columns * BM + warp * WARP, column = tile % columns * BN;
            const unsigned sums = memory + done % 2 * BN + (warp * WARP << 16);
            mbarrier_wait(ready + done % 2 * 8, done / 2 & 1);
            tensor_fence_after();
            for (int panel = 0; panel < BN / PANEL; ++panel, ++stored)
                store_panel(map_c, mine + stored % 2 * PANEL_BYTES, sums + panel * PANEL, column + panel * PANEL, row);
            tensor_fence_before();
            __syncwarp();
            if (lane == 0) mbarrier_arrive(taken + done % 2 * 8);
        }
        if (lane == 0) tma_wait_read<0>();  // shared memory stays until all has been read that is stored
    }
    __syncwarp();
    __syncthreads();
    if (warp == TAKERS + 1) tensor_free<false>(memory, COLUMNS);
}
