// Convolution with a K x K filter that is passed by value (constant memory); a tile with its halo is in shared memory.
template <int K>
struct Filter { float weights[K][K]; };

template <int K, int TX, int TY, int PER_THREAD>
__global__ void __launch_bounds__(TX * TY) conv2d(const float *__restrict__ in, float *__restrict__ out, int height, int width, const __grid_constant__ Filter<K> filter)
{
    constexpr int R = K / 2, ROWS = TY * PER_THREAD;
    __shared__ float tile[ROWS + 2 * R][TX + 2 * R];
    const int left = blockIdx.x * TX - R, top = blockIdx.y * ROWS - R;
    for (int at = threadIdx.y * TX + threadIdx.x; at < (ROWS + 2 * R) * (TX + 2 * R); at += TX * TY) {
        const int y = top + at / (TX + 2 * R), x = left + at % (TX + 2 * R);
        tile[at / (TX + 2 * R)][at % (TX + 2 * R)] = y >= 0 && y < height && x >= 0 && x < width ? in[(size_t)y * width + x] : 0.0f;
    }
    __syncthreads();
    float sums[PER_THREAD] = {};
    #pragma unroll
    for (int i = 0; i < K; ++i)
        #pragma unroll
        for (int j = 0; j < K; ++j)
            #pragma unroll
            for (int p = 0; p < PER_THREAD; ++p) sums[p] += filter.weights[i][j] * tile[threadIdx.y + p * TY + i][threadIdx.x + j];
    const int x = blockIdx.x * TX + threadIdx.x;
    #pragma unroll
    for (int p = 0; p < PER_THREAD; ++p) {
        const int y = blockIdx.y * ROWS + threadIdx.y + p * TY;
        if (y < height && x < width) out[(size_t)y * width + x] = sums[p];
    }
}
