// C = A B, row-major, by kernels after the descriptions of a collection of notes on CUDA: a ladder in single precision, and the first rungs of
// one in half precision. `pitch` is the common dimension in memory, `depth` what is summed over: the same, unless a launch is cut short.
#include <cuda_fp16.h>
#include <mma.h>

namespace {
constexpr int SIDE = 128, SLAB = 8, EACH = 8, HALF_SIDE = SIDE / 2, HALF_EACH = EACH / 2;

template <typename T> __device__ __forceinline__ float4 &four(T &at) { return reinterpret_cast<float4 *>(&at)[0]; }
template <typename T> __device__ __forceinline__ float2 &eight_bytes(T &at) { return reinterpret_cast<float2 *>(&at)[0]; }
template <typename T> __device__ __forceinline__ half2 &four_bytes(T &at) { return reinterpret_cast<half2 *>(&at)[0]; }
}  // namespace

// An element a thread.
template <typename T>
__global__ void naive(T *a, T *b, T *c, int rows, int columns, int pitch, int depth)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns) return;
    T sum = T(0.0f);
    #pragma unroll
    for (int k = 0; k < depth; ++k) sum += a[row * pitch + k] * b[k * columns + column];
    c[row * columns + column] = sum;
}

// Square tiles in shared memory, an element a thread.
__global__ void tiles(float *a, float *b, float *c, int rows, int columns, int pitch, int depth)
{
    constexpr int TILE = 32;
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, y = thread / TILE, x = thread % TILE;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int slab = 0; slab < (depth + TILE - 1) / TILE; ++slab) {
        as[y][x] = a[row * pitch + slab * TILE + x];
        bs[y][x] = b[(slab * TILE + y) * columns + column];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * columns + column] = sum;
}

// 8 x 8 neighbouring elements a thread, of tiles that lie as in global memory.
__global__ void many(float *a, float *b, float *c, int rows, int columns, int pitch, int depth)
{
    __shared__ float as[SIDE][SLAB], bs[SLAB][SIDE];
    const int x = threadIdx.x, y = threadIdx.y, thread = y * blockDim.x + x;
    const int a_row = thread / 2, a_k = thread % 2 == 0 ? 0 : 4, b_k = thread / 32, b_column = thread % 32 * 4;
    const int row = blockIdx.y * SIDE + a_row, column = blockIdx.x * SIDE + b_column;
    float sums[EACH][EACH] = {0.0f};
    for (int slab = 0; slab < (depth + SLAB - 1) / SLAB; ++slab) {
        four(as[a_row][a_k]) = four(a[row * pitch + slab * SLAB + a_k]);
        four(bs[b_k][b_column]) = four(b[(slab * SLAB + b_k) * columns + column]);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < SLAB; ++k)
            #pragma unroll
            for (int i = 0; i < EACH; ++i)
                #pragma unroll
                for (int j = 0; j < EACH; ++j) sums[i][j] += as[y * EACH + i][k] * bs[k][x * EACH + j];
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < EACH; ++i)
        #pragma unroll
        for (int j = 0; j < EACH; j += 4)
            four(c[(blockIdx.y * SIDE + y * EACH + i) * columns + blockIdx.x * SIDE + x * EACH + j]) = four(sums[i][j]);
}

namespace {
// Products of one slab: of both factors a thread has two pieces of four, half a tile apart; A lies turned.
__device__ __forceinline__ void multiplied(float (&as)[SLAB][SIDE], float (&bs)[SLAB][SIDE], float (&sums)[EACH][EACH])
{
    const int x = threadIdx.x * HALF_EACH, y = threadIdx.y * HALF_EACH;
    float left[EACH], right[EACH];
    #pragma unroll
    for (int k = 0; k < SLAB; ++k) {
        four(left[0]) = four(as[k][y]);
        four(left[4]) = four(as[k][y + HALF_SIDE]);
        four(right[0]) = four(bs[k][x]);
        four(right[4]) = four(bs[k][x + HALF_SIDE]);
        #pragma unroll
        for (int i = 0; i < EACH; ++i)
            #pragma unroll
            for (int j = 0; j < EACH; ++j) sums[i][j] = __fmaf_rn(left[i], right[j], sums[i][j]);
    }
}

__device__ __forceinline__ void left_in(float *c, float (&sums)[EACH][EACH], int columns)
{
    #pragma unroll
    for (int half = 0; half < 2; ++half)
        #pragma unroll
        for (int i = 0; i < HALF_EACH; ++i) {
            const int row = blockIdx.y * SIDE + half * HALF_SIDE + threadIdx.y * HALF_EACH + i;
            const int at = row * columns + blockIdx.x * SIDE + threadIdx.x * HALF_EACH;
            four(c[at]) = four(sums[half * HALF_EACH + i][0]);
            four(c[at + HALF_SIDE]) = four(sums[half * HALF_EACH + i][4]);
        }
}
}  // namespace

