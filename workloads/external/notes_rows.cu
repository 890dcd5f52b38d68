// RMS norm, layer norm and softmax of the rows of a matrix, a block a row, after the descriptions of a collection of notes on CUDA. A thread has
// EACH neighbouring elements of type T, that it reads and writes as words of type Word; sums are of type Sum. `count`: elements of the matrix.
#include <cuda_fp16.h>

namespace {
constexpr int LANES = 32;
constexpr float LEAST = -3.402823466e+38f;

struct Added {
    template <typename V> __device__ V operator()(V x, V y) const { return x + y; }
};
struct Greater {
    __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};

template <int WIDTH, typename V, typename Join>
__device__ __forceinline__ V of_lanes(V value, Join join)
{
    #pragma unroll
    for (int step = WIDTH >> 1; step >= 1; step >>= 1) value = join(value, __shfl_xor_sync(0xffffffff, value, step));
    return value;
}

// One value of the whole block, which every warp joins for itself; the first lane that holds it hands it out where SPREAD.
template <int THREADS, bool SPREAD, typename V, typename Join>
__device__ __forceinline__ V of_block(V value, V none, Join join)
{
    constexpr int WARPS = (THREADS + LANES - 1) / LANES;
    static __shared__ V of_warps[WARPS];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    value = of_lanes<LANES>(value, join);
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    value = lane < WARPS ? of_warps[lane] : none;
    value = of_lanes<WARPS>(value, join);
    return SPREAD ? __shfl_sync(0xffffffff, value, 0, LANES) : value;
}

template <typename T, typename Word, int EACH>
struct Elements {
    static constexpr int A_WORD = sizeof(Word) / sizeof(T), WORDS = EACH / A_WORD;
    static constexpr bool IS_PACKED = WORDS == 1 && EACH == 8;
    alignas(16) T at[EACH];

    __device__ void read(T *from, int first, int count)
    {
        if (EACH == 1 && first >= count) {
            at[0] = T(0.0f);
            return;
        }
        #pragma unroll
        for (int i = 0; i < WORDS; ++i) reinterpret_cast<Word *>(at)[i] = reinterpret_cast<Word *>(from + first)[i];
    }

    // Whether element i counts: its own place is looked at where all are one word of 16 bytes, else that of its word.
    static __device__ bool has(int i, int first, int count) { return first + (IS_PACKED ? i : i / A_WORD * A_WORD) < count; }

    __device__ void write(T *to, int first, int count) const
    {
        #pragma unroll
        for (int i = 0; i < WORDS; ++i)
            if (first + (IS_PACKED ? EACH - 1 : i * A_WORD) < count)
                reinterpret_cast<Word *>(to + first)[i] = reinterpret_cast<const Word *>(at)[i];
    }

    // The sum over this thread's elements of what `of` makes of each, word by word.
    template <typename Sum, typename Of>
    __device__ Sum sum(int first, int count, Of of) const
    {
        Sum all = Sum(0.0f);
        #pragma unroll
        for (int word = 0; word < (IS_PACKED ? EACH : WORDS); ++word) {
            const int begin = IS_PACKED ? word : word * A_WORD, end = IS_PACKED ? word + 1 : begin + A_WORD;
            Sum mine = of(at[begin]);
            #pragma unroll
            for (int i = begin + 1; i < end; ++i) mine += of(at[i]);
            all += has(begin, first, count) ? mine : Sum(0.0f);
        }
        return all;
    }
};

__device__ float inverse_root(float sum, int columns) { return rsqrtf(sum / ((float)columns + 1e-5f)); }
__device__ half inverse_root(half sum, int columns) { return hrsqrt(sum / (__int2half_rn(columns) + __float2half(1e-5f))); }
__device__ float share(float sum, int columns) { return sum / (float)columns; }
__device__ half share(half sum, int columns) { return sum / __int2half_rn(columns); }
__device__ float scaled(float x, float scale, float bias) { return __fmaf_rn(x, scale, bias); }
__device__ half scaled(half x, half scale, half bias) { return __hfma(x, scale, bias); }
}  // namespace

