// C = alpha A B + beta C in single precision, row-major, by the seven rungs of a ladder for teaching, after their description. `pitch` is the
// side of the square matrices, `depth` the common dimension that is summed over: the same, unless a launch is cut short.

__global__ void __launch_bounds__(1024) naive(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= pitch || column >= pitch) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[row * pitch + k] * b[k * pitch + column];
    c[row * pitch + column] = alpha * sum + beta * c[row * pitch + column];
}

// Square tiles of A and B in shared memory, an element a thread.
template <int TILE>
__global__ void tiles(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int k = 0; k < depth; k += TILE) {
        as[y][x] = row < pitch && k + x < depth ? a[row * pitch + k + x] : 0.0f;
        bs[y][x] = k + y < depth && column < pitch ? b[(k + y) * pitch + column] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < TILE; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    if (row < pitch && column < pitch) c[row * pitch + column] = alpha * sum + beta * c[row * pitch + column];
}

// TM x TN results a thread (TN 1: a column of them), tiles filled a float at a time with bounds. CACHED: what a step multiplies is copied to registers first.
template <int BM, int BN, int BK, int TM, int TN, bool CACHED>
__global__ void many(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    __shared__ float as[BM][BK], bs[BK][BN];
    const int threads = BM * BN / (TM * TN), along = BN / TN;
    const int column = threadIdx.x % along * TN, row = threadIdx.x / along * TM;
    const int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
    float sums[TM][TN] = {0.0f}, of_a[TM], of_b[TN];
    for (int k = 0; k < depth; k += BK) {
        #pragma unroll
        for (int i = 0; i < BM; i += threads / BK) {
            const int y = threadIdx.x / BK + i, x = threadIdx.x % BK;
            if (y < BM) as[y][x] = first_row + y < pitch && k + x < depth ? a[(first_row + y) * pitch + k + x] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < BK; i += threads / BN) {
            const int y = threadIdx.x / BN + i, x = threadIdx.x % BN;
            if (y < BK) bs[y][x] = k + y < depth && first_column + x < pitch ? b[(k + y) * pitch + first_column + x] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < BK; ++i) {
            if (CACHED) {
                #pragma unroll
                for (int m = 0; m < TM; ++m) of_a[m] = as[row + m][i];
                #pragma unroll
                for (int n = 0; n < TN; ++n) of_b[n] = bs[i][column + n];
            }
            #pragma unroll
            for (int m = 0; m < TM; ++m)
                #pragma unroll
                for (int n = 0; n < TN; ++n) sums[m][n] += CACHED ? of_a[m] * of_b[n] : as[row + m][i] * bs[i][column + n];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int m = 0; m < TM; ++m)
        #pragma unroll
        for (int n = 0; n < TN; ++n) {
            const int y = first_row + row + m, x = first_column + column + n;
            if (y < pitch && x < pitch) c[y * pitch + x] = alpha * sums[m][n] + beta * c[y * pitch + x];
        }
}

__device__ inline float4 &four(float *place) { return *reinterpret_cast<float4 *>(place); }
__device__ inline float4 four_of(const float *place) { return *reinterpret_cast<const float4 *>(place); }

// Tiles of 128 x 128 by 8, 8 x 8 results a thread, vectors of four, A transposed in shared memory. STAGES 2: the next tiles come while these are
// multiplied, and the next step's operands while this one's are.
template <int STAGES>
__global__ void vectors(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    constexpr int B = 128, K = 8, T = 8;
    __shared__ float as[STAGES][K][B], bs[STAGES][K][B];
    const int column = threadIdx.x % (B / T) * T, row = threadIdx.x / (B / T) * T;
    const int a_row = threadIdx.x / (K / 4), a_column = threadIdx.x % (K / 4) * 4;
    const int b_row = threadIdx.x / (B / 4), b_column = threadIdx.x % (B / 4) * 4;
    float sums[T][T] = {0.0f}, of_a[STAGES][T], of_b[STAGES][T], next_a[4], next_b[4];
    a += blockIdx.y * B * pitch;
    b += blockIdx.x * B;
    c += blockIdx.y * B * pitch + blockIdx.x * B;
    const auto put_a = [&](int stage) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) as[stage][a_column + i][a_row] = next_a[i];
    };
    const auto take = [&](int stage, int step, int at) {
        #pragma unroll
        for (int m = 0; m < T; m += 4) four(&of_a[at][m]) = four(&as[stage][step][row + m]);
        #pragma unroll
        for (int n = 0; n < T; n += 4) four(&of_b[at][n]) = four(&bs[stage][step][column + n]);
    };
    const auto multiply = [&](int at) {
        #pragma unroll
        for (int m = 0; m < T; ++m)
            #pragma unroll
            for (int n = 0; n < T; ++n) sums[m][n] += of_a[at][m] * of_b[at][n];
    };
    if (STAGES == 1) {
        for (int k = 0; k < depth; k += K) {
            four(next_a) = four_of(&a[a_row * pitch + a_column + k]);
            put_a(0);
            four(&bs[0][b_row][b_column]) = four_of(&b[(k + b_row) * pitch + b_column]);
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < K; ++i) {
                take(0, i, 0);
                multiply(0);
            }
            __syncthreads();
        }
    } else {
        four(next_a) = four_of(&a[a_row * pitch + a_column]);
        put_a(0);
        four(&bs[0][b_row][b_column]) = four_of(&b[b_row * pitch + b_column]);
        __syncthreads();
        int put = 1, taken = 0;
        for (int k = K; k <= depth; k += K) {
            if (k < depth) {
                four(next_a) = four_of(&a[a_row * pitch + a_column + k]);
                four(next_b) = four_of(&b[(k + b_row) * pitch + b_column]);
            }
            take(taken, 0, 0);
            #pragma unroll
            for (int i = 0; i < K - 1; ++i) {
                take(taken, i + 1, (i + 1) % STAGES);
                multiply(i % STAGES);
            }
            multiply((K - 1) % STAGES);
            if (k < depth) {
                put_a(put);
                four(&bs[put][b_row][b_column]) = four(next_b);
                put ^= 1;
                taken ^= 1;
            }
            __syncthreads();
        }
    }
    #pragma unroll
    for (int m = 0; m < T; ++m)
        #pragma unroll
        for (int n = 0; n < T; n += 4) {
            float4 old = four(&c[(row + m) * pitch + column + n]);
            old.x = alpha * sums[m][n] + beta * old.x;
            old.y = alpha * sums[m][n + 1] + beta * old.y;
            old.z = alpha * sums[m][n + 2] + beta * old.z;
            old.w = alpha * sums[m][n + 3] + beta * old.w;
            four(&c[(row + m) * pitch + column + n]) = old;
        }
}
