// C = A B of square matrices of floats, row-major, PITCH a side, written after the description of a ladder that others profiled (github.com/Sha-x2-nk/MatrixMultiplication-CUDA). `depth` is the
// common dimension that is summed over: PITCH, unless a launch is cut short.

// An element a thread. KEPT: the sum stays in a register until it is complete; DOWN: consecutive lanes go down a column of C.
template <int PITCH, bool KEPT, bool DOWN>
__global__ void element(float *a, float *b, float *c, int depth)
{
    const int along = threadIdx.x, across = threadIdx.y, row = DOWN ? along : across, column = DOWN ? across : along;
    const int block_row = DOWN ? blockIdx.x : blockIdx.y, block_column = DOWN ? blockIdx.y : blockIdx.x;
    const int high = DOWN ? blockDim.x : blockDim.y, wide = DOWN ? blockDim.y : blockDim.x;
    a += block_row * high * PITCH;
    b += block_column * wide;
    c += block_row * high * PITCH + block_column * wide;
    if (KEPT) {
        float sum = 0.0f;
        for (int k = 0; k < depth; ++k) sum += a[row * PITCH + k] * b[k * PITCH + column];
        c[row * PITCH + column] = sum;
    } else {
        for (int k = 0; k < depth; ++k) c[row * PITCH + column] += a[row * PITCH + k] * b[k * PITCH + column];
    }
}

__device__ float4 &four(float *place) { return *reinterpret_cast<float4 *>(place); }

// A tile of A and of B, four floats a load, in as many turns as the block's threads need. TURN: A's tile lies turned in shared memory.
template <int PITCH, int BM, int BK, int BN, bool TURN>
__device__ void fill(float *as, float *bs, float *a, float *b)
{
    const int a_row = threadIdx.x / (BK / 4), a_column = threadIdx.x % (BK / 4) * 4, a_stride = blockDim.x / (BK / 4);
    const int b_row = threadIdx.x / (BN / 4), b_column = threadIdx.x % (BN / 4) * 4, b_stride = blockDim.x / (BN / 4);
    for (int i = 0; a_row + i < BM; i += a_stride) {
        if (TURN) {
            const float4 some = four(&a[(a_row + i) * PITCH + a_column]);
            as[a_column * BM + a_row + i] = some.x;
            as[(a_column + 1) * BM + a_row + i] = some.y;
            as[(a_column + 2) * BM + a_row + i] = some.z;
            as[(a_column + 3) * BM + a_row + i] = some.w;
        } else {
            four(&as[(a_row + i) * BK + a_column]) = four(&a[(a_row + i) * PITCH + a_column]);
        }
    }
    for (int i = 0; b_row + i < BK; i += b_stride) four(&bs[(b_row + i) * BN + b_column]) = four(&b[(b_row + i) * PITCH + b_column]);
}

// Tiles in shared memory, an element a thread. BY_FOURS: four floats a load.
template <int PITCH, int BM, int BK, int BN, bool BY_FOURS>
__global__ void tiles(float *a, float *b, float *c, int depth)
{
    __shared__ float as[BM * BK], bs[BK * BN];
    const int row = threadIdx.x / BN, column = threadIdx.x % BN;
    a += blockIdx.y * BM * PITCH;
    b += blockIdx.x * BN;
    c += blockIdx.y * BM * PITCH + blockIdx.x * BN;
    float sum = 0.0f;
    for (int k = 0; k < depth; k += BK) {
        if (BY_FOURS) {
            fill<PITCH, BM, BK, BN, false>(as, bs, a, b);
        } else {
            as[row * BK + column] = a[row * PITCH + column];
            bs[row * BN + column] = b[row * PITCH + column];
        }
        __syncthreads();
        a += BK;
        b += BK * PITCH;
        for (int i = 0; i < BK; ++i) sum += as[row * BK + i] * bs[i * BN + column];
        __syncthreads();
    }
    c[row * PITCH + column] = sum;
}

