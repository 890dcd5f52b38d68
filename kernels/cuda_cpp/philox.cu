// Counter-based random numbers (Philox 4x32-10; Salmon, Moraes, Dror and Shaw, 2011): points in a square, those in the circle counted.
#include "warp.cuh"

__device__ uint4 philox(uint4 counter, uint2 key)
{
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned low0 = 0xD2511F53u * counter.x, high0 = __umulhi(0xD2511F53u, counter.x);
        const unsigned low1 = 0xCD9E8D57u * counter.z, high1 = __umulhi(0xCD9E8D57u, counter.z);
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return counter;
}

__global__ void count_in_circle(unsigned long long *inside, unsigned seed, int draws)
{
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned found = 0;
    for (int draw = 0; draw < draws; ++draw) {
        const uint4 bits = philox(make_uint4(draw, 0, thread, 0), make_uint2(seed, 0));
        // 16 bits a coordinate: the test is exact.
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned long long x = words[i] & 0xFFFFu, y = words[i] >> 16;
            found += x * x + y * y < (1ull << 32);
        }
    }
    found = warp_sum(found);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, (unsigned long long)found);
}
