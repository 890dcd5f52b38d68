// Sum and maximum over the lanes of a warp: one instruction since compute capability 8.0, shuffles before.
#pragma once

__device__ __forceinline__ unsigned warp_sum(unsigned value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xFFFFFFFFu, value);
#else
    for (int distance = 16; distance; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
#endif
}

__device__ __forceinline__ int warp_max(int value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xFFFFFFFFu, value);
#else
    for (int distance = 16; distance; distance /= 2) value = max(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
    return value;
#endif
}
