// Relaxation of Laplace's equation in two dimensions, written after the description of a program whose kernels others timed (github.com/reguly/laplace_vector): a step writes of each inner cell
// the mean of its four neighbours, a copy takes the new cells back. One element a thread in single or half precision, four in single, two in half; blocks of 32 x 8 threads. A row of cells is
// `inner` + 2 elements; the cells of the border (with vectors: the first vector of a row) are left alone. An index is a signed 32-bit integer, and a row of vectors is divided where it is used.
#include <cuda_fp16.h>

__device__ float mean(float left, float right, float up, float down) { return 0.25f * (right + left + up + down); }

__device__ __half mean(__half left, __half right, __half up, __half down) { return __hmul(__hadd(__hadd(right, left), __hadd(up, down)), __float2half(0.25f)); }

template <typename Element>
__global__ void relax(int inner_columns, int inner_rows, Element *next, Element *now)
{
    const int column = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * blockDim.y, width = inner_columns + 2;
    if (column < inner_columns + 1 && row < inner_rows + 1 && column > 0 && row > 0)
        next[row * width + column] = mean(now[row * width + column - 1], now[row * width + column + 1], now[(row - 1) * width + column], now[(row + 1) * width + column]);
}

template <typename Element>
__global__ void take_back(int inner_columns, int inner_rows, Element *next, Element *now)
{
    const int column = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * blockDim.y, width = inner_columns + 2;
    if (column < inner_columns + 1 && row < inner_rows + 1 && column > 0 && row > 0) now[row * width + column] = next[row * width + column];
}

__device__ float4 means(float4 left, float4 here, float4 right, float4 up, float4 down)
{
    return make_float4(0.25f * (left.w + here.y + up.x + down.x), 0.25f * (here.x + here.z + up.y + down.y), 0.25f * (here.y + here.w + up.z + down.z), 0.25f * (here.z + right.x + up.w + down.w));
}

__device__ __half2 means(__half2 left, __half2 here, __half2 right, __half2 up, __half2 down)
{
    const __half2 before = __halves2half2(left.y, here.x), behind = __halves2half2(here.y, right.x);
    return __hmul2(__float2half2_rn(0.25f), __hadd2(__hadd2(before, behind), __hadd2(up, down)));
}

template <typename Vector, int LANES>
__global__ void relax_vectors(int inner_columns, int inner_rows, Vector *next, Vector *now)
{
    const int column = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * blockDim.y;
    if (column < (inner_columns + 2) / LANES && row < inner_rows + 1 && column > 0 && row > 0) {
        const Vector here = now[row * (inner_columns + 2) / LANES + column], left = now[row * (inner_columns + 2) / LANES + (column - 1)], right = now[row * (inner_columns + 2) / LANES + (column + 1)];
        const Vector up = now[(row - 1) * (inner_columns + 2) / LANES + column], down = now[(row + 1) * (inner_columns + 2) / LANES + column];
        next[row * (inner_columns + 2) / LANES + column] = means(left, here, right, up, down);
    }
}

template <typename Vector, int LANES>
__global__ void take_vectors_back(int inner_columns, int inner_rows, Vector *next, Vector *now)
{
    const int column = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * blockDim.y;
    if (column < (inner_columns + 2) / LANES && row < inner_rows + 1 && column > 0 && row > 0)
        now[row * (inner_columns + 2) / LANES + column] = next[row * (inner_columns + 2) / LANES + column];
}
