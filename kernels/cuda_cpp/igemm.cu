// C = A B^T in signed bytes by tensor cores; each warp takes 16 rows and 8 * COLUMNS columns, fragments straight from memory.
#include "tensor.cuh"

template <int COLUMNS>
__global__ void igemm(const signed char *__restrict__ a, const signed char *__restrict__ b, int *__restrict__ c, int m, int n, int k)
{
    const int lane = threadIdx.x % 32, row = (blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32) * 16, column = blockIdx.x * 8 * COLUMNS;
    if (row >= m) return;
    const unsigned *top = reinterpret_cast<const unsigned *>(a + (size_t)(row + lane / 4) * k) + lane % 4;
    const unsigned *bottom = reinterpret_cast<const unsigned *>(a + (size_t)(row + lane / 4 + 8) * k) + lane % 4;
    int sums[COLUMNS][4] = {};
    for (int depth = 0; depth < k / 4; depth += 8) {
        const unsigned of_a[4] = {top[depth], bottom[depth], top[depth + 4], bottom[depth + 4]};
        #pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const unsigned *of_b = reinterpret_cast<const unsigned *>(b + (size_t)(column + 8 * j + lane / 4) * k) + lane % 4 + depth;
            multiply(sums[j], of_a, of_b[0], of_b[4]);
        }
    }
    c += (size_t)(row + lane / 4) * n + column + lane % 4 * 2;
    #pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
        *reinterpret_cast<int2 *>(c + 8 * j) = make_int2(sums[j][0], sums[j][1]);
        *reinterpret_cast<int2 *>(c + (size_t)8 * n + 8 * j) = make_int2(sums[j][2], sums[j][3]);
    }
}
