// Fifteen small kernels, one an access pattern, after the description of a data set of timings on four GPUs.
constexpr int SIDE = 32, BINS = 256;

__global__ void scaled_add(float by, const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = by * a[i] + b[i];
}

__global__ void plain_add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Even lanes also sum 128 constants, which the compiler leaves to the conversion unit.
__global__ void divergent_add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i & 1) {
        c[i] = a[i] + b[i];
    } else {
        float sum = 0.0f;
        #pragma unroll 16
        for (int step = 0; step < 128; ++step) sum += 0.0001f * step;
        c[i] = a[i] + b[i] + sum;
    }
}

// One float of eight: a sector a lane.
__global__ void copy_by_eights(const float *__restrict__ from, float *__restrict__ to, int n)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i < n) to[i] = from[i];
}

__global__ void gathered(const float *__restrict__ from, const int *__restrict__ places, float *__restrict__ to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[places[i]];
}

__global__ void turned_plain(const float *__restrict__ from, float *__restrict__ to, int rows, int columns)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns) to[column * rows + row] = from[row * columns + column];
}

__global__ void turned_by_tiles(const float *__restrict__ from, float *__restrict__ to, int rows, int columns)
{
    __shared__ float tile[SIDE][SIDE + 1];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = from[y * columns + x];
    __syncthreads();
    x = blockIdx.y * SIDE + threadIdx.x;
    y = blockIdx.x * SIDE + threadIdx.y;
    if (x < rows && y < columns) to[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

// Filters of one colour without a border: WIDE x WIDE products an output. UNROLLED: told to the compiler.
template <int WIDE, bool UNROLLED>
__global__ void filtered(const float *__restrict__ image, const float *__restrict__ filter, float *__restrict__ to, int rows, int columns)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns - (WIDE - 1) || y >= rows - (WIDE - 1)) return;
    float sum = 0.0f;
    if (UNROLLED) {
        #pragma unroll
        for (int v = 0; v < WIDE; ++v)
            #pragma unroll
            for (int u = 0; u < WIDE; ++u) sum += image[(y + v) * columns + (x + u)] * filter[v * WIDE + u];
    } else {
        for (int v = 0; v < WIDE; ++v)
            for (int u = 0; u < WIDE; ++u) sum += image[(y + v) * columns + (x + u)] * filter[v * WIDE + u];
    }
    to[y * columns + x] = sum;
}

// A block's sum by halves in shared memory; every thread begins with two values, or with two products of two arrays.
__device__ void by_halves(float own, float *to)
{
    extern __shared__ float held[];
    const int t = threadIdx.x;
    held[t] = own;
    __syncthreads();
    for (int step = blockDim.x >> 1; step > 0; step >>= 1) {
        if (t < step) held[t] += held[t + step];
        __syncthreads();
    }
    if (t == 0) to[blockIdx.x] = held[0];
}

__global__ void sum_of_two(const float *__restrict__ from, float *__restrict__ to, int n)
{
    const int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float own = 0.0f;
    if (i < n) own += from[i];
    if (i + blockDim.x < n) own += from[i + blockDim.x];
    by_halves(own, to);
}

__global__ void inner_of_two(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ to, int n)
{
    const int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float own = 0.0f;
    if (i < n) own += a[i] * b[i];
    if (i + blockDim.x < n) own += a[i + blockDim.x] * b[i + blockDim.x];
    by_halves(own, to);
}

// Counts in shared memory, which every block adds to all global bins.
__global__ void counted(const unsigned *__restrict__ values, int n, unsigned *__restrict__ bins)
{
    extern __shared__ unsigned own[];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&own[values[i] & (BINS - 1)], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}

// All threads add to one word, so many times.
__global__ void one_word(unsigned *__restrict__ word, int turns)
{
    for (int turn = 0; turn < turns; ++turn) atomicAdd(word, 1u);
}

// Products of square matrices of n, summed over the first `depth`: a thread an output.
__global__ void product_plain(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int depth)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

__global__ void product_by_tiles(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int depth)
{
    __shared__ float left[SIDE][SIDE], right[SIDE][SIDE];
    const int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < depth; step += SIDE) {
        left[threadIdx.y][threadIdx.x] = row < n && step + threadIdx.x < n ? a[row * n + (step + threadIdx.x)] : 0.0f;
        right[threadIdx.y][threadIdx.x] = step + threadIdx.y < n && column < n ? b[(step + threadIdx.y) * n + column] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < SIDE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
