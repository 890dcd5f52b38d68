// Sums of 4 Mi integers, matrices of 4096 x 4096 integers turned, and filters of 7 x 7 over 512 x 512 floats, written after the description of ladders that others profiled
// (github.com/Sha-x2-nk: Reduction-CUDA, MatrixTranspose-CUDA, Convolution-CUDA).
constexpr int THREADS = 256, WARP = 32;

// Sums of a block of 256 threads, which leaves one. In global memory, in place, neighbours first: threads whose number divides by twice the distance work.
__global__ void sum_in_place(int *from, int *to, int size)
{
    const int t = threadIdx.x, at = blockIdx.x * blockDim.x + t;
    if (at < size) {
        for (int step = 1; step < blockDim.x; step *= 2) {
            if (t % (2 * step) == 0 && at + step < size) from[at] = from[at] + from[at + step];
            __syncthreads();
        }
        if (t == 0) to[blockIdx.x] = from[at];
    }
}

// The same in shared memory (0), by the block's first threads (1), and with the far half first (2).
template <int RUNG>
__global__ void sum_held(int *from, int *to, int size)
{
    __shared__ int held[THREADS];
    const int t = threadIdx.x, at = blockIdx.x * blockDim.x + t;
    held[t] = at < size ? from[at] : 0;
    __syncthreads();
    if (RUNG == 2) {
        for (int step = blockDim.x / 2; step > 0; step /= 2) {
            if (t < step) held[t] += held[t + step];
            __syncthreads();
        }
    } else {
        for (int step = 1; step < blockDim.x; step *= 2) {
            const int first = 2 * step * t;
            if (RUNG == 0 && t % (2 * step) == 0) held[t] += held[t + step];
            if (RUNG == 1 && first < blockDim.x) held[first] += held[first + step];
            __syncthreads();
        }
    }
    if (t == 0) to[blockIdx.x] = held[0];
}

__device__ void sum_of_a_warp(volatile int *held, int t)
{
    held[t] += held[t + 32];
    held[t] += held[t + 16];
    held[t] += held[t + 8];
    held[t] += held[t + 4];
    held[t] += held[t + 2];
    held[t] += held[t + 1];
}

// Two elements a thread (0), the last warp without barriers (1), no loop at all (2).
template <int RUNG>
__global__ void sum_of_two(int *from, int *to, int size)
{
    __shared__ int held[THREADS];
    const int t = threadIdx.x, at = blockIdx.x * blockDim.x * 2 + t, apart = RUNG == 2 ? THREADS : blockDim.x;
    held[t] = (at < size ? from[at] : 0) + (at + apart < size ? from[at + apart] : 0);
    __syncthreads();
    if (RUNG == 2) {
        if (t < 128) held[t] += held[t + 128];
        __syncthreads();
        if (t < 64) held[t] += held[t + 64];
        __syncthreads();
    } else {
        for (int step = blockDim.x / 2; step > (RUNG == 0 ? 0 : WARP); step /= 2) {
            if (t < step) held[t] += held[t + step];
            __syncthreads();
        }
    }
    if (RUNG > 0 && t < WARP) sum_of_a_warp(held, t);
    if (t == 0) to[blockIdx.x] = held[0];
}

// And a few blocks that go over the array in strides of the grid, whose sums stay in shared memory as they grow.
__global__ void sum_in_strides(int *from, int *to, int size)
{
    __shared__ int held[THREADS];
    const int t = threadIdx.x, stride = THREADS * 2 * gridDim.x;
    int at = blockIdx.x * THREADS * 2 + t;
    held[t] = 0;
    while (at < size) {
        held[t] += from[at] + (at + THREADS < size ? from[at + THREADS] : 0);
        at += stride;
    }
    __syncthreads();
    if (t < 128) held[t] += held[t + 128];
    __syncthreads();
    if (t < 64) held[t] += held[t + 64];
    __syncthreads();
    if (t < WARP) sum_of_a_warp(held, t);
    if (t == 0) to[blockIdx.x] = held[0];
}

// Tiles of 32 x 32 by 32 x 8 threads: copied, and turned without shared memory.
template <bool TURNED>
__global__ void moved(int *from, int *to, int rows, int columns)
{
    const int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (column < columns) {
        if (TURNED) {
            for (int i = 0; row + i < rows && i < 32; i += 8) to[column * rows + row + i] = from[(row + i) * columns + column];
        } else {
            for (int i = 0; row < rows && i < 32; i += 8) to[(row + i) * columns + column] = from[(row + i) * columns + column];
        }
    }
}

// Turned through shared memory, where the integers are held as floats.
template <int PAD>
__global__ void turned_by_tiles(int *from, int *to, int rows, int columns)
{
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (y + i < rows && x < columns) tile[threadIdx.y + i][threadIdx.x] = from[(y + i) * columns + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (y + i < columns && x < rows) to[(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}

constexpr int SIDE = 512, RADIUS = 3, WIDE = 2 * RADIUS + 1;
__constant__ float weights[WIDE * WIDE];

// A weighted sum of neighbours that is kept in the result as it grows. DOWN: consecutive lanes go down a column.
template <bool DOWN>
__device__ void filter(const float *from, const float *by, float *to)
{
    const int along = blockIdx.x * blockDim.x + threadIdx.x, across = blockIdx.y * blockDim.y + threadIdx.y;
    const int row = DOWN ? along : across, column = DOWN ? across : along;
    for (int r = -RADIUS; r <= RADIUS; ++r)
        for (int c = -RADIUS; c <= RADIUS; ++c)
            if (row + r >= 0 && row + r < SIDE && column + c >= 0 && column + c < SIDE)
                to[row * SIDE + column] += from[(row + r) * SIDE + column + c] * by[(RADIUS + r) * WIDE + RADIUS + c];
}

__global__ void filter_down(float *from, float *by, float *to) { filter<true>(from, by, to); }
__global__ void filter_along(float *from, float *by, float *to) { filter<false>(from, by, to); }
__global__ void filter_constant(float *from, float *to) { filter<false>(from, weights, to); }
