// Products and sums of two arrays, element by element, and a matrix times a vector, after their descriptions.
#include <cuda_fp16.h>

// An element a thread.
template <typename T>
__global__ void product(const T *x, const T *y, T *z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[i] * y[i];
}

template <typename T>
struct alignas(16) Pack {
    T of[16 / sizeof(T)];
};
__device__ inline void multiplied(const Pack<float> &x, const Pack<float> &y, Pack<float> &z)
{
    #pragma unroll
    for (int i = 0; i < 4; ++i) z.of[i] = x.of[i] * y.of[i];
}
__device__ inline void multiplied(const Pack<__half> &x, const Pack<__half> &y, Pack<__half> &z)
{
    #pragma unroll
    for (int i = 0; i < 8; i += 2)
        *reinterpret_cast<__half2 *>(z.of + i) = __hmul2(*reinterpret_cast<const __half2 *>(x.of + i), *reinterpret_cast<const __half2 *>(y.of + i));
}

// Sixteen bytes a load, at most 32 waves of blocks, in strides of the grid.
template <typename T>
__global__ void __launch_bounds__(256) packed_product(long long packs, Pack<T> *z, const Pack<T> *x, const Pack<T> *y)
{
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < packs; i += blockDim.x * gridDim.x) {
        Pack<T> made;
        multiplied(x[i], y[i], made);
        z[i] = made;
    }
}

// Each thread adds what it has of an inner product into one pair of halves, also where it has nothing.
__global__ void inner_product(const __half2 *a, const __half2 *b, __half2 *c, int n)
{
    __half sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 2; i += gridDim.x * blockDim.x) {
        sum = sum + a[i].x * b[i].x;
        sum = sum + a[i].y * b[i].y;
    }
    atomicAdd(c, __half2(sum, sum));
}

// Two matrices: lanes along a row, or down a column.
template <bool ALONG>
__global__ void matrix_sum(const float *a, const float *b, float *c, int columns, int rows)
{
    const int across = blockIdx.x * blockDim.x + threadIdx.x, down = blockIdx.y * blockDim.y + threadIdx.y;
    const int i = ALONG ? down : across, j = ALONG ? across : down;
    if (i < rows && j < columns) c[i * columns + j] = a[i * columns + j] + b[i * columns + j];
}

// A thread a row of the matrix.
__global__ void matrix_vector(unsigned *out, const unsigned *matrix, const unsigned *vector, int rows, int columns)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    unsigned sum = 0;
    for (int k = 0; k < columns; ++k) sum += matrix[i * columns + k] * vector[k];
    out[i] = sum;
}
