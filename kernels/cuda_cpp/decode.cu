// One query a sequence against its past: each block takes a part of the keys, a second kernel joins the parts (split keys).
#include <cuda_fp16.h>
#include <math_constants.h>

template <int DIM>
__global__ void decode_parts(const float *__restrict__ q, const __half *__restrict__ k, const __half *__restrict__ v, float *parts, float2 *states, int context, int per_part, float scale)
{
    static_assert(DIM % 64 == 0, "a lane takes pairs");
    constexpr int PAIRS = DIM / 64;
    extern __shared__ float shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const size_t head = (size_t)blockIdx.y * context * DIM;
    float2 query[PAIRS], sums[PAIRS] = {};
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) query[i] = *reinterpret_cast<const float2 *>(q + (size_t)blockIdx.y * DIM + 64 * i + 2 * lane);
    float largest = -CUDART_INF_F, total = 0.0f;
    const int begin = blockIdx.x * per_part, end = min(context, begin + per_part);
    for (int key = begin + warp; key < end; key += warps) {
        float score = 0.0f;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const float2 own = __half22float2(*reinterpret_cast<const __half2 *>(k + head + (size_t)key * DIM + 64 * i + 2 * lane));
            score += query[i].x * own.x + query[i].y * own.y;
        }
        #pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, distance);
        score *= scale;
        const float most = fmaxf(largest, score), shrink = exp2f(largest - most), weight = exp2f(score - most);
        largest = most;
        total = total * shrink + weight;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const float2 own = __half22float2(*reinterpret_cast<const __half2 *>(v + head + (size_t)key * DIM + 64 * i + 2 * lane));
            sums[i].x = sums[i].x * shrink + weight * own.x;
            sums[i].y = sums[i].y * shrink + weight * own.y;
        }
    }
    float *of_warp = shared + 2 * warps;
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) *reinterpret_cast<float2 *>(of_warp + warp * DIM + 64 * i + 2 * lane) = sums[i];
    if (lane == 0) shared[2 * warp] = largest, shared[2 * warp + 1] = total;
    __syncthreads();
    float most = -CUDART_INF_F, all = 0.0f;
    for (int each = 0; each < warps; ++each) most = fmaxf(most, shared[2 * each]);
    for (int each = 0; each < warps; ++each) all += shared[2 * each + 1] * exp2f(shared[2 * each] - most);
    const size_t part = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    for (int d = threadIdx.x; d < DIM; d += blockDim.x) {
        float sum = 0.0f;
        for (int each = 0; each < warps; ++each) sum += of_warp[each * DIM + d] * exp2f(shared[2 * each] - most);
        parts[part * DIM + d] = sum;
    }
    if (threadIdx.x == 0) states[part] = make_float2(most, all);
}

template <int DIM>
__global__ void decode_join(const float *__restrict__ parts, const float2 *__restrict__ states, float *out, int count)
{
    const float2 *own = states + (size_t)blockIdx.x * count;
    float most = -CUDART_INF_F, total = 0.0f;
    for (int part = 0; part < count; ++part) most = fmaxf(most, own[part].x);
    for (int part = 0; part < count; ++part) total += own[part].y * exp2f(own[part].x - most);
    for (int d = threadIdx.x; d < DIM; d += blockDim.x) {
        float sum = 0.0f;
        for (int part = 0; part < count; ++part) sum += parts[((size_t)blockIdx.x * count + part) * DIM + d] * exp2f(own[part].x - most);
        out[(size_t)blockIdx.x * DIM + d] = sum / total;
    }
}
