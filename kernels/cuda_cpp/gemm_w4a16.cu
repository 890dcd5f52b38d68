// C = X W^T, X in halves, W in four bits with a scale for each group of k: nibbles become halves by one LOP3 and one HSUB2.
// A word of W holds eight nibbles in the order k0 k2 k4 k6 k1 k3 k5 k7, so that nibbles i and i + 4 are neighbours in k.
#include <cuda_fp16.h>
#include "tensor.cuh"

__device__ __forceinline__ __half2 two_halves(unsigned word, int place)
{
    // 0x6400 is 1024 in half precision: the nibble is the last bits of the mantissa; 1032 takes off that and the zero point of 8.
    const unsigned bits = ((word >> 4 * place) & 0x000F000Fu) | 0x64006400u;
    return __hsub2(*reinterpret_cast<const __half2 *>(&bits), __half2(__float2half(1032.0f), __float2half(1032.0f)));
}

template <int GROUP>
__global__ void gemm_w4a16(const __half *__restrict__ x, const unsigned *__restrict__ words, const __half *__restrict__ scales, float *__restrict__ c, int m, int n, int k)
{
    static_assert(GROUP % 16 == 0, "a step of tensor cores lies in one group");
    const int lane = threadIdx.x % 32, column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 8, row = blockIdx.y * 16;
    if (column >= n) return;
    const int own = column + lane / 4, pair = lane % 4;
    const unsigned *top = reinterpret_cast<const unsigned *>(x + (size_t)(row + lane / 4) * k) + pair;
    const unsigned *bottom = reinterpret_cast<const unsigned *>(x + (size_t)(row + lane / 4 + 8) * k) + pair;
    float sums[4] = {};
    for (int first = 0; first < k; first += GROUP) {
        const __half2 scale = __half2half2(scales[(size_t)own * (k / GROUP) + first / GROUP]);
        #pragma unroll
        for (int depth = first; depth < first + GROUP; depth += 16) {
            const uint2 both = *reinterpret_cast<const uint2 *>(words + (size_t)own * (k / 8) + depth / 8);
            const __half2 low = __hmul2(two_halves(both.x, pair), scale), high = __hmul2(two_halves(both.y, pair), scale);
            const unsigned of_x[4] = {top[depth / 2], bottom[depth / 2], top[depth / 2 + 4], bottom[depth / 2 + 4]};
            multiply(sums, of_x, *reinterpret_cast<const unsigned *>(&low), *reinterpret_cast<const unsigned *>(&high));
        }
    }
    c += (size_t)(row + lane / 4) * n + column + 2 * pair;
    *reinterpret_cast<float2 *>(c) = make_float2(sums[0], sums[1]);
    *reinterpret_cast<float2 *>(c + (size_t)8 * n) = make_float2(sums[2], sums[3]);
}
