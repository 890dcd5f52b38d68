// FlashAttention 2 (Dao, 2023): each warp keeps 16 queries and their output in registers, keys and values come in tiles, and the
// softmax is rescaled as its maximum grows. q, k, v and out are [batch x heads][tokens][DIM]; tokens are a multiple of TILE.
#include <cuda_fp16.h>
#include <math_constants.h>
#include "tensor.cuh"

template <int DIM, int TILE, int WARPS, bool CAUSAL>
__global__ void __launch_bounds__(32 * WARPS)
attention(const __half *__restrict__ q, const __half *__restrict__ k, const __half *__restrict__ v, __half *__restrict__ out, int tokens, float scale)
{
    constexpr int PITCH = DIM + 8, QUERIES = 16 * WARPS;
    __shared__ __align__(16) __half ks[TILE][PITCH], vs[TILE][PITCH], qs[QUERIES][PITCH];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, first = blockIdx.x * QUERIES;
    const size_t head = (size_t)blockIdx.y * tokens * DIM;
    for (int at = t; at < QUERIES * DIM / 8; at += 32 * WARPS)
        copy_16_bytes(&qs[at / (DIM / 8)][at % (DIM / 8) * 8], q + head + (size_t)(first + at / (DIM / 8)) * DIM + at % (DIM / 8) * 8);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    unsigned of_q[DIM / 16][4];
    #pragma unroll
    for (int d = 0; d < DIM / 16; ++d) load_matrices(of_q[d], &qs[16 * warp + lane % 16][16 * d + lane / 16 * 8]);

    float sums[DIM / 8][4] = {}, largest[2] = {-CUDART_INF_F, -CUDART_INF_F}, total[2] = {};
    const int query = first + 16 * warp + lane / 4;  // and the one eight further on
    const int end = CAUSAL ? min(tokens, first + QUERIES) : tokens;
    for (int begin = 0; begin < end; begin += TILE) {
        __syncthreads();
        for (int at = t; at < TILE * DIM / 8; at += 32 * WARPS) {
            const size_t from = head + (size_t)(begin + at / (DIM / 8)) * DIM + at % (DIM / 8) * 8;
            copy_16_bytes(&ks[at / (DIM / 8)][at % (DIM / 8) * 8], k + from);
            copy_16_bytes(&vs[at / (DIM / 8)][at % (DIM / 8) * 8], v + from);
        }
        commit_copies();
        wait_for_copies<0>();
        __syncthreads();
        float score[TILE / 8][4] = {};
        #pragma unroll
        for (int d = 0; d < DIM / 16; ++d)
            #pragma unroll
            for (int j = 0; j < TILE / 16; ++j) {
                unsigned of_k[4];
                load_matrices(of_k, &ks[16 * j + lane / 16 * 8 + lane % 8][16 * d + lane / 8 % 2 * 8]);
                multiply(score[2 * j], of_q[d], of_k[0], of_k[1]);
                multiply(score[2 * j + 1], of_q[d], of_k[2], of_k[3]);
            }
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            float most = largest[half];
            #pragma unroll
            for (int j = 0; j < TILE / 8; ++j)
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float &one = score[j][2 * half + e];
                    one *= scale;
                    if (CAUSAL && begin + 8 * j + lane % 4 * 2 + e > query + 8 * half) one = -CUDART_INF_F;
                    most = fmaxf(most, one);
                }
            most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
            const float shrink = exp2f(largest[half] - most);
            largest[half] = most;
            total[half] *= shrink;
            #pragma unroll
            for (int d = 0; d < DIM / 8; ++d) sums[d][2 * half] *= shrink, sums[d][2 * half + 1] *= shrink;
            #pragma unroll
            for (int j = 0; j < TILE / 8; ++j)
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    score[j][2 * half + e] = exp2f(score[j][2 * half + e] - most);
                    total[half] += score[j][2 * half + e];
                }
        }
        #pragma unroll
        for (int j = 0; j < TILE / 16; ++j) {  // the scores of 16 keys are the fragment of the next product
            unsigned of_p[4];
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const __half2 both = __floats2half2_rn(score[2 * j + e / 2][e % 2 * 2], score[2 * j + e / 2][e % 2 * 2 + 1]);
                of_p[e] = *reinterpret_cast<const unsigned *>(&both);
            }
            #pragma unroll
            for (int d = 0; d < DIM / 16; ++d) {
                unsigned of_v[4];
                load_matrices_transposed(of_v, &vs[16 * j + lane % 16][16 * d + lane / 16 * 8]);
                multiply(sums[2 * d], of_p, of_v[0], of_v[1]);
                multiply(sums[2 * d + 1], of_p, of_v[2], of_v[3]);
            }
        }
    }
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 1);
        total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 2);
        const float share = 1.0f / total[half];
        #pragma unroll
        for (int d = 0; d < DIM / 8; ++d)
            *reinterpret_cast<__half2 *>(out + head + (size_t)(query + 8 * half) * DIM + 8 * d + lane % 4 * 2) =
                __floats2half2_rn(sums[d][2 * half] * share, sums[d][2 * half + 1] * share);
    }
}
