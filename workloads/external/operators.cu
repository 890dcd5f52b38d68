// Written after operators of a language model (github.com/LiuYiyang-Canton/cuda_llm_ops): rows by blocks, four neighbours a load. Rows that are summed
// over lie in registers, in shared memory or are read twice, as there.
#include <cuda_bf16.h>

namespace {
constexpr int WARP = 32, WARPS = 8, FOUR = 4;
constexpr unsigned ALL = 0xffffffffu;

template <int LANES = WARP>
__device__ __forceinline__ float over_lanes(float value)
{
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart >>= 1) value += __shfl_xor_sync(ALL, value, apart);
    return value;
}

// Of all eight warps, for all threads: each warp adds up what the others left.
__device__ __forceinline__ float over_block(float value)
{
    __shared__ float parts[WARPS];
    value = over_lanes(value);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    return over_lanes<WARPS>(parts[threadIdx.x % WARPS]);
}

__device__ __forceinline__ float4 four(const float *at) { return *reinterpret_cast<const float4 *>(at); }
__device__ __forceinline__ void put(float *at, float4 v) { *reinterpret_cast<float4 *>(at) = v; }
__device__ __forceinline__ float added(float4 v) { return v.x + v.y + v.z + v.w; }
__device__ __forceinline__ float dot(float4 v, float4 w) { return v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w; }
} // namespace

template <int A_BLOCK>
__global__ void add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ sum, int n)
{
    const int row = blockIdx.y, end = (blockIdx.x + 1) * A_BLOCK;
    for (int i = blockIdx.x * A_BLOCK + threadIdx.x * FOUR; i < end; i += blockDim.x * FOUR) {
        if (i >= n) return;
        const float4 v = four(&a[row * n + i]), w = four(&b[row * n + i]);
        put(&sum[row * n + i], make_float4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w));
    }
}

// A row a block, which is read twice; warps' sums are added one after another. CENTRED: its mean is taken off.
template <int WIDTH, bool CENTRED>
__global__ void norm(const float *__restrict__ x, const float *__restrict__ weight, float *__restrict__ out)
{
    const int t = threadIdx.x, row = blockIdx.x;
    __shared__ float2 parts[WARPS];
    x += row * WIDTH;
    float squares = 0.0f, sum = 0.0f;
#pragma unroll
    for (int i = t * FOUR; i < WIDTH; i += blockDim.x * FOUR) {
        const float4 v = four(&x[i]);
        squares += dot(v, v);
        if (CENTRED) sum += added(v);
    }
    squares = over_lanes(squares);
    if (CENTRED) sum = over_lanes(sum);
    if (t % WARP == 0) {
        parts[t / WARP].x = squares;
        if (CENTRED) parts[t / WARP].y = sum;
    }
    __syncthreads();
    for (int other = 0; other < WARPS; ++other) {
        if (t < other) {
            parts[t].x += parts[other].x;
            if (CENTRED) parts[t].y += parts[other].y;
        }
        __syncthreads();
    }
    const float mean = CENTRED ? parts[0].y / WIDTH : 0.0f, inverse = rsqrtf(parts[0].x / WIDTH - mean * mean + 1e-6f);
#pragma unroll
    for (int i = t * FOUR; i < WIDTH; i += blockDim.x * FOUR) {
        float4 v = four(&x[i]);
        const float4 w = four(&weight[i]);
        v.x = (v.x - mean) * inverse * w.x, v.y = (v.y - mean) * inverse * w.y, v.z = (v.z - mean) * inverse * w.z, v.w = (v.w - mean) * inverse * w.w;
        put(&out[row * WIDTH + i], v);
    }
}

// Four rows a block.
template <int WIDTH>
__global__ void row_sums(const float *__restrict__ x, float *__restrict__ sums)
{
    const int t = threadIdx.x, row = blockIdx.x * FOUR;
    __shared__ float4 parts[WARPS];
    x += row * WIDTH;
    float4 sum = {0, 0, 0, 0};
#pragma unroll
    for (int i = t * FOUR; i < WIDTH; i += blockDim.x * FOUR) {
        const float4 v = four(&x[i]), w = four(&x[WIDTH + i]), y = four(&x[2 * WIDTH + i]), z = four(&x[3 * WIDTH + i]);
        sum.x += added(v), sum.y += added(w), sum.z += added(y), sum.w += added(z);
    }
    sum.x = over_lanes(sum.x), sum.y = over_lanes(sum.y), sum.z = over_lanes(sum.z), sum.w = over_lanes(sum.w);
    if (t % WARP == 0) parts[t / WARP] = sum;
    __syncthreads();
#pragma unroll
    for (int half = WARPS / 2; half != 0; half >>= 1) {
        if (t < half) parts[t].x += parts[t + half].x, parts[t].y += parts[t + half].y, parts[t].z += parts[t + half].z, parts[t].w += parts[t + half].w;
        __syncthreads();
    }
    if (t == 0) *reinterpret_cast<float4 *>(&sums[row]) = parts[0];
}

