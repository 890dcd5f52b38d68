// Written after the exercises of a course on CUDA (github.com/olcf/cuda-training-series, homeworks 3 to 5): a sum of two arrays by any grid, sums of a square matrix' rows and columns by a thread each, and sums of
// an array by atomics alone, by shared memory and by shuffles. Lengths are arguments here, constants there.

constexpr int threads = 256;

extern "C" __global__ void added(const float *a, const float *b, float *c, int count) {
    for (int i = threadIdx.x + blockDim.x * blockIdx.x; i < count; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}

// `of`: how many elements of a row or column are summed, all of them but for a run to some depth.
extern "C" __global__ void of_rows(const float *matrix, float *sums, size_t side, size_t of) {
    const int row = threadIdx.x + blockDim.x * blockIdx.x;
    if (row < side) {
        float sum = 0.0f;
        for (size_t i = 0; i < of; i++) sum += matrix[row * side + i];
        sums[row] = sum;
    }
}

extern "C" __global__ void of_columns(const float *matrix, float *sums, size_t side, size_t of) {
    const int column = threadIdx.x + blockDim.x * blockIdx.x;
    if (column < side) {
        float sum = 0.0f;
        for (size_t i = 0; i < of; i++) sum += matrix[column + side * i];
        sums[column] = sum;
    }
}

extern "C" __global__ void by_atomics(const float *data, float *out, size_t count) {
    const size_t i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < count) atomicAdd(out, data[i]);
}

extern "C" __global__ void by_tree(const float *data, float *out, size_t count) {
    __shared__ float kept[threads];
    const int thread = threadIdx.x;
    kept[thread] = 0.0f;
    for (size_t i = threadIdx.x + blockDim.x * blockIdx.x; i < count; i += gridDim.x * blockDim.x) kept[thread] += data[i];
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (thread < half) kept[thread] += kept[thread + half];
    }
    if (thread == 0) atomicAdd(out, kept[0]);
}

extern "C" __global__ void by_shuffles(const float *data, float *out, size_t count) {
    __shared__ float kept[32];
    const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    float sum = 0.0f;
    for (size_t i = threadIdx.x + blockDim.x * blockIdx.x; i < count; i += gridDim.x * blockDim.x) sum += data[i];
    for (int apart = warpSize / 2; apart > 0; apart >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, apart);
    if (lane == 0) kept[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = threadIdx.x < blockDim.x / warpSize ? kept[lane] : 0.0f;
        for (int apart = warpSize / 2; apart > 0; apart >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, apart);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
