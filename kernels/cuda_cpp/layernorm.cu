// Layer normalisation, a warp a row, and its gradients: of the input by the same warp, of scale and shift by sums over rows, first
// within a block and then over the blocks' parts.
#include <cuda_fp16.h>

__device__ __forceinline__ float over_warp(float value)
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}

// x, out half[rows][64 PAIRS]; mean_rstd float2[rows] is kept for the gradients.
template <int PAIRS>
__global__ void layernorm(const __half *__restrict__ x, const float *__restrict__ scale, const float *__restrict__ shift, __half *__restrict__ out, float2 *mean_rstd, int rows, float epsilon)
{
    constexpr int COLUMNS = 64 * PAIRS;
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float2 own[PAIRS];
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        own[i] = __half22float2(*reinterpret_cast<const __half2 *>(x + (size_t)row * COLUMNS + 64 * i + 2 * lane));
        sum += own[i].x + own[i].y;
    }
    const float mean = over_warp(sum) / COLUMNS;
    float squares = 0.0f;
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) squares += (own[i].x - mean) * (own[i].x - mean) + (own[i].y - mean) * (own[i].y - mean);
    const float rstd = rsqrtf(over_warp(squares) / COLUMNS + epsilon);
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const int at = 64 * i + 2 * lane;
        const float2 by = *reinterpret_cast<const float2 *>(scale + at), plus = *reinterpret_cast<const float2 *>(shift + at);
        *reinterpret_cast<__half2 *>(out + (size_t)row * COLUMNS + at) =
            __floats2half2_rn((own[i].x - mean) * rstd * by.x + plus.x, (own[i].y - mean) * rstd * by.y + plus.y);
    }
    if (lane == 0) mean_rstd[row] = make_float2(mean, rstd);
}

// One block a group of rows; column parts float2[blocks][columns] hold (of scale, of shift).
template <int PAIRS>
__global__ void layernorm_backward(const __half *__restrict__ x, const __half *__restrict__ dy, const float *__restrict__ scale, const float2 *__restrict__ mean_rstd, __half *__restrict__ dx, float2 *parts, int rows)
{
    constexpr int COLUMNS = 64 * PAIRS;
    extern __shared__ float2 sums[];
    for (int at = threadIdx.x; at < COLUMNS; at += blockDim.x) sums[at] = make_float2(0.0f, 0.0f);
    __syncthreads();
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float2 of_scale[PAIRS] = {}, of_shift[PAIRS] = {};
    for (int row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
        const float2 kept = mean_rstd[row];
        float2 normal[PAIRS], wanted[PAIRS];
        float sum = 0.0f, product = 0.0f;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const int at = 64 * i + 2 * lane;
            const float2 in = __half22float2(*reinterpret_cast<const __half2 *>(x + (size_t)row * COLUMNS + at));
            const float2 out = __half22float2(*reinterpret_cast<const __half2 *>(dy + (size_t)row * COLUMNS + at));
            const float2 by = *reinterpret_cast<const float2 *>(scale + at);
            normal[i] = make_float2((in.x - kept.x) * kept.y, (in.y - kept.x) * kept.y);
            wanted[i] = make_float2(out.x * by.x, out.y * by.y);
            sum += wanted[i].x + wanted[i].y;
            product += wanted[i].x * normal[i].x + wanted[i].y * normal[i].y;
            of_scale[i].x += out.x * normal[i].x, of_scale[i].y += out.y * normal[i].y;
            of_shift[i].x += out.x, of_shift[i].y += out.y;
        }
        sum = over_warp(sum) / COLUMNS, product = over_warp(product) / COLUMNS;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i)
            *reinterpret_cast<__half2 *>(dx + (size_t)row * COLUMNS + 64 * i + 2 * lane) =
                __floats2half2_rn((wanted[i].x - sum - normal[i].x * product) * kept.y, (wanted[i].y - sum - normal[i].y * product) * kept.y);
    }
    for (int turn = 0; turn < warps; ++turn) {  // one warp after another: the sum has one order
        if (threadIdx.x / 32 == turn)
            #pragma unroll
            for (int i = 0; i < PAIRS; ++i) {
                const int at = 64 * i + 2 * lane;
                sums[at].x += of_scale[i].x, sums[at].y += of_shift[i].x;
                sums[at + 1].x += of_scale[i].y, sums[at + 1].y += of_shift[i].y;
            }
        __syncthreads();
    }
    for (int at = threadIdx.x; at < COLUMNS; at += blockDim.x) parts[(size_t)blockIdx.x * COLUMNS + at] = sums[at];
}

__global__ void layernorm_join(const float2 *__restrict__ parts, float2 *sums, int columns, int count)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= columns) return;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int part = 0; part < count; ++part) {
        const float2 one = parts[(size_t)part * columns + at];
        sum.x += one.x, sum.y += one.y;
    }
    sums[at] = sum;
}