// Eight neighbours a thread, WIDTH / 8 threads a token; angles of one token's elements in shared memory.
__global__ void rotate(const __nv_bfloat16 *__restrict__ in, __nv_bfloat16 *__restrict__ out, int width, int tokens, float base)
{
    constexpr int OWN = 8, PAIRS = OWN / 2;
    extern __shared__ float frequencies[];
    const int t = threadIdx.x, across = (width + OWN - 1) / OWN, a_block = blockDim.x / across, first = blockIdx.y * a_block;
    in += blockIdx.z * tokens * width + first * width;
    out += blockIdx.z * tokens * width + first * width;
    if (t < width) frequencies[t] = powf(base, -2.0f * (t / 2) / (float)width);
    __syncthreads();
    const int token = t / across, at = t % across * OWN;
    if (token >= a_block || first + token >= tokens || at >= width) return;
    __nv_bfloat162 held[PAIRS], turned[PAIRS];
    *reinterpret_cast<int4 *>(held) = *reinterpret_cast<const int4 *>(&in[token * width + at]);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        float sine, cosine;
        __sincosf((first + token) * frequencies[at + 2 * i], &sine, &cosine);
        const float2 v = __bfloat1622float2(held[i]);
        turned[i] = __float22bfloat162_rn({v.x * cosine - v.y * sine, v.x * sine + v.y * cosine});
    }
    *reinterpret_cast<int4 *>(&out[token * width + at]) = *reinterpret_cast<int4 *>(turned);
}

namespace {
__device__ __forceinline__ void both_over_lanes(float &v, float &w)
{
    for (int apart = WARP / 2; apart > 0; apart >>= 1) {
        v += __shfl_down_sync(ALL, v, apart);
        w += __shfl_down_sync(ALL, w, apart);
    }
}
} // namespace

// A row a block; the normed row and its gradient are kept in shared memory.
__global__ void layer_norm_back(float *__restrict__ of_x, float *__restrict__ of_weight, const float *__restrict__ x, const float *__restrict__ gradient,
                                const float *__restrict__ weight, const float *__restrict__ inverse, const float *__restrict__ mean, int rows, int width)
{
    extern __shared__ float kept[];
    __shared__ float2 parts[WARP];
    const int row = blockIdx.x, t = threadIdx.x, lane = t & (WARP - 1), warp = t >> 5;
    if (row >= rows) return;
    const float share = 1.0f / (float)width, inv = inverse[row], middle = mean[row];
    float *normed = kept, *scaled = kept + width;
    of_x += (size_t)row * width, of_weight += (size_t)row * width, x += (size_t)row * width, gradient += (size_t)row * width;
    float sum = 0.0f, product = 0.0f;
    for (int i = t * FOUR; i < width; i += blockDim.x * FOUR) {
        const float4 v = four(&x[i]), g = four(&gradient[i]), w = four(&weight[i]);
        const float4 hat = {(v.x - middle) * inv, (v.y - middle) * inv, (v.z - middle) * inv, (v.w - middle) * inv};
        const float4 of = {g.x * w.x, g.y * w.y, g.z * w.z, g.w * w.w};
        put(&of_weight[i], make_float4(g.x * hat.x, g.y * hat.y, g.z * hat.z, g.w * hat.w));
        put(&normed[i], hat);
        put(&scaled[i], of);
        sum += added(of);
        product += dot(of, hat);
    }
    both_over_lanes(sum, product);
    if (lane == 0) parts[warp] = make_float2(sum, product);
    __syncthreads();
    if (warp == 0) {
        const int warps = (blockDim.x + WARP - 1) / WARP;
        float2 part = lane < warps ? parts[lane] : make_float2(0.0f, 0.0f);
        both_over_lanes(part.x, part.y);
        if (lane == 0) parts[0] = part;
    }
    __syncthreads();
    const float a = parts[0].x * share, b = parts[0].y * share;
    for (int i = t * FOUR; i < width; i += blockDim.x * FOUR) {
        const float4 hat = four(&normed[i]), of = four(&scaled[i]);
        put(&of_x[i], make_float4((of.x - a - hat.x * b) * inv, (of.y - a - hat.y * b) * inv, (of.z - a - hat.z * b) * inv, (of.w - a - hat.w * b) * inv));
    }
}

