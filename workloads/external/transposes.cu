// A square matrix of floats turned over its diagonal, after the description of a benchmark: TILE x TILE elements a block, through shared memory
// (but for the first), ROWS of them at a time, and WIDE of them a load and a store. PAD: floats that set a tile's rows off from the banks.
__global__ void naive(const float *from, float *to, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) to[x * n + y] = from[y * n + x];
}

template <int TILE, int PAD>
__global__ void tiled(const float *__restrict__ from, float *__restrict__ to, int n)
{
    __shared__ float tile[TILE][TILE + PAD];
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = from[y * n + x];
    __syncthreads();
    x = blockIdx.y * blockDim.x + threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y;
    if (x < n && y < n) to[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

template <int WIDE>
struct alignas(4 * WIDE) Some {
    float of[WIDE];
};

template <int TILE, int ROWS, int WIDE>
__global__ void coarse(const float *__restrict__ from, float *__restrict__ to, int n)
{
    __shared__ float tile[TILE][TILE + 1];
    const int width = n / WIDE, column = WIDE * threadIdx.x;
    int x = blockIdx.x * (TILE / WIDE) + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) {
        const Some<WIDE> some = reinterpret_cast<const Some<WIDE> *>(from)[(y + j) * width + x];
        for (int i = 0; i < WIDE; ++i) tile[threadIdx.y + j][column + i] = some.of[i];
    }
    __syncthreads();
    x = blockIdx.y * (TILE / WIDE) + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) {
        Some<WIDE> some;
        for (int i = 0; i < WIDE; ++i) some.of[i] = tile[column + i][threadIdx.y + j];
        reinterpret_cast<Some<WIDE> *>(to)[(y + j) * width + x] = some;
    }
}