// STAGES of slabs in shared memory. With two the next slab comes to registers before the products and is stored behind them.
template <int STAGES>
__global__ void turned(float *a, float *b, float *c, int rows, int columns, int pitch, int depth)
{
    __shared__ float as[STAGES][SLAB][SIDE], bs[STAGES][SLAB][SIDE];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int a_row = thread / 2, a_k = (thread & 1) << 2, b_k = thread / 32, b_column = (thread & 31) << 2;
    const int row = blockIdx.y * SIDE + a_row, column = blockIdx.x * SIDE + b_column;
    if (STAGES == 1 && (row >= rows || column >= columns)) return;
    float from_a[4], from_b[4], sums[EACH][EACH] = {0.0f};
    const auto fetch = [&](int slab) {
        four(from_a[0]) = four(a[row * pitch + slab * SLAB + a_k]);
        four(from_b[0]) = four(b[(slab * SLAB + b_k) * columns + column]);
    };
    const auto put = [&](int stage) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) as[stage][a_k + i][a_row] = from_a[i];
        four(bs[stage][b_k][b_column]) = four(from_b[0]);
    };
    const int slabs = (depth + SLAB - 1) / SLAB;
    if (STAGES == 1) {
        for (int slab = 0; slab < slabs; ++slab) {
            fetch(slab);
            put(0);
            __syncthreads();
            multiplied(as[0], bs[0], sums);
            __syncthreads();
        }
    } else {
        fetch(0);
        put(0);
        __syncthreads();
        for (int slab = 1; slab < slabs; ++slab) {
            fetch(slab);
            multiplied(as[(slab - 1) & 1], bs[(slab - 1) & 1], sums);
            put(slab & 1);
            __syncthreads();
        }
        multiplied(as[STAGES - 1], bs[STAGES - 1], sums);
    }
    left_in(c, sums, columns);
}

namespace {
namespace wmma = nvcuda::wmma;
using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, half>;
}  // namespace

// Half sums on tensor cores, a warp a block, fragments from global memory.
__global__ void fragments(half *a, half *b, half *c, int rows, int columns, int pitch, int depth)
{
    const int row = blockIdx.y * 16, column = blockIdx.x * 16, slabs = depth % 16 != 0 ? depth / 16 + 1 : depth / 16;
    if (row >= rows && column >= columns) return;
    Sums sums;
    wmma::fill_fragment(sums, 0.0);
    #pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
        Left left;
        Right right;
        wmma::load_matrix_sync(left, a + row * pitch + slab * 16, pitch);
        wmma::load_matrix_sync(right, b + slab * 16 * columns + column, columns);
        wmma::mma_sync(sums, left, right, sums);
        __syncthreads();
    }
    wmma::store_matrix_sync(c + row * columns + column, sums, columns, wmma::mem_row_major);
}

// Eight warps, 4 x 2, of HIGH x WIDE fragments each, from tiles in shared memory.
template <int HIGH, int WIDE>
__global__ void fragment_tiles(half *a, half *b, half *c, int rows, int columns, int pitch, int depth)
{
    constexpr int TILE_ROWS = 64 * HIGH, TILE_COLUMNS = 32 * WIDE, A_EACH = TILE_ROWS * 16 / 256, B_EACH = TILE_COLUMNS * 16 / 256;
    __shared__ half as[TILE_ROWS][16], bs[16][TILE_COLUMNS];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, warp = thread / 32, warp_row = warp / 2, warp_column = warp % 2;
    const int a_row = thread / (16 / A_EACH), a_k = thread % (16 / A_EACH) * A_EACH;
    const int b_k = thread / 16, b_column = thread % 16 * B_EACH;
    const int row = blockIdx.y * TILE_ROWS + a_row, column = blockIdx.x * TILE_COLUMNS + b_column;
    if (row >= rows || column >= columns) return;
    const int slabs = depth % 16 != 0 ? depth / 16 + 1 : depth / 16;
    Sums sums[HIGH][WIDE];
    #pragma unroll
    for (int i = 0; i < HIGH; ++i)
        #pragma unroll
        for (int j = 0; j < WIDE; ++j) wmma::fill_fragment(sums[i][j], 0.0);
    #pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
        half *a_at = a + row * pitch + slab * 16 + a_k, *b_at = b + (slab * 16 + b_k) * columns + column;
        if (HIGH == 1) {
            eight_bytes(as[a_row][a_k]) = eight_bytes(*a_at);
            four_bytes(bs[b_k][b_column]) = four_bytes(*b_at);
        } else {
            four(bs[b_k][b_column]) = four(*b_at);
            four(as[a_row][a_k]) = four(*a_at);
        }
        __syncthreads();
        Left left[HIGH];
        Right right[WIDE];
        #pragma unroll
        for (int i = 0; i < HIGH; ++i) wmma::load_matrix_sync(left[i], &as[warp_row * 16 * HIGH + i * 16][0], 16);
        #pragma unroll
        for (int j = 0; j < WIDE; ++j) wmma::load_matrix_sync(right[j], &bs[0][warp_column * 16 * WIDE + j * 16], TILE_COLUMNS);
        #pragma unroll
        for (int i = 0; i < HIGH; ++i)
            #pragma unroll
            for (int j = 0; j < WIDE; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < HIGH; ++i)
        #pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            const int top = blockIdx.y * TILE_ROWS + warp_row * 16 * HIGH + i * 16;
            const int left = blockIdx.x * TILE_COLUMNS + warp_column * 16 * WIDE + j * 16;
            wmma::store_matrix_sync(c + top * columns + left, sums[i][j], columns, wmma::mem_row_major);
        }
}
