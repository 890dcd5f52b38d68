// C = A B in half precision with single-precision sums by m16n8k16, one kernel whose parameters are the steps of an ablation, after its
// description: tiles of 128 x 128 by 32, WARP_ROWS x WARP_COLUMNS of it a warp, STAGES slabs in shared memory; VECTORS: 16 bytes a copy and
// asynchronous, else a half a load; EXCHANGED: 16-byte pieces of a row change places, so that ldmatrix meets no bank twice. Both matrices are
// row-major. `pitch` is the side of the matrices, `depth` the common dimension that is summed over: the same, unless a launch is cut short.
#include <cuda_fp16.h>

namespace {
constexpr int TILE = 128, SLAB = 32;

// Where element (row, column) lies in rows of PIECES pieces of eight halves. Rows of 64 bytes share a bank with every second one.
template <int PIECES, bool EXCHANGED>
__device__ __forceinline__ int place(int row, int column)
{
    int piece = column / 8;
    if (EXCHANGED) piece ^= PIECES == 4 ? row / 2 % 4 : row % 8;
    return row * PIECES * 8 + piece * 8 + column % 8;
}

__device__ __forceinline__ unsigned address(const half *at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

__device__ __forceinline__ void copy(half *to, const half *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from));
}
} // namespace

template <int WARP_ROWS, int WARP_COLUMNS, int STAGES, bool VECTORS, bool EXCHANGED>
__global__ void __launch_bounds__(TILE / WARP_ROWS * (TILE / WARP_COLUMNS) * 32)
steps(const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c, int pitch, int depth)
{
    constexpr int ACROSS = TILE / WARP_COLUMNS, THREADS = TILE / WARP_ROWS * ACROSS * 32, DOWN = WARP_ROWS / 16, RIGHT = WARP_COLUMNS / 8;
    constexpr int A_PIECES = SLAB / 8, B_PIECES = TILE / 8;
    __shared__ __align__(16) half shared[STAGES * 2 * TILE * SLAB];
    half *of_a[STAGES], *of_b[STAGES];
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        of_a[stage] = shared + stage * 2 * TILE * SLAB;
        of_b[stage] = of_a[stage] + TILE * SLAB;
    }
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, down = warp / ACROSS * WARP_ROWS, right = warp % ACROSS * WARP_COLUMNS;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE, slabs = depth / SLAB;
    float sums[DOWN][RIGHT][4] = {};

    // Rows and columns outside count as zeros.
    auto load = [&](int stage, int k) {
        if (VECTORS) {
#pragma unroll
            for (int i = t; i < TILE * A_PIECES; i += THREADS) {
                const int y = i / A_PIECES, piece = i % A_PIECES;
                half *to = &of_a[stage][place<A_PIECES, EXCHANGED>(y, piece * 8)];
                if (row + y < pitch) copy(to, &a[(size_t)(row + y) * pitch + k + piece * 8]);
                else *reinterpret_cast<float4 *>(to) = make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int i = t; i < SLAB * B_PIECES; i += THREADS) {
                const int y = i / B_PIECES, piece = i % B_PIECES;
                half *to = &of_b[stage][place<B_PIECES, EXCHANGED>(y, piece * 8)];
                if (column + piece * 8 < pitch) copy(to, &b[(size_t)(k + y) * pitch + column + piece * 8]);
                else *reinterpret_cast<float4 *>(to) = make_float4(0, 0, 0, 0);
            }
        } else {
#pragma unroll 1
            for (int i = t; i < TILE * SLAB; i += THREADS) {
                const int y = i / SLAB, x = i % SLAB;
                of_a[stage][place<A_PIECES, EXCHANGED>(y, x)] = row + y < pitch ? a[(size_t)(row + y) * pitch + k + x] : __float2half(0.0f);
            }
#pragma unroll 1
            for (int i = t; i < SLAB * TILE; i += THREADS) {
                const int y = i / TILE, x = i % TILE;
                of_b[stage][place<B_PIECES, EXCHANGED>(y, x)] = column + x < pitch ? b[(size_t)(k + y) * pitch + column + x] : __float2half(0.0f);
            }
        }
    };
    auto commit = [&]() { if (VECTORS) asm volatile("cp.async.commit_group;"); };

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < slabs) load(stage, stage * SLAB);
        commit();
    }
    const int lane_row = lane % 8 + lane / 8 % 2 * 8, lane_column = lane / 16 * 8;
    for (int slab = 0; slab < slabs; ++slab) {
        const int next = slab + STAGES - 1;
        if (next < slabs) load(next % STAGES, next * SLAB);
        commit();
        if (VECTORS) asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1));
        __syncthreads();
        const half *tile_a = of_a[slab % STAGES], *tile_b = of_b[slab % STAGES];
#pragma unroll
        for (int k = 0; k < SLAB; k += 16) {
            unsigned piece_a[DOWN][4], piece_b[RIGHT / 2][4];
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(piece_a[i][0]), "=r"(piece_a[i][1]), "=r"(piece_a[i][2]), "=r"(piece_a[i][3])
                             : "r"(address(&tile_a[place<A_PIECES, EXCHANGED>(down + i * 16 + lane_row, k + lane_column)])));
#pragma unroll
            for (int j = 0; j < RIGHT / 2; ++j)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(piece_b[j][0]), "=r"(piece_b[j][1]), "=r"(piece_b[j][2]), "=r"(piece_b[j][3])
                             : "r"(address(&tile_b[place<B_PIECES, EXCHANGED>(k + lane_row, right + j * 16 + lane_column)])));
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int j = 0; j < RIGHT; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                                 : "r"(piece_a[i][0]), "r"(piece_a[i][1]), "r"(piece_a[i][2]), "r"(piece_a[i][3]),
                                   "r"(piece_b[j / 2][j % 2 * 2]), "r"(piece_b[j / 2][j % 2 * 2 + 1]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < RIGHT; ++j) {
            const int y = row + down + i * 16 + lane / 4, x = column + right + j * 8 + lane % 4 * 2;
            if (y < pitch && x < pitch) *reinterpret_cast<float2 *>(&c[(size_t)y * pitch + x]) = make_float2(sums[i][j][0], sums[i][j][1]);
            if (y + 8 < pitch && x < pitch) *reinterpret_cast<float2 *>(&c[(size_t)(y + 8) * pitch + x]) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
