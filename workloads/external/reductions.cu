// The sum of a float array by the rungs of a well-known ladder, after its description: a block leaves one partial sum. EACH: elements a
// thread adds before the block does; 256 threads a block.
constexpr unsigned BLOCK = 256, WARP = 32;

// 0: neighbours first, the distance doubles, threads whose number divides by it work. 1: the same sums by the block's first threads.
// 2: the far half first, so that neither lanes diverge nor banks conflict.
template <int RUNG>
__global__ void tree(const float *from, float *to)
{
    __shared__ float held[BLOCK];
    const unsigned t = threadIdx.x;
    held[t] = from[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (RUNG == 2) {
        for (unsigned step = blockDim.x / 2; step > 0; step >>= 1) {
            if (t < step) held[t] += held[t + step];
            __syncthreads();
        }
    } else {
        for (unsigned step = 1; step < blockDim.x; step *= 2) {
            if (RUNG == 0) {
                if (t % (2 * step) == 0) held[t] += held[t + step];
            } else {
                const unsigned at = 2 * step * t;
                if (at < blockDim.x) held[at] += held[at + step];
            }
            __syncthreads();
        }
    }
    if (t == 0) to[blockIdx.x] = held[0];
}

__device__ void last_warp(volatile float *held, unsigned t)
{
    held[t] += held[t + 32];
    held[t] += held[t + 16];
    held[t] += held[t + 8];
    held[t] += held[t + 4];
    held[t] += held[t + 2];
    held[t] += held[t + 1];
}

// 3: two elements a thread. 4: and the last warp without barriers. 5: and no loop at all. 6: and many elements a thread.
template <int RUNG, int EACH>
__global__ void many(const float *from, float *to)
{
    __shared__ float held[BLOCK];
    const unsigned t = threadIdx.x, first = blockIdx.x * (blockDim.x * EACH) + t;
    if (RUNG == 6) {
        held[t] = 0;
        #pragma unroll
        for (int i = 0; i < EACH; ++i) held[t] += from[first + i * BLOCK];
    } else {
        held[t] = from[first] + from[first + blockDim.x];
    }
    __syncthreads();
    if (RUNG == 3 || RUNG == 4) {
        for (unsigned step = blockDim.x / 2; step > (RUNG == 3 ? 0 : 32); step >>= 1) {
            if (t < step) held[t] += held[t + step];
            __syncthreads();
        }
    } else {
        if (t < 128) held[t] += held[t + 128];
        __syncthreads();
        if (t < 64) held[t] += held[t + 64];
        __syncthreads();
    }
    if (RUNG != 3 && t < 32) last_warp(held, t);
    if (t == 0) to[blockIdx.x] = held[0];
}

template <unsigned FROM>
__device__ float over_lanes(float sum)
{
    #pragma unroll
    for (unsigned step = FROM / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    return sum;
}

// 7: a warp's sum by shuffles, then the block's from shared memory.
template <int EACH>
__global__ void shuffled(const float *from, float *to, unsigned)
{
    const unsigned t = threadIdx.x, first = blockIdx.x * (BLOCK * EACH) + t;
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < EACH; ++i) sum += from[first + i * BLOCK];
    __shared__ float of_warps[WARP];
    const unsigned lane = t % WARP, warp = t / WARP;
    sum = over_lanes<WARP>(sum);
    if (lane == 0) of_warps[warp] = sum;
    __syncthreads();
    sum = t < blockDim.x / WARP ? of_warps[lane] : 0;
    if (warp == 0) sum = over_lanes<BLOCK / WARP>(sum);
    if (t == 0) to[blockIdx.x] = sum;
}

// 8: four elements a load, as many blocks as are resident, each going over the array in strides of the grid.
__global__ void packed(const float *from, float *to, unsigned n)
{
    const float4 *fours = reinterpret_cast<const float4 *>(from);
    float4 sums = make_float4(0, 0, 0, 0);
    for (int i = blockDim.x * blockIdx.x + threadIdx.x; i < n / 4; i += blockDim.x * gridDim.x) {
        const float4 four = fours[i];
        sums.x += four.x, sums.y += four.y, sums.z += four.z, sums.w += four.w;
    }
    __shared__ float of_warps[WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float sum = over_lanes<WARP>(((sums.x + sums.y) + sums.z) + sums.w);
    __syncthreads();
    if (lane == 0) of_warps[warp] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / WARP ? of_warps[lane] : 0;
    if (warp == 0) sum = over_lanes<WARP>(sum);
    if (threadIdx.x == 0) to[blockIdx.x] = sum;
}