// TM results of a column a thread.
template <int PITCH, int BM, int BK, int BN, int TM>
__global__ void columns(float *a, float *b, float *c, int depth)
{
    __shared__ float as[BM * BK], bs[BK * BN];
    const int row = threadIdx.x / BN, column = threadIdx.x % BN;
    a += blockIdx.y * BM * PITCH;
    b += blockIdx.x * BN;
    c += blockIdx.y * BM * PITCH + blockIdx.x * BN;
    float sums[TM] = {0.0f};
    for (int k = 0; k < depth; k += BK) {
        fill<PITCH, BM, BK, BN, false>(as, bs, a, b);
        __syncthreads();
        a += BK;
        b += BK * PITCH;
        for (int i = 0; i < BK; ++i) {
            const float of_b = bs[i * BN + column];
            for (int m = 0; m < TM; ++m) sums[m] += as[(row * TM + m) * BK + i] * of_b;
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; ++m) c[(row * TM + m) * PITCH + column] = sums[m];
}

// TM x TN results a thread. TURN: A's tile lies turned.
template <int PITCH, int BM, int BK, int BN, int TM, int TN, bool TURN>
__global__ void patches(float *a, float *b, float *c, int depth)
{
    __shared__ float as[BM * BK], bs[BK * BN];
    const int row = threadIdx.x / (BN / TN), column = threadIdx.x % (BN / TN);
    a += blockIdx.y * BM * PITCH;
    b += blockIdx.x * BN;
    c += blockIdx.y * BM * PITCH + blockIdx.x * BN;
    float sums[TM * TN] = {0.0f}, of_a[TM], of_b[TN];
    for (int k = 0; k < depth; k += BK) {
        fill<PITCH, BM, BK, BN, TURN>(as, bs, a, b);
        __syncthreads();
        a += BK;
        b += BK * PITCH;
        for (int i = 0; i < BK; ++i) {
            for (int m = 0; m < TM; ++m) of_a[m] = TURN ? as[i * BM + row * TM + m] : as[(row * TM + m) * BK + i];
            for (int n = 0; n < TN; ++n) of_b[n] = bs[i * BN + column * TN + n];
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n) sums[m * TN + n] += of_a[m] * of_b[n];
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; ++m)
        for (int n = 0; n < TN; n += 4) {
            const int at = m * TN + n;
            four(&c[(row * TM + m) * PITCH + column * TN + n]) = make_float4(sums[at], sums[at + 1], sums[at + 2], sums[at + 3]);
        }
}

// A tile of 64 x 32 a warp, of 64 x 128 a block of four: two patches of 4 x 8 a thread, 32 rows apart. KNOWN: the compiler knows how many threads fill the tiles, and at most how many a block has.
template <int PITCH, bool KNOWN>
__device__ void warps(float *a, float *b, float *c, int depth)
{
    constexpr int BM = 64, BK = 8, BN = 128, TM = 4, TN = 8, WIDE = 32, APART = 32;
    __shared__ float as[BM * BK], bs[BK * BN];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / (WIDE / TN), column = lane % (WIDE / TN);
    a += blockIdx.y * BM * PITCH;
    b += blockIdx.x * BN;
    c += blockIdx.y * BM * PITCH + blockIdx.x * BN + warp * WIDE;
    float sums[2 * TM * TN] = {0.0f}, of_a[2 * TM], of_b[TN];
    for (int k = 0; k < depth; k += BK) {
        if (KNOWN) {
            const int a_row = threadIdx.x / 2, a_column = threadIdx.x % 2 * 4, b_row = threadIdx.x / 32, b_column = threadIdx.x % 32 * 4;
            const float4 some = four(&a[a_row * PITCH + a_column]);
            as[a_column * BM + a_row] = some.x;
            as[(a_column + 1) * BM + a_row] = some.y;
            as[(a_column + 2) * BM + a_row] = some.z;
            as[(a_column + 3) * BM + a_row] = some.w;
            four(&bs[b_row * BN + b_column]) = four(&b[b_row * PITCH + b_column]);
            four(&bs[(b_row + 4) * BN + b_column]) = four(&b[(b_row + 4) * PITCH + b_column]);
        } else {
            fill<PITCH, BM, BK, BN, true>(as, bs, a, b);
        }
        __syncthreads();
        if (!KNOWN) a += BK, b += BK * PITCH;
        for (int i = 0; i < BK; ++i) {
            for (int half = 0; half < 2; ++half)
                for (int m = 0; m < TM; ++m) of_a[half * TM + m] = as[i * BM + half * APART + row * TM + m];
            for (int n = 0; n < TN; ++n) of_b[n] = bs[i * BN + warp * WIDE + column * TN + n];
            for (int m = 0; m < 2 * TM; ++m)
                for (int n = 0; n < TN; ++n) sums[m * TN + n] += of_a[m] * of_b[n];
        }
        if (KNOWN) a += BK, b += BK * PITCH;
        __syncthreads();
    }
    for (int half = 0; half < 2; ++half)
        for (int m = 0; m < TM; ++m)
            for (int n = 0; n < TN; n += 4) {
                const int at = (half * TM + m) * TN + n;
                four(&c[(half * APART + row * TM + m) * PITCH + column * TN + n]) = make_float4(sums[at], sums[at + 1], sums[at + 2], sums[at + 3]);
            }
}

template <int PITCH> __global__ void warps_filling(float *a, float *b, float *c, int depth) { warps<PITCH, false>(a, b, c, depth); }
template <int PITCH> __global__ void __launch_bounds__(128) warps_known(float *a, float *b, float *c, int depth) { warps<PITCH, true>(a, b, c, depth); }
