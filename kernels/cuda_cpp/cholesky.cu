// Cholesky factors of many small matrices: one warp a matrix of N x N in double precision, lane i has row i.
template <int N>
__global__ void cholesky(const double *__restrict__ in, double *__restrict__ out, int count)
{
    static_assert(N <= 32, "a lane a row");
    const int matrix = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = threadIdx.x % 32;
    if (matrix >= count) return;
    in += (size_t)matrix * N * N, out += (size_t)matrix * N * N;
    double own[N];
    #pragma unroll
    for (int j = 0; j < N; ++j) own[j] = row < N ? in[row * N + j] : 0.0;
    #pragma unroll
    for (int j = 0; j < N; ++j) {
        const double pivot = sqrt(__shfl_sync(0xFFFFFFFFu, own[j], j));
        own[j] = row == j ? pivot : own[j] / pivot;
        #pragma unroll
        for (int i = j + 1; i < N; ++i) own[i] -= own[j] * __shfl_sync(0xFFFFFFFFu, own[j], i);
    }
    if (row < N)
        #pragma unroll
        for (int j = 0; j < N; ++j) out[row * N + j] = j <= row ? own[j] : 0.0;
}
