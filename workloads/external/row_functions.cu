// Softmax and layer norm of the rows (or columns) of a matrix of floats, after the descriptions of a ladder for teaching and of a training program.
constexpr int LANES = 32;
constexpr float LEAST = -3.402823466e+38f;

template <bool MOST>
__device__ float joined(float x, float y) { return MOST ? fmaxf(x, y) : x + y; }

// One value for the whole block. SPREAD: the first warp joins what the warps have, and all read the result; else every thread joins it itself.
template <bool MOST, bool SPREAD>
__device__ float of_block(float value)
{
    __shared__ float of_warps[LANES], of_all;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const float none = MOST ? LEAST : 0.0f;
    #pragma unroll
    for (int step = LANES >> 1; step > 0; step >>= 1)
        value = joined<MOST>(value, SPREAD ? __shfl_down_sync(0xffffffff, value, step) : __shfl_xor_sync(0xffffffff, value, step));
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    if (SPREAD) {
        if (warp == 0) {
            value = lane < warps ? of_warps[lane] : none;
            #pragma unroll
            for (int step = LANES >> 1; step > 0; step >>= 1) value = joined<MOST>(value, __shfl_down_sync(0xffffffff, value, step));
            if (lane == 0) of_all = value;
        }
        __syncthreads();
        return of_all;
    }
    if (warps > 1) {
        value = none;
        for (int i = 0; i < warps; ++i) value = joined<MOST>(value, of_warps[i]);
    }
    return value;
}

// A block a row; BY_COLUMN: a block a column. Three passes over global memory.
template <bool BY_COLUMN, bool SPREAD>
__global__ void softmax(float *from, float *to, int rows, int columns)
{
    const int length = BY_COLUMN ? rows : columns, other = blockIdx.x, turns = (length + blockDim.x - 1) / blockDim.x;
    if (other >= (BY_COLUMN ? columns : rows)) return;
    const auto place = [&](int i) { return BY_COLUMN ? i * columns + other : other * columns + i; };
    float most = LEAST;
    for (int turn = 0; turn < turns; ++turn) {
        const int i = turn * blockDim.x + threadIdx.x;
        if (i < length) most = fmaxf(most, from[place(i)]);
    }
    most = of_block<true, SPREAD>(most);
    float sum = 0.0f;
    for (int turn = 0; turn < turns; ++turn) {
        const int i = turn * blockDim.x + threadIdx.x;
        if (i < length) sum += expf(from[place(i)] - most);
    }
    sum = of_block<false, SPREAD>(sum);
    for (int turn = 0; turn < turns; ++turn) {
        const int i = turn * blockDim.x + threadIdx.x;
        if (i < length) to[place(i)] = expf(from[place(i)] - most) / sum;
    }
}

__device__ float over_lanes(float sum)
{
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    return sum;
}

// A warp a row, by vectors of four; weights, biases and the row in shared memory. SQUARES: the variance from the mean of the squares, in one pass.
template <bool SQUARES>
__global__ void layer_norm(
    float *__restrict__ to, float *__restrict__ mean, float *__restrict__ scale, const float *__restrict__ from,
    const float *__restrict__ weight, const float *__restrict__ bias, int rows, int columns)
{
    extern __shared__ float4 held[];
    float4 *weights = held, *biases = held + columns / 4, *values = held + (2 + threadIdx.y) * columns / 4;
    for (int i = (threadIdx.x + LANES * threadIdx.y) * 4; i < columns; i += blockDim.y * LANES * 4) {
        weights[i / 4] = *reinterpret_cast<const float4 *>(weight + i);
        biases[i / 4] = *reinterpret_cast<const float4 *>(bias + i);
    }
    __syncthreads();
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    from += row * columns;
    to += row * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x * 4; i < columns; i += LANES * 4) {
        const float4 four = __ldcs(reinterpret_cast<const float4 *>(from + i));
        sum += four.x + four.y + four.z + four.w;
        if (SQUARES) squares += four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
        values[i / 4] = four;
    }
    const float middle = over_lanes(sum) / columns;
    float variance = 0.0f;
    if (SQUARES) {
        variance = over_lanes(squares) / columns - middle * middle;
    } else {
        for (int i = threadIdx.x * 4; i < columns; i += LANES * 4) {
            const float4 four = values[i / 4];
            variance += (four.x - middle) * (four.x - middle) + (four.y - middle) * (four.y - middle);
            variance += (four.z - middle) * (four.z - middle) + (four.w - middle) * (four.w - middle);
        }
        variance = over_lanes(variance) / columns;
    }
    const float root = rsqrtf(variance + 1e-5f);
    for (int i = threadIdx.x * 4; i < columns; i += LANES * 4) {
        const float4 four = values[i / 4], w = weights[i / 4], b = biases[i / 4];
        float4 out;
        out.x = root * (four.x - middle) * w.x + b.x;
        out.y = root * (four.y - middle) * w.y + b.y;
        out.z = root * (four.z - middle) * w.z + b.z;
        out.w = root * (four.w - middle) * w.w + b.w;
        __stcs(reinterpret_cast<float4 *>(to + i), out);
    }
    if (threadIdx.x == 0) {
        __stcs(mean + row, middle);
        __stcs(scale + row, root);
    }
}
