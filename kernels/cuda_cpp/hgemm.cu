// C = A B^T by tensor cores: half in, single out, STAGES tiles on their way by cp.async, fragments by ldmatrix.
// A is m x k, B is n x k (its rows are columns of the product). m, n, k are multiples of BM, BN, BK.
#include <cuda_fp16.h>
#include "tensor.cuh"

template <int BM, int BN, int BK, int STAGES, int WARPS_M, int WARPS_N>
__global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
hgemm(const __half *__restrict__ a, const __half *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    constexpr int THREADS = 32 * WARPS_M * WARPS_N, PITCH = BK + 8;  // 16 bytes more a row: ldmatrix meets every bank once
    constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, FM = WM / 16, FN = WN / 8;
    static_assert(FM >= 1 && FN % 2 == 0 && BK % 16 == 0, "fragments of 16 x 8, two columns of them at a time");
    extern __shared__ __align__(16) unsigned char shared[];
    __half(*as)[BM][PITCH] = reinterpret_cast<__half(*)[BM][PITCH]>(shared);
    __half(*bs)[BN][PITCH] = reinterpret_cast<__half(*)[BN][PITCH]>(shared + sizeof(__half) * STAGES * BM * PITCH);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row = warp / WARPS_N * WM, column = warp % WARPS_N * WN;
    a += (size_t)blockIdx.y * BM * k;
    b += (size_t)blockIdx.x * BN * k;
    const int steps = k / BK;

    auto fetch = [&](int step) {
        if (step < steps) {
            for (int at = t; at < BM * BK / 8; at += THREADS)
                copy_16_bytes(&as[step % STAGES][at / (BK / 8)][at % (BK / 8) * 8], a + (size_t)(at / (BK / 8)) * k + step * BK + at % (BK / 8) * 8);
            for (int at = t; at < BN * BK / 8; at += THREADS)
                copy_16_bytes(&bs[step % STAGES][at / (BK / 8)][at % (BK / 8) * 8], b + (size_t)(at / (BK / 8)) * k + step * BK + at % (BK / 8) * 8);
        }
        commit_copies();  // an empty group, where there is nothing left, keeps the count
    };

    float sums[FM][FN][4] = {};
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        #pragma unroll
        for (int depth = 0; depth < BK; depth += 16) {
            unsigned of_a[FM][4], of_b[FN / 2][4];
            #pragma unroll
            for (int i = 0; i < FM; ++i)
                load_matrices(of_a[i], &as[step % STAGES][row + 16 * i + lane % 16][depth + lane / 16 * 8]);
            #pragma unroll
            for (int j = 0; j < FN / 2; ++j)
                load_matrices(of_b[j], &bs[step % STAGES][column + 16 * j + lane / 16 * 8 + lane % 8][depth + lane / 8 % 2 * 8]);
            #pragma unroll
            for (int i = 0; i < FM; ++i)
                #pragma unroll
                for (int j = 0; j < FN; ++j) multiply(sums[i][j], of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1]);
        }
    }
    c += (size_t)(blockIdx.y * BM + row + lane / 4) * n + blockIdx.x * BN + column + lane % 4 * 2;
    #pragma unroll
    for (int i = 0; i < FM; ++i)
        #pragma unroll
        for (int j = 0; j < FN; ++j)
            #pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<float2 *>(c + (size_t)(16 * i + 8 * half) * n + 8 * j) = make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
}
