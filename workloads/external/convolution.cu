// A two-dimensional convolution with every choice that an autotuner has, after the description of the tuned kernel: a block of BX x BY
// threads makes (BX TX) x (BY TY) results, those of a thread a block apart; its inputs, the border included, go to shared memory, the
// filter lies in constant memory. PADDING: the rows of shared memory are padded so that the rows of threads of a warp fall on different
// banks, where BX is no multiple of the 32 banks. READ_ONLY: inputs are loaded by the read-only path.
constexpr int SIZE = 4096, FILTER = 15, BORDER = FILTER / 2 * 2, INPUT = SIZE + BORDER;

__constant__ float weights[33 * 33];

template <int BX, int BY, int TX, int TY, bool READ_ONLY, bool PADDING>
__global__ void convolution(float *output, float *input)
{
    constexpr int WIDE = BX * TX + BORDER, HIGH = BY * TY + BORDER;
    constexpr bool PADDED = PADDING && BX % 32 != 0 && (WIDE - BX) % 32 != 0;
    constexpr int PITCH = WIDE + (PADDED ? ((32 - (WIDE - BX)) & 31) : 0);
    constexpr bool PARTIAL = SIZE % (BX * TX) != 0 || SIZE % (BY * TY) != 0;
    __shared__ float tile[HIGH][PITCH];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int left = blockIdx.x * BX * TX, top = blockIdx.y * BY * TY;

    #pragma unroll
    for (int i = ty; i < HIGH; i += BY) {
        #pragma unroll
        for (int j = tx; j < WIDE; j += BX) {
            const int y = top + i, x = left + j;
            if (!PARTIAL || (y < INPUT && x < INPUT))
                tile[i][j] = READ_ONLY ? __ldg(input + y * INPUT + x) : input[y * INPUT + x];
        }
    }
    __syncthreads();

    float sums[TY][TX] = {};
    #pragma unroll
    for (int i = 0; i < FILTER; ++i)
        #pragma unroll
        for (int j = 0; j < FILTER; ++j)
            #pragma unroll
            for (int b = 0; b < TY; ++b)
                #pragma unroll
                for (int a = 0; a < TX; ++a)
                    sums[b][a] += tile[ty + b * BY + i][tx + a * BX + j] * weights[i * FILTER + j];

    #pragma unroll
    for (int b = 0; b < TY; ++b)
        #pragma unroll
        for (int a = 0; a < TX; ++a) {
            const int y = top + ty + b * BY, x = left + tx + a * BX;
            if (!PARTIAL || (y < SIZE && x < SIZE)) output[y * SIZE + x] = sums[b][a];
        }
}
