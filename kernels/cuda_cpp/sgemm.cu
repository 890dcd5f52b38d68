// C = A B in single precision: a thread keeps TM x TN results in registers; two buffers in shared memory, so that the next
// tiles are on their way while this one is multiplied. m, n and k are multiples of BM, BN and BK.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM / TM) * (BN / TN))
sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    constexpr int THREADS = (BM / TM) * (BN / TN);
    static_assert(BK % 4 == 0 && BN % 4 == 0 && TN % 4 == 0 && TM % 4 == 0, "vectors of four");
    static_assert(BM * BK / 4 % THREADS == 0 && BN * BK / 4 % THREADS == 0, "every thread loads as much");
    constexpr int A_LOADS = BM * BK / 4 / THREADS, B_LOADS = BN * BK / 4 / THREADS;
    __shared__ float as[2][BK][BM + 4], bs[2][BK][BN];
    const int t = threadIdx.x, row = t / (BN / TN) * TM, column = t % (BN / TN) * TN;
    a += (size_t)blockIdx.y * BM * k;
    b += blockIdx.x * BN;
    float4 next_a[A_LOADS], next_b[B_LOADS];
    float sums[TM][TN] = {};

    auto fetch = [&](int step) {
        #pragma unroll
        for (int i = 0; i < A_LOADS; ++i) {
            const int at = i * THREADS + t;
            next_a[i] = *reinterpret_cast<const float4 *>(a + (size_t)(at / (BK / 4)) * k + step * BK + at % (BK / 4) * 4);
        }
        #pragma unroll
        for (int i = 0; i < B_LOADS; ++i) {
            const int at = i * THREADS + t;
            next_b[i] = *reinterpret_cast<const float4 *>(b + (size_t)(step * BK + at / (BN / 4)) * n + at % (BN / 4) * 4);
        }
    };
    auto keep = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < A_LOADS; ++i) {
            const int at = i * THREADS + t, y = at / (BK / 4), x = at % (BK / 4) * 4;
            as[buffer][x][y] = next_a[i].x, as[buffer][x + 1][y] = next_a[i].y;
            as[buffer][x + 2][y] = next_a[i].z, as[buffer][x + 3][y] = next_a[i].w;
        }
        #pragma unroll
        for (int i = 0; i < B_LOADS; ++i) {
            const int at = i * THREADS + t;
            *reinterpret_cast<float4 *>(&bs[buffer][at / (BN / 4)][at % (BN / 4) * 4]) = next_b[i];
        }
    };

    fetch(0);
    keep(0);
    __syncthreads();
    const int steps = k / BK;
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) fetch(step + 1);
        #pragma unroll
        for (int depth = 0; depth < BK; ++depth) {
            float of_a[TM], of_b[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4) *reinterpret_cast<float4 *>(of_a + i) = *reinterpret_cast<float4 *>(&as[step % 2][depth][row + i]);
            #pragma unroll
            for (int i = 0; i < TN; i += 4) *reinterpret_cast<float4 *>(of_b + i) = *reinterpret_cast<float4 *>(&bs[step % 2][depth][column + i]);
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += of_a[i] * of_b[j];
        }
        if (step + 1 < steps) keep((step + 1) % 2);
        __syncthreads();
    }
    c += (size_t)(blockIdx.y * BM + row) * n + blockIdx.x * BN + column;
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; j += 4)
            *reinterpret_cast<float4 *>(c + (size_t)i * n + j) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}
