// Softmax of rows in one pass over the input for maximum and sum (Milakov and Gimelshein, 2018), a second one for the result.
#include <cuda_fp16.h>
#include <math_constants.h>

__device__ __forceinline__ float2 joined(float2 a, float2 b)  // (maximum, sum of exponentials below it)
{
    const float most = fmaxf(a.x, b.x);
    return most == -CUDART_INF_F ? make_float2(most, 0.0f) : make_float2(most, a.y * __expf(a.x - most) + b.y * __expf(b.x - most));
}

__global__ void softmax(const __half *__restrict__ x, float *__restrict__ out, int columns)
{
    __shared__ float2 of_warp[32];
    x += (size_t)blockIdx.x * columns;
    out += (size_t)blockIdx.x * columns;
    float2 state = make_float2(-CUDART_INF_F, 0.0f);
    for (int at = threadIdx.x; at < columns; at += blockDim.x) state = joined(state, make_float2(__half2float(x[at]), 1.0f));
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        state = joined(state, make_float2(__shfl_xor_sync(0xFFFFFFFFu, state.x, distance), __shfl_xor_sync(0xFFFFFFFFu, state.y, distance)));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
    __syncthreads();
    state = of_warp[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp) state = joined(state, of_warp[warp]);
    const float share = 1.0f / state.y;
    for (int at = threadIdx.x; at < columns; at += blockDim.x) out[at] = __expf(__half2float(x[at]) - state.x) * share;
}
