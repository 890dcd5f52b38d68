// A matrix of floats (rows x columns) turned over its diagonal, after the descriptions of two ladders for teaching.

// A thread an element. DOWN: consecutive lanes go down a column of the input; CACHED: reads through the read-only path.
template <bool DOWN, bool CACHED>
__global__ void element(const float *from, float *to, int rows, int columns)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int row = DOWN ? x : y, column = DOWN ? y : x;
    if (row < rows && column < columns) to[column * rows + row] = CACHED ? __ldg(&from[row * columns + column]) : from[row * columns + column];
}

// Several elements a thread, of a tile of HIGH x WIDE.
template <int HIGH, int WIDE>
__global__ void elements(const float *from, float *to, int rows, int columns)
{
    const int first_row = blockIdx.x * HIGH, first_column = blockIdx.y * WIDE;
    #pragma unroll
    for (int x = threadIdx.x; x < HIGH; x += blockDim.x) {
        const int row = first_row + x;
        if (row >= rows) break;
        #pragma unroll
        for (int y = threadIdx.y; y < WIDE; y += blockDim.y) {
            const int column = first_column + y;
            if (column < columns) to[column * rows + row] = from[row * columns + column];
        }
    }
}

// Through a square tile in shared memory, a thread an element. PAD: floats behind a row; TURN: columns are exchanged by the row's number.
template <int TILE, int PAD, bool TURN>
__global__ void whole_tile(const float *from, float *to, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + PAD];
    const int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
    if (x < columns && y < rows) tile[ty][TURN ? tx ^ ty : tx] = from[y * columns + x];
    __syncthreads();
    x = blockIdx.y * TILE + tx;
    y = blockIdx.x * TILE + ty;
    if (x < rows && y < columns) to[y * rows + x] = tile[tx][TURN ? tx ^ ty : ty];
}

// The same with fewer threads than elements, in a loop.
template <int TILE, int PAD, bool TURN>
__global__ void looped_tile(const float *from, float *to, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + PAD];
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    #pragma unroll
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int row = first_row + y;
        if (row >= rows) break;
        #pragma unroll
        for (int x = threadIdx.x; x < TILE; x += blockDim.x) {
            const int column = first_column + x;
            if (column < columns) tile[y][TURN ? x ^ y : x] = from[row * columns + column];
        }
    }
    __syncthreads();
    #pragma unroll
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        const int column = first_column + y;
        if (column >= columns) break;
        #pragma unroll
        for (int x = threadIdx.x; x < TILE; x += blockDim.x) {
            const int row = first_row + x;
            if (row < rows) to[column * rows + row] = tile[x][TURN ? x ^ y : y];
        }
    }
}

// Four rows of the tile a thread, without a loop.
template <int PAD, bool TURN>
__global__ void unrolled_tile(const float *from, float *to, int rows, int columns)
{
    __shared__ float tile[32][32 + PAD];
    const int first_row = blockIdx.y * 32, first_column = blockIdx.x * 32, tx = threadIdx.x;
    if (first_column + tx >= columns) return;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int y = threadIdx.y + i * blockDim.y;
        if (first_row + y < rows) tile[y][TURN ? tx ^ y : tx] = from[(first_row + y) * columns + first_column + tx];
    }
    __syncthreads();
    if (first_row + tx >= rows) return;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int y = threadIdx.y + i * blockDim.y;
        if (first_column + y < columns) to[(first_column + y) * rows + first_row + tx] = tile[tx][TURN ? tx ^ y : y];
    }
}
