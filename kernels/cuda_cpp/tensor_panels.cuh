// Sums from tensor memory on their way to memory, in panels of 64 halves a row, one row of the 128-byte swizzle.
#pragma once
#include <cuda_fp16.h>
#include "blackwell.cuh"

constexpr int WARP = 32, ROW_BYTES = 128, PANEL = 64, PANEL_BYTES = WARP * ROW_BYTES;

// 64 columns of a warp's 32 rows from tensor memory, as halves into C at (row, column): by way of a panel, of which each warp has two in turn.
__device__ __forceinline__ void store_panel(const TensorMap &c, unsigned panel, unsigned memory, int column, int row)
{
    const int lane = threadIdx.x % WARP;
    if (lane == 0) tma_wait_read<1>();  // what was stored from it has been read
    __syncwarp();
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        unsigned sums[32];
        tensor_read(sums, memory + 32 * half);
        tensor_read_done();
        #pragma unroll
        for (int chunk = 0; chunk < 4; ++chunk) {
            unsigned pairs[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = 8 * chunk + 2 * i;
                const __half2 both = __floats2half2_rn(__uint_as_float(sums[at]), __uint_as_float(sums[at + 1]));
                pairs[i] = *reinterpret_cast<const unsigned *>(&both);
            }
            const unsigned to = panel + lane * ROW_BYTES + (4 * half + chunk ^ lane & 7) * 16;
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                         ::"r"(to), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
        }
    }
    fence_async();
    __syncwarp();
    if (lane == 0) {
        tma_store(c, panel, column, row);
        tma_commit();
    }
}