// A row a block, which is read twice. Pointers may name the same memory, as there.
__global__ void rms_norm_back(float *of_x, float *of_weight, const float *x, const float *gradient, const float *weight, const float *inverse, int rows, int width)
{
    constexpr int THREADS = WARPS * WARP;
    const int row = blockIdx.x;
    if (row >= rows) return;
    of_x += row * width, of_weight += row * width, x += row * width, gradient += row * width;
    const float inv = inverse[row];
    float product = 0.0f;
    for (int i = threadIdx.x * FOUR; i < width; i += FOUR * THREADS) {
        const float4 g = four(&gradient[i]), w = four(&weight[i]), v = four(&x[i]);
        product += g.x * w.x * v.x + g.y * w.y * v.y + g.z * w.z * v.z + g.w * w.w * v.w;
    }
    product = over_block(product);
    const float scale = product * inv * inv / (float)width;
    for (int i = threadIdx.x * FOUR; i < width; i += FOUR * THREADS) {
        const float4 v = four(&x[i]), g = four(&gradient[i]), w = four(&weight[i]);
        put(&of_x[i], make_float4((g.x * w.x - v.x * scale) * inv, (g.y * w.y - v.y * scale) * inv, (g.z * w.z - v.z * scale) * inv, (g.w * w.w - v.w * scale) * inv));
        put(&of_weight[i], make_float4(g.x * v.x * inv, g.y * v.y * inv, g.z * v.z * inv, g.w * v.w * inv));
    }
}

// A thread a matrix of 4 x 4 in place: rows, then columns are brought to a sum of one, so many times.
__global__ void sinkhorn(float *matrices, int count, int rounds, float least)
{
    const int mine = blockIdx.x * blockDim.x + threadIdx.x;
    if (mine >= count) return;
    float *m = matrices + mine * FOUR * FOUR;
    float held[FOUR];
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < FOUR; ++i) {
            *reinterpret_cast<float4 *>(held) = four(m + i * FOUR);
            const float sum = least + (held[0] + held[1] + held[2] + held[3]);
            for (int j = 0; j < FOUR; ++j) held[j] /= sum;
            put(m + i * FOUR, *reinterpret_cast<float4 *>(held));
        }
        for (int j = 0; j < FOUR; ++j) {
            const float sum = least + (m[j] + m[FOUR + j] + m[2 * FOUR + j] + m[3 * FOUR + j]);
            for (int i = 0; i < FOUR; ++i) held[i] = m[i * FOUR + j] / sum;
            for (int i = 0; i < FOUR; ++i) m[i * FOUR + j] = held[i];
        }
    }
}

namespace {
// Both floats of a pair of lanes added, as one word of 64 bits.
__device__ __forceinline__ float2 over_pair(float x, float y)
{
    const unsigned long long packed = (unsigned long long)__float_as_uint(y) << 32 | __float_as_uint(x), other = __shfl_xor_sync(ALL, packed, 1, 2);
    return make_float2(x + __uint_as_float((unsigned)other), y + __uint_as_float((unsigned)(other >> 32)));
}
__device__ __forceinline__ void scale(float4 &v, float4 by) { v.x *= by.x, v.y *= by.y, v.z *= by.z, v.w *= by.w; }
__device__ __forceinline__ float4 same(float v) { return make_float4(v, v, v, v); }
} // namespace

