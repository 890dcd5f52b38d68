// Sums of float arrays and of the rows of matrices, after the descriptions of two ladders for teaching.
constexpr unsigned LANES = 32;

__device__ float down_lanes(float sum)
{
    for (unsigned step = LANES / 2; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffff, sum, step);
    return sum;
}

// An element a thread, the far half of the block first. ATOMIC: one sum for all blocks.
template <bool ATOMIC>
__global__ void halves(const float *from, float *to, int n)
{
    extern __shared__ float held[];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    held[t] = i < n ? from[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x >> 1; step > 0; step >>= 1) {
        if (t < step) held[t] += held[t + step];
        __syncthreads();
    }
    if (t != 0) return;
    if (ATOMIC) atomicAdd(to, held[0]);
    else to[blockIdx.x] = held[0];
}

// Over lanes, then over warps. EACH: elements a thread, of one load.
template <int EACH>
__global__ void lanes_first(const float *from, float *to, int n)
{
    __shared__ float of_warps[LANES];
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * EACH, warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float sum = 0.0f;
    if (i < n) {
        if (EACH == 4) {
            const float4 four = *reinterpret_cast<const float4 *>(&from[i]);
            sum = four.x + four.y + four.z + four.w;
        } else {
            sum = from[i];
        }
    }
    sum = down_lanes(sum);
    if (lane == 0) of_warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / LANES ? of_warps[lane] : 0.0f;
        sum = down_lanes(sum);
        if (lane == 0) to[blockIdx.x] = sum;
    }
}

// In strides of the grid. FIRST: over lanes before shared memory; else shared memory by halves, without a loop, and the last warp by exchanges.
template <bool FIRST, bool VECTOR>
__global__ void strided(float *values, int n)
{
    __shared__ float held[256];
    const int t = threadIdx.x;
    float sum = 0.0f;
    if (VECTOR) {
        const int i = 4 * (256 * blockIdx.x + t);
        if (i < n - 4) {
            const float4 four = *reinterpret_cast<float4 *>(&values[i]);
            sum = four.x + four.y + four.z + four.w;
        } else {
            for (int j = i; j < n; ++j) sum += values[j];
        }
    } else {
        for (int i = 256 * blockIdx.x + t; i < n; i += 256 * gridDim.x) sum += values[i];
    }
    if (FIRST) {
        for (int mask = 16; mask >= 1; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
        if (t % LANES == 0) held[t / LANES] = sum;
        __syncthreads();
        if (t < 32) {
            sum = t < 8 ? held[t] : 0.0f;
            for (int mask = 4; mask >= 1; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
        }
    } else {
        held[t] = sum;
        __syncthreads();
        if (t < 128) held[t] = sum = sum + held[t + 128];
        __syncthreads();
        if (t < 64) held[t] = sum = sum + held[t + 64];
        __syncthreads();
        if (t < 32) held[t] = sum = sum + held[t + 32];
        __syncthreads();
        if (t < 32)
            for (int mask = 16; mask >= 1; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    }
    if (t == 0) values[blockIdx.x] = sum;
}

// Of rows: a thread a row, with the error carried along.
__global__ void row_a_thread(const float *from, float *to, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    from += row * columns;
    float sum = 0.0f, error = 0.0f;
    for (int column = 0; column < columns; ++column) {
        const float item = from[column] - error, next = sum + item;
        error = next - sum - item;
        sum = next;
    }
    to[row] = sum;
}

// Of rows: a block a stretch of a row. LAST: how the last warp adds: 0 as all others, 1 volatile, 2 with __syncwarp, 3 by exchanges. VECTOR: four a load.
template <int LAST, bool VECTOR>
__global__ void stretch(const float *from, float *to, int rows, int columns, int length)
{
    extern __shared__ float held[];
    const int t = threadIdx.x, threads = blockDim.x, left = columns - blockIdx.x * length;
    from += blockIdx.y * columns + blockIdx.x * length;
    float sum = 0.0f;
    if (VECTOR) {
        for (int i = t * 4; i < length; i += threads * 4)
            if (i < left) {
                const float4 four = *reinterpret_cast<const float4 *>(&from[i]);
                sum += four.x + four.y + four.z + four.w;
            }
    } else {
        for (int i = t; i < length; i += threads)
            if (i < left) sum += from[i];
    }
    held[t] = sum;
    __syncthreads();
    for (int step = threads / 2; step >= (LAST == 0 ? 1 : 32); step /= 2) {
        if (t < step) held[t] += held[t + step];
        __syncthreads();
    }
    if (LAST == 0) sum = held[0];
    if (LAST != 0 && t < 32) {
        if (LAST == 1) {
            volatile float *seen = held;
            for (int step = 16; step > 0; step /= 2) seen[t] += seen[t + step];
            sum = seen[t];
        } else if (LAST == 2) {
            for (int step = 16; step > 0; step /= 2) {
                held[t] += held[t + step];
                __syncwarp();
            }
            sum = held[t];
        } else {
            sum = down_lanes(held[t]);
        }
    }
    if (t == 0) atomicAdd(to + blockIdx.y, sum);
}
