// Written after the root-mean-square norms of an inference program (github.com/Neroued/ninfer, src/ops/kernel/rmsnorm.cuh): a row of BF16 a warp or a block, two elements a load; the row stays in registers,
// and weights are loaded behind the sum. `LIFTED`: whether one is added to each weight.

#include <cuda_bf16.h>

using Pair = __nv_bfloat162;

__device__ float over_warp(float value)
{
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

__device__ float square(Pair pair)
{
    const float2 x = __bfloat1622float2(pair);
    return x.x * x.x + x.y * x.y;
}

template <bool LIFTED>
__device__ Pair scaled(Pair pair, float inverse, Pair weight)
{
    const float2 x = __bfloat1622float2(pair);
    float2 w = __bfloat1622float2(weight);
    if (LIFTED) w.x += 1.0f, w.y += 1.0f;
    return __floats2bfloat162_rn(x.x * inverse * w.x, x.y * inverse * w.y);
}

// Rows of two pairs a lane.
template <int THREADS>
__global__ __launch_bounds__(THREADS) void by_warp_of_two(const Pair *in, const Pair *weight, Pair *out, long long rows, float epsilon)
{
    constexpr int PAIRS = 64;
    const int lane = threadIdx.x & 31;
    const long long row = (long long)blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5);
    if (row >= rows) return;
    const Pair *x = in + row * PAIRS;
    Pair *to = out + row * PAIRS;
    const Pair first = x[lane], second = x[lane + 32];
    const float sum = over_warp(square(first) + square(second));
    float inverse = lane == 0 ? rsqrtf(sum * (1.0f / (2 * PAIRS)) + epsilon) : 0.0f;
    inverse = __shfl_sync(0xffffffffu, inverse, 0);
    to[lane] = scaled<false>(first, inverse, weight[lane]);
    to[lane + 32] = scaled<false>(second, inverse, weight[lane + 32]);
}

// Rows of up to four pairs a lane.
template <int THREADS>
__global__ __launch_bounds__(THREADS) void by_warp(const Pair *in, const Pair *weight, Pair *out, int wide, long long rows, float epsilon)
{
    constexpr int MOST = 4;
    const int lane = threadIdx.x & 31, pairs = wide / 2;
    const long long row = (long long)blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5);
    if (row >= rows) return;
    Pair kept[MOST];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (lane + k * 32 < pairs) {
            kept[k] = in[row * pairs + lane + k * 32];
            sum += square(kept[k]);
        }
    sum = over_warp(sum);
    float inverse = lane == 0 ? rsqrtf(sum / (float)wide + epsilon) : 0.0f;
    inverse = __shfl_sync(0xffffffffu, inverse, 0);
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (lane + k * 32 < pairs) out[row * pairs + lane + k * 32] = scaled<true>(kept[k], inverse, weight[lane + k * 32]);
}

template <int THREADS>
__device__ float over_block(float value, float *parts)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    value = over_warp(value);
    if (lane == 0) parts[warp] = value;
    __syncthreads();
    value = threadIdx.x < THREADS / 32 ? parts[lane] : 0.0f;
    return warp == 0 ? over_warp(value) : value;
}

// Rows of two pairs a thread.
template <int THREADS>
__global__ __launch_bounds__(THREADS) void by_block_of_two(const Pair *in, const Pair *weight, Pair *out, long long rows, float epsilon)
{
    constexpr int PAIRS = 2 * THREADS;
    __shared__ float parts[THREADS / 32], shared;
    const long long row = blockIdx.x;
    if (row >= rows) return;
    const Pair *x = in + row * PAIRS;
    Pair *to = out + row * PAIRS;
    const int thread = threadIdx.x;
    const Pair first = x[thread], second = x[thread + THREADS];
    const float sum = over_block<THREADS>(square(first) + square(second), parts);
    if (thread == 0) shared = rsqrtf(sum * (1.0f / (2 * PAIRS)) + epsilon);
    __syncthreads();
    const float inverse = shared;
    to[thread] = scaled<false>(first, inverse, weight[thread]);
    to[thread + THREADS] = scaled<false>(second, inverse, weight[thread + THREADS]);
}

// Rows of up to MOST pairs a thread.
template <int THREADS, int MOST>
__global__ __launch_bounds__(THREADS) void by_block(const Pair *in, const Pair *weight, Pair *out, int wide, long long rows, float epsilon)
{
    __shared__ float parts[THREADS / 32], shared;
    const long long row = blockIdx.x;
    if (row >= rows) return;
    const int pairs = wide / 2, each = pairs / THREADS;
    Pair kept[MOST];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (k < each) {
            kept[k] = in[row * pairs + threadIdx.x + k * THREADS];
            sum += square(kept[k]);
        }
    sum = over_block<THREADS>(sum, parts);
    if (threadIdx.x == 0) shared = rsqrtf(sum / (float)wide + epsilon);
    __syncthreads();
    const float inverse = shared;
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (k < each) out[row * pairs + threadIdx.x + k * THREADS] = scaled<true>(kept[k], inverse, weight[threadIdx.x + k * THREADS]);
}
