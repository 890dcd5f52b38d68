// Transposition through shared memory without padding: the column of a word is exclusive-ored with its row.
template <typename T>
__global__ void transpose(const T *__restrict__ in, T *__restrict__ out, int rows, int columns)
{
    __shared__ T tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < columns && y + i < rows) tile[threadIdx.y + i][threadIdx.x ^ (threadIdx.y + i)] = in[(size_t)(y + i) * columns + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < rows && y + i < columns) out[(size_t)(y + i) * rows + x] = tile[threadIdx.x][(threadIdx.y + i) ^ threadIdx.x];
}