template <typename T, typename Word, int EACH, typename Sum, int THREADS>
__global__ void rms_norm(T *from, T *to, float scale, int rows, int columns)
{
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * EACH, count = rows * columns;
    __shared__ Sum root;
    Elements<T, Word, EACH> held, made;
    held.read(from, first, count);
    Sum sum = held.template sum<Sum>(first, count, [](T x) { return Sum(x) * Sum(x); });
    sum = of_block<THREADS, false>(sum, Sum(0.0f), Added());
    if (threadIdx.x == 0) root = inverse_root(sum, columns);
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < EACH; ++i) made.at[i] = T(Sum(held.at[i]) * root * Sum(scale));
    made.write(to, first, count);
}

template <typename T, typename Word, int EACH, typename Sum, int THREADS>
__global__ void layer_norm(T *from, T *to, float scale, float bias, int rows, int columns)
{
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * EACH, count = rows * columns;
    __shared__ Sum mean, root;
    Elements<T, Word, EACH> held, made;
    held.read(from, first, count);
    Sum sum = held.template sum<Sum>(first, count, [](T x) { return Sum(x); });
    sum = of_block<THREADS, false>(sum, Sum(0.0f), Added());
    if (threadIdx.x == 0) mean = share(sum, columns);
    __syncthreads();
    sum = held.template sum<Sum>(first, count, [&](T x) { return (Sum(x) - mean) * (Sum(x) - mean); });
    sum = of_block<THREADS, false>(sum, Sum(0.0f), Added());
    if (threadIdx.x == 0) root = inverse_root(sum, columns);
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < EACH; ++i) made.at[i] = T(scaled((Sum(held.at[i]) - mean) * root, Sum(scale), Sum(bias)));
    made.write(to, first, count);
}

// SAFE: less the row's greatest value; single floats are then read a second time behind the barrier.
template <typename T, typename Word, int EACH, bool SAFE, int THREADS>
__global__ void softmax(T *from, T *to, int count)
{
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * EACH;
    Elements<T, Word, EACH> held, made;
    held.read(from, first, count);
    float most = LEAST;
    if (SAFE) {
        #pragma unroll
        for (int i = 0; i < EACH; ++i) most = held.IS_PACKED || first + i < count ? fmaxf(float(held.at[i]), most) : LEAST;
        most = of_block<THREADS, true>(most, LEAST, Greater());
    }
    if (SAFE && sizeof(T) == 4 && EACH == 1) held.read(from, first, count);
    float powers[EACH], sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        powers[i] = first + i < count ? expf(SAFE ? float(held.at[i]) - most : float(held.at[i])) : 0.0f;
        sum += powers[i];
    }
    sum = of_block<THREADS, true>(sum, 0.0f, Added());
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        // Eight halves in a word raise their elements again.
        const float power = held.IS_PACKED ? expf(float(held.at[i]) - most) : powers[i];
        made.at[i] = T(power / sum);
    }
    made.write(to, first, count);
}

struct __align__(8) Online { float most, sum; };

template <int WIDTH>
__device__ __forceinline__ Online online_of_lanes(Online mine)
{
    #pragma unroll
    for (int step = WIDTH >> 1; step >= 1; step >>= 1) {
        Online other;
        other.most = __shfl_xor_sync(0xffffffff, mine.most, step);
        other.sum = __shfl_xor_sync(0xffffffff, mine.sum, step);
        const bool is_greater = mine.most > other.most;
        const Online high = is_greater ? mine : other, low = is_greater ? other : mine;
        mine.sum = high.sum + low.sum * __expf(low.most - high.most);
        mine.most = high.most;
    }
    return mine;
}

// Greatest value and sum of powers in one pass.
template <int THREADS>
__global__ void online_softmax(const float *from, float *to, int count)
{
    constexpr int WARPS = THREADS / LANES;
    const int i = blockIdx.x * THREADS + threadIdx.x, warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    __shared__ Online of_warps[WARPS];
    Online mine;
    mine.most = i < count ? from[i] : LEAST;
    mine.sum = i < count ? 1.0f : 0.0f;
    mine = online_of_lanes<LANES>(mine);
    if (lane == 0) of_warps[warp] = mine;
    __syncthreads();
    if (threadIdx.x < LANES) {
        Online all = of_warps[threadIdx.x % WARPS];
        all = online_of_lanes<WARPS>(all);
        if (threadIdx.x == 0) of_warps[0] = all;
    }
    __syncthreads();
    const Online all = of_warps[0];
    const float inverse = __fdividef(1.0f, all.sum);
    if (i < count) to[i] = __expf(from[i] - all.most) * inverse;
}
