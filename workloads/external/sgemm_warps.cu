// C = A B in single precision, row-major, by the rungs of a ladder that ends in tiles of a warp, after their description. `pitch` is the side of the
// square matrices, `depth` the common dimension that is summed over: the same, unless a launch is cut short.
constexpr int WARP = 32;

__global__ void naive(const float *a, const float *b, float *c, int pitch, int depth)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= pitch || column >= pitch) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[row * pitch + k] * b[k * pitch + column];
    c[row * pitch + column] = sum;
}

template <int TILE>
__global__ void tiles(const float *a, const float *b, float *c, int pitch, int depth)
{
    const int x = threadIdx.x, y = threadIdx.y, first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    a += first_row * pitch;
    b += first_column;
    c += first_row * pitch + first_column;
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    float sum = 0.0f;
    for (int k = 0; k < depth; k += TILE) {
        as[y][x] = y < pitch - first_row && x < depth - k ? a[y * pitch + x] : 0.0f;
        bs[y][x] = y < depth - k && x < pitch - first_column ? b[y * pitch + x] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
        a += TILE;
        b += TILE * pitch;
    }
    if (y < pitch - first_row && x < pitch - first_column) c[y * pitch + x] = sum;
}

template <int THREADS, int HIGH, int WIDE>
__device__ void fill(const float *from, int pitch, int rows, int columns, float to[HIGH][WIDE], int t)
{
    for (int i = t; i < HIGH * WIDE; i += THREADS) {
        const int row = i / WIDE, column = i % WIDE;
        to[row][column] = row < rows && column < columns ? from[row * pitch + column] : 0.0f;
    }
}

// Each thread has results that lie THREADS apart, so that nothing is used twice from registers.
template <int THREADS, int BM, int BN, int BK>
__global__ void scattered(const float *a, const float *b, float *c, int pitch, int depth)
{
    const int t = threadIdx.x, wide = (pitch + BN - 1) / BN, first_row = blockIdx.x / wide * BM, first_column = blockIdx.x % wide * BN;
    a += first_row * pitch;
    b += first_column;
    c += first_row * pitch + first_column;
    __shared__ float as[BM][BK], bs[BK][BN];
    float sums[BM * BN / THREADS] = {0.0f};
    for (int k = 0; k < depth; k += BK) {
        fill<THREADS, BM, BK>(a, pitch, pitch - first_row, depth - k, as, t);
        fill<THREADS, BK, BN>(b, pitch, depth - k, pitch - first_column, bs, t);
        __syncthreads();
        for (int i = t; i < BM * BN; i += THREADS)
            for (int j = 0; j < BK; ++j) sums[i / THREADS] += as[i / BN][j] * bs[j][i % BN];
        __syncthreads();
        a += BK;
        b += BK * pitch;
    }
    for (int i = t; i < BM * BN; i += THREADS) {
        const int row = i / BN, column = i % BN;
        if (row < pitch - first_row && column < pitch - first_column) c[row * pitch + column] = sums[i / THREADS];
    }
}

// A warp has tiles of MM x MN, in each a thread TM x TN results; WN columns a warp. With WN = BN and one tile that is a thread's square of the block.
template <int THREADS, int BM, int BN, int BK, int WN, int MM, int MN, int TN>
__global__ void warps(const float *a, const float *b, float *c, int pitch, int depth)
{
    constexpr int WM = BM * BN / (THREADS / WARP) / WN, NM = WM / MM, NN = WN / MN, TM = MM * MN / WARP / TN;
    const int t = threadIdx.x, wide = (pitch + BN - 1) / BN, first_row = blockIdx.x / wide * BM, first_column = blockIdx.x % wide * BN;
    a += first_row * pitch;
    b += first_column;
    c += first_row * pitch + first_column;
    __shared__ float as[BM][BK], bs[BK][BN];
    const int warp = t / WARP, lane = t % WARP;
    const int row = warp / (BN / WN) * WM + lane / (MN / TN) * TM, column = warp % (BN / WN) * WN + lane % (MN / TN) * TN;
    float sums[NM][NN][TM][TN] = {0.0f};
    for (int k = 0; k < depth; k += BK) {
        fill<THREADS, BM, BK>(a, pitch, pitch - first_row, depth - k, as, t);
        fill<THREADS, BK, BN>(b, pitch, depth - k, pitch - first_column, bs, t);
        __syncthreads();
        for (int i = 0; i < BK; ++i) {
            float of_a[NM][TM], of_b[NN][TN];
            for (int p = 0; p < NM; ++p)
                for (int m = 0; m < TM; ++m) of_a[p][m] = as[row + p * MM + m][i];
            for (int q = 0; q < NN; ++q)
                for (int n = 0; n < TN; ++n) of_b[q][n] = bs[i][column + q * MN + n];
            for (int p = 0; p < NM; ++p)
                for (int q = 0; q < NN; ++q)
                    for (int m = 0; m < TM; ++m)
                        for (int n = 0; n < TN; ++n) sums[p][q][m][n] += of_a[p][m] * of_b[q][n];
        }
        __syncthreads();
        a += BK;
        b += BK * pitch;
    }
    for (int p = 0; p < NM; ++p)
        for (int q = 0; q < NN; ++q)
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n) {
                    const int y = row + p * MM + m, x = column + q * MN + n;
                    if (y < pitch - first_row && x < pitch - first_column) c[y * pitch + x] = sums[p][q][m][n];
                }
}

