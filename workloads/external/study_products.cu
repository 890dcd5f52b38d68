// C = A B in single precision, row-major, A m x k, B k x n: rungs of a study of an H100 (github.com/ahmadsharif1/cuda_study, matmul/matmul.cu). `depth`
// is how much of k is summed over: all, unless a launch is cut short.
#include <cuda_runtime.h>

__global__ void naive(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < depth; i++) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

template <int SIDE>
__global__ void tiles(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    __shared__ float of_a[SIDE][SIDE], of_b[SIDE][SIDE];
    const int y = threadIdx.y, x = threadIdx.x, row = blockIdx.y * SIDE + y, column = blockIdx.x * SIDE + x;
    float sum = 0.0f;
    for (int t = 0; t < depth; t += SIDE) {
        of_a[y][x] = row < m && t + x < k ? a[row * k + t + x] : 0.0f;
        of_b[y][x] = t + y < k && column < n ? b[(t + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < SIDE; i++) sum += of_a[y][i] * of_b[i][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

constexpr int HIGH = 128, WIDE = 128, DEEP = 8, OWN = 8, ACROSS = WIDE / OWN, THREADS = HIGH / OWN * ACROSS, FOUR = 4;

// A thread's 8 x 8 results from one slab of A and B, whose rows lie A_PITCH and B_PITCH apart.
template <int A_PITCH, int B_PITCH>
__device__ __forceinline__ void multiplied(float (&sums)[OWN][OWN], const float (&as)[HIGH][A_PITCH], const float (&bs)[DEEP][B_PITCH])
{
    const int down = threadIdx.x / ACROSS * OWN, right = threadIdx.x % ACROSS * OWN;
#pragma unroll
    for (int k = 0; k < DEEP; k++) {
        float of_a[OWN], of_b[OWN];
#pragma unroll
        for (int i = 0; i < OWN; i++) of_a[i] = as[down + i][k];
#pragma unroll
        for (int j = 0; j < OWN; j++) of_b[j] = bs[k][right + j];
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++) sums[i][j] += of_a[i] * of_b[j];
    }
}

__device__ __forceinline__ void stored(const float (&sums)[OWN][OWN], float *c, int m, int n)
{
    const int down = blockIdx.y * HIGH + threadIdx.x / ACROSS * OWN, right = blockIdx.x * WIDE + threadIdx.x % ACROSS * OWN;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        if (down + i >= m) continue;
#pragma unroll
        for (int j = 0; j < OWN; j++)
            if (right + j < n) c[(down + i) * n + right + j] = sums[i][j];
    }
}

__global__ void registers(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    __shared__ float as[HIGH][DEEP], bs[DEEP][WIDE];
    const int top = blockIdx.y * HIGH, left = blockIdx.x * WIDE, t = threadIdx.x;
    float sums[OWN][OWN] = {};
    for (int at = 0; at < depth; at += DEEP) {
#pragma unroll
        for (int i = 0; i < HIGH * DEEP / THREADS; i++) {
            const int place = t + i * THREADS, y = place / DEEP, x = place % DEEP;
            as[y][x] = top + y < m && at + x < k ? a[(top + y) * k + at + x] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < DEEP * WIDE / THREADS; i++) {
            const int place = t + i * THREADS, y = place / WIDE, x = place % WIDE;
            bs[y][x] = at + y < k && left + x < n ? b[(at + y) * n + left + x] : 0.0f;
        }
        __syncthreads();
        multiplied(sums, as, bs);
        __syncthreads();
    }
    stored(sums, c, m, n);
}

// A slab by vectors of four, put down one by one in rows that are padded by four.
template <int ROWS, int COLUMNS, int PITCH>
__device__ __forceinline__ void fetched(float (&to)[ROWS][PITCH], const float *from, int top, int left, int rows, int columns)
{
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS / FOUR / THREADS; i++) {
        const int place = threadIdx.x + i * THREADS, y = place / (COLUMNS / FOUR), x = place % (COLUMNS / FOUR) * FOUR;
        if (top + y < rows && left + x + FOUR - 1 < columns) {
            const float4 v = *reinterpret_cast<const float4 *>(&from[(top + y) * columns + left + x]);
            to[y][x] = v.x, to[y][x + 1] = v.y, to[y][x + 2] = v.z, to[y][x + 3] = v.w;
        } else
            for (int s = 0; s < FOUR; s++) to[y][x + s] = top + y < rows && left + x + s < columns ? from[(top + y) * columns + left + x + s] : 0.0f;
    }
}

__global__ void vectors(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    __shared__ float as[HIGH][DEEP + FOUR], bs[DEEP][WIDE + FOUR];
    float sums[OWN][OWN] = {};
    for (int at = 0; at < depth; at += DEEP) {
        fetched<HIGH, DEEP>(as, a, blockIdx.y * HIGH, at, m, k);
        fetched<DEEP, WIDE>(bs, b, at, blockIdx.x * WIDE, k, n);
        __syncthreads();
        multiplied(sums, as, bs);
        __syncthreads();
    }
    stored(sums, c, m, n);
}

__global__ void two_buffers(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    __shared__ float as[2][HIGH][DEEP + FOUR], bs[2][DEEP][WIDE + FOUR];
    float sums[OWN][OWN] = {};
    const int slabs = (depth + DEEP - 1) / DEEP;
    fetched<HIGH, DEEP>(as[0], a, blockIdx.y * HIGH, 0, m, k);
    fetched<DEEP, WIDE>(bs[0], b, 0, blockIdx.x * WIDE, k, n);
    __syncthreads();
    for (int slab = 0; slab < slabs; slab++) {
        const int now = slab & 1, next = 1 - now;
        if (slab + 1 < slabs) {
            fetched<HIGH, DEEP>(as[next], a, blockIdx.y * HIGH, (slab + 1) * DEEP, m, k);
            fetched<DEEP, WIDE>(bs[next], b, (slab + 1) * DEEP, blockIdx.x * WIDE, k, n);
        }
        multiplied(sums, as[now], bs[now]);
        __syncthreads();
    }
    stored(sums, c, m, n);
}
