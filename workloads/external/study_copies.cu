// Written after a study of an H100 (github.com/ahmadsharif1/cuda_study, micro_benchmarks and transpose): copies by as many threads as are launched,
// UNROLL loads of each before its stores, and transposes by tiles of 32 x 32, one element or four neighbours at a time.
#include <cuda_runtime.h>

// Threads go on by the grid until `n` elements are copied; PAST_L1: by loads and stores that pass it.
template <typename T, int UNROLL, bool PAST_L1>
__global__ void copied(const T *__restrict__ from, T *__restrict__ to, size_t n)
{
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, apart = (size_t)gridDim.x * blockDim.x;
    size_t i = first;
    for (; i + (UNROLL - 1) * apart < n; i += UNROLL * apart) {
        T held[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) held[k] = PAST_L1 ? __ldcg(&from[i + k * apart]) : from[i + k * apart];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k)
            if (PAST_L1) __stcg(&to[i + k * apart], held[k]);
            else to[i + k * apart] = held[k];
    }
    for (; i < n; i += apart)
        if (PAST_L1) __stcg(&to[i], __ldcg(&from[i]));
        else to[i] = from[i];
}

constexpr int TILE = 32, ROWS = 8, WIDE = 4;

// Columns of the tile lie in one bank.
__global__ void turned(float *to, const float *from, size_t width, size_t height)
{
    __shared__ float tile[TILE][TILE];
    size_t x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = from[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) to[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void turned_by_fours(float *to, const float *from, size_t width, size_t height)
{
    __shared__ float tile[TILE][TILE + 1];
    const int x4 = threadIdx.x * WIDE, row = threadIdx.y;
    size_t x = blockIdx.x * TILE + x4, y = blockIdx.y * TILE + row;
    if (x + WIDE - 1 < width && y < height) {
        const float4 v = *reinterpret_cast<const float4 *>(&from[y * width + x]);
        tile[row][x4] = v.x, tile[row][x4 + 1] = v.y, tile[row][x4 + 2] = v.z, tile[row][x4 + 3] = v.w;
    } else if (x < width && y < height)
        for (int k = 0; k < WIDE && x + k < width; ++k) tile[row][x4 + k] = from[y * width + x + k];
    __syncthreads();
    x = blockIdx.y * TILE + x4;
    y = blockIdx.x * TILE + row;
    if (x + WIDE - 1 < height && y < width)
        *reinterpret_cast<float4 *>(&to[y * height + x]) = make_float4(tile[x4][row], tile[x4 + 1][row], tile[x4 + 2][row], tile[x4 + 3][row]);
    else if (x < height && y < width)
        for (int k = 0; k < WIDE && x + k < height; ++k) to[y * height + x + k] = tile[x4 + k][row];
}

// As CuTe deals a tile out to 256 threads: VECTOR neighbours of a row each, eight threads a row, 32 / VECTOR / 8 times; PAD columns are added.
template <int VECTOR, int PAD>
__global__ void turned_as_dealt(float *to, const float *from, size_t rows, size_t columns)
{
    constexpr int PARTS = TILE / VECTOR / ROWS;
    __shared__ __align__(16) float tile[TILE * (TILE + PAD)];
    const int t = threadIdx.y * TILE + threadIdx.x, slow = t / ROWS, fast = t % ROWS * VECTOR;
    const float *in = from + (size_t)blockIdx.y * TILE * columns + blockIdx.x * TILE;
    float *out = to + (size_t)blockIdx.x * TILE * rows + blockIdx.y * TILE;
    float held[PARTS][VECTOR];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const float *at = in + slow * columns + fast + part * ROWS * VECTOR;
        if (VECTOR == 4) *reinterpret_cast<float4 *>(held[part]) = *reinterpret_cast<const float4 *>(at);
        else held[part][0] = *at;
    }
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        float *at = tile + slow * (TILE + PAD) + fast + part * ROWS * VECTOR;
        if (VECTOR == 4) *reinterpret_cast<float4 *>(at) = *reinterpret_cast<float4 *>(held[part]);
        else *at = held[part][0];
    }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int k = 0; k < VECTOR; ++k) held[part][k] = tile[(fast + part * ROWS * VECTOR + k) * (TILE + PAD) + slow];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        float *at = out + slow * rows + fast + part * ROWS * VECTOR;
        if (VECTOR == 4) *reinterpret_cast<float4 *>(at) = *reinterpret_cast<float4 *>(held[part]);
        else *at = held[part][0];
    }
}