template <int THREADS, int HIGH, int WIDE, bool TURNED>
__device__ void fill_by_fours(const float *from, int pitch, float *to, int t)
{
    for (int i = 0; i < HIGH * WIDE; i += THREADS * 4) {
        const int row = (i + t * 4) / WIDE, column = (i + t * 4) % WIDE;
        const float4 four = *reinterpret_cast<const float4 *>(&from[row * pitch + column]);
        if (TURNED) {
            to[(column + 0) * HIGH + row] = four.x;
            to[(column + 1) * HIGH + row] = four.y;
            to[(column + 2) * HIGH + row] = four.z;
            to[(column + 3) * HIGH + row] = four.w;
        } else {
            *reinterpret_cast<float4 *>(&to[row * WIDE + column]) = four;
        }
    }
}

// The same without bounds, by vectors of four; TURNED: A lies transposed in shared memory.
template <int THREADS, int BM, int BN, int BK, int WN, int MM, int MN, int TN, bool TURNED>
__global__ void warps_by_fours(const float *a, const float *b, float *c, int pitch, int depth)
{
    constexpr int WM = BM * BN / (THREADS / WARP) / WN, NM = WM / MM, NN = WN / MN, TM = MM * MN / WARP / TN;
    const int t = threadIdx.x, wide = (pitch + BN - 1) / BN, first_row = blockIdx.x / wide * BM, first_column = blockIdx.x % wide * BN;
    a += first_row * pitch;
    b += first_column;
    c += first_row * pitch + first_column;
    __shared__ float as[BM * BK], bs[BK * BN];
    const int warp = t / WARP, lane = t % WARP;
    const int row = warp / (BN / WN) * WM + lane / (MN / TN) * TM, column = warp % (BN / WN) * WN + lane % (MN / TN) * TN;
    float sums[NM][NN][TM][TN] = {0.0f};
    for (int k = 0; k < depth; k += BK) {
        fill_by_fours<THREADS, BM, BK, TURNED>(a, pitch, as, t);
        fill_by_fours<THREADS, BK, BN, false>(b, pitch, bs, t);
        __syncthreads();
        for (int i = 0; i < BK; ++i) {
            float of_a[NM][TM], of_b[NN][TN];
            for (int p = 0; p < NM; ++p) {
                if (TURNED) {
                    for (int m = 0; m < TM; m += 4)
                        *reinterpret_cast<float4 *>(&of_a[p][m]) = *reinterpret_cast<float4 *>(&as[i * BM + row + p * MM + m]);
                } else {
                    for (int m = 0; m < TM; ++m) of_a[p][m] = as[(row + p * MM + m) * BK + i];
                }
            }
            for (int q = 0; q < NN; ++q)
                for (int n = 0; n < TN; n += 4)
                    *reinterpret_cast<float4 *>(&of_b[q][n]) = *reinterpret_cast<float4 *>(&bs[i * BN + column + q * MN + n]);
            for (int p = 0; p < NM; ++p)
                for (int q = 0; q < NN; ++q)
                    for (int m = 0; m < TM; ++m)
                        for (int n = 0; n < TN; ++n) sums[p][q][m][n] += of_a[p][m] * of_b[q][n];
        }
        __syncthreads();
        a += BK;
        b += BK * pitch;
    }
    for (int p = 0; p < NM; ++p)
        for (int q = 0; q < NN; ++q)
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; n += 4)
                    *reinterpret_cast<float4 *>(&c[(row + p * MM + m) * pitch + column + q * MN + n]) =
                        *reinterpret_cast<float4 *>(&sums[p][q][m][n]);
}
