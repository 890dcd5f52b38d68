// Written after the description in github.com/wangsiping97/FastGEMV (method_and_result.md, fast_gemv.cu): a matrix times a vector, elements of the matrix in half precision, or quantised to eight or
// four bits with one scale and one zero point, the vector in half precision. A row of threads sums a row of the matrix: each takes eight (of four bits: sixteen) neighbours at a time, then lanes are
// added by shuffles and warps through shared memory.
#include <cuda_fp16.h>

constexpr int most_rows = 64, lanes = 32;

// As much of the matrix as a thread takes at a time. Of quantised ones neither is declared to be aligned, so that they are loaded in pairs of bytes and byte by byte.
struct eight_bits { __half pairs[4]; };
struct four_bits { unsigned char pairs[4]; };

static __device__ float over_lanes(float sum, unsigned threads) {
    if (threads >= 32) sum += __shfl_down_sync(~0u, sum, 16);
    if (threads >= 16) sum += __shfl_down_sync(~0u, sum, 8);
    if (threads >= 8) sum += __shfl_down_sync(~0u, sum, 4);
    if (threads >= 4) sum += __shfl_down_sync(~0u, sum, 2);
    if (threads >= 2) sum += __shfl_down_sync(~0u, sum, 1);
    return sum;
}

// What the threads of a row have summed, written by its first one.
static __device__ void write_sum(float sum, __half *result, unsigned row) {
    sum = over_lanes(sum, blockDim.x);
    if (blockDim.x <= lanes) {
        if (threadIdx.x == 0) result[row] = __float2half(sum);
        return;
    }
    static __shared__ float of_warps[most_rows][lanes];
    const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    if (lane == 0) of_warps[threadIdx.y][warp] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / lanes ? of_warps[threadIdx.y][lane] : 0.0f;
    if (warp == 0) sum = over_lanes(sum, blockDim.x / lanes);
    if (threadIdx.x == 0) result[row] = __float2half(sum);
}

static __device__ float element(const float4 &eight, int index) {
    return static_cast<float>(reinterpret_cast<const __half *>(&eight)[index]);
}

extern "C" __global__ void in_halves(const __half *matrix, const __half *vector, __half *result, unsigned n, unsigned each) {
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    const float4 *rows = reinterpret_cast<const float4 *>(matrix), *words = reinterpret_cast<const float4 *>(vector);
    float sum = 0;
#pragma unroll
    for (int turn = 0; turn < each >> 3; turn++) {
        const unsigned at = threadIdx.x + turn * blockDim.x;
        if (at < n >> 3) {
            const float4 v = words[at], m = rows[row * (n >> 3) + at];
#pragma unroll
            for (int i = 0; i < 8; i++) sum += element(v, i) * element(m, i);
        }
    }
    write_sum(sum, result, row);
}

extern "C" __global__ void in_eight_bits(
    const signed char *matrix, const __half *vector, __half *result, unsigned n, __half scale, __half zero, unsigned each) {
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    const eight_bits *rows = reinterpret_cast<const eight_bits *>(matrix);
    const float4 *words = reinterpret_cast<const float4 *>(vector);
    const float zero_point = static_cast<float>(zero);
    float sum = 0;
#pragma unroll
    for (int turn = 0; turn < each >> 3; turn++) {
        const unsigned at = threadIdx.x + turn * blockDim.x;
        if (at < n >> 3) {
            const float4 v = words[at];
            const eight_bits m = rows[row * (n >> 3) + at];
            const signed char *bytes = reinterpret_cast<const signed char *>(&m);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += element(v, i) * (static_cast<float>(bytes[i]) - zero_point);
        }
    }
    write_sum(sum * static_cast<float>(scale), result, row);
}

extern "C" __global__ void in_four_bits(
    const unsigned char *matrix, const __half *vector, __half *result, unsigned n, __half scale, __half zero, unsigned each) {
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    const four_bits *rows = reinterpret_cast<const four_bits *>(matrix);
    const float4 *words = reinterpret_cast<const float4 *>(vector);
    const float zero_point = static_cast<float>(zero);
    float sum = 0;
#pragma unroll
    for (int turn = 0; turn < each >> 4; turn++) {
        const unsigned at = 2 * (threadIdx.x + turn * blockDim.x);
        if (at < n >> 3) {
            const float4 v[2] = {words[at], words[at + 1]};
            const four_bits m[2] = {rows[row * (n >> 3) + at], rows[row * (n >> 3) + at + 1]};
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const unsigned char pair = m[i / 8].pairs[i / 2 % 4], four = i % 2 ? pair >> 4 & 15 : pair & 15;
                sum += element(v[i / 8], i % 8) * (static_cast<float>(four) - zero_point);
            }
        }
    }
    write_sum(sum * static_cast<float>(scale), result, row);
}