// Its gradient, two lanes a matrix, two rows each: forwards once more, all sums kept, then back.
template <int ROUNDS>
__global__ void sinkhorn_back(const float *__restrict__ in, const float *__restrict__ gradient, float *__restrict__ out, int count, float least)
{
    constexpr int LANES = 2, A_BLOCK = 256 / LANES;
    __shared__ float4 columns[ROUNDS][A_BLOCK];
    const int place = threadIdx.x / LANES, lane = threadIdx.x % LANES, mine = blockIdx.x * A_BLOCK + place;
    if (mine >= count) return;
    float2 rows[ROUNDS];
    const int at = mine * FOUR + lane * 2;
    float4 x0 = reinterpret_cast<const float4 *>(in)[at], x1 = reinterpret_cast<const float4 *>(in)[at + 1];
    float4 g0 = reinterpret_cast<const float4 *>(gradient)[at], g1 = reinterpret_cast<const float4 *>(gradient)[at + 1];
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        rows[round] = make_float2(added(x0) + least, added(x1) + least);
        scale(x0, same(1.0f / rows[round].x));
        scale(x1, same(1.0f / rows[round].y));
        const float2 left = over_pair(x0.x + x1.x, x0.y + x1.y), right = over_pair(x0.z + x1.z, x0.w + x1.w);
        const float4 sums = {left.x + least, left.y + least, right.x + least, right.y + least};
        if (lane == 0) columns[round][place] = sums;
        const float4 inv = {1.0f / sums.x, 1.0f / sums.y, 1.0f / sums.z, 1.0f / sums.w};
        scale(x0, inv);
        scale(x1, inv);
    }
    __syncwarp();
#pragma unroll
    for (int back = 0; back < ROUNDS; ++back) {
        const int round = ROUNDS - 1 - back;
        const float4 sums = columns[round][place];
        const float2 left = over_pair(g0.x * x0.x + g1.x * x1.x, g0.y * x0.y + g1.y * x1.y), right = over_pair(g0.z * x0.z + g1.z * x1.z, g0.w * x0.w + g1.w * x1.w);
        const float4 inv = {1.0f / sums.x, 1.0f / sums.y, 1.0f / sums.z, 1.0f / sums.w};
        g0 = make_float4((g0.x - left.x) * inv.x, (g0.y - left.y) * inv.y, (g0.z - right.x) * inv.z, (g0.w - right.y) * inv.w);
        g1 = make_float4((g1.x - left.x) * inv.x, (g1.y - left.y) * inv.y, (g1.z - right.x) * inv.z, (g1.w - right.y) * inv.w);
        scale(x0, sums);
        scale(x1, sums);
        const float first = dot(g0, x0), second = dot(g1, x1), inv0 = 1.0f / rows[round].x, inv1 = 1.0f / rows[round].y;
        g0 = make_float4((g0.x - first) * inv0, (g0.y - first) * inv0, (g0.z - first) * inv0, (g0.w - first) * inv0);
        g1 = make_float4((g1.x - second) * inv1, (g1.y - second) * inv1, (g1.z - second) * inv1, (g1.w - second) * inv1);
        scale(x0, same(rows[round].x));
        scale(x1, same(rows[round].y));
    }
    reinterpret_cast<float4 *>(out)[at] = g0;
    reinterpret_cast<float4 *>(out)[at + 1] = g1;
}

namespace {
struct Peak {
    float most, sum;
};
__device__ __forceinline__ Peak joined(Peak a, Peak b)
{
    const float most = fmaxf(a.most, b.most);
    return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}
__device__ __forceinline__ Peak over_lanes(Peak p)
{
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart >>= 1) p = joined(p, {__shfl_xor_sync(ALL, p.most, apart), __shfl_xor_sync(ALL, p.sum, apart)});
    return p;
}
} // namespace

// A row a block of 32 warps: the largest and the sum of powers in one go.
__global__ void cross_entropy(const float *__restrict__ logits, const int *__restrict__ labels, float *__restrict__ loss, int rows, int width)
{
    __shared__ Peak parts[WARP];
    const int row = blockIdx.x;
    if (row >= rows) return;
    logits += (size_t)row * width;
    Peak peak = {__int_as_float(0xff800000), 0.0f};
    for (int i = threadIdx.x * FOUR; i < width; i += blockDim.x * FOUR) {
        const float4 v = four(&logits[i]);
        const float most = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        peak = joined(peak, {most, __expf(v.x - most) + __expf(v.y - most) + __expf(v.z - most) + __expf(v.w - most)});
    }
    peak = over_lanes(peak);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = peak;
    __syncthreads();
    peak = over_lanes(parts[threadIdx.x % WARP]);
    if (threadIdx.x == 0) loss[row] = -logits[labels[row]] + __logf(peak.sum) + peak.most;
}
