// C = alpha A B + beta C in single precision, row-major, by four rungs of a well-known ladder, after their description. `pitch` is the
// side of the square matrices, `depth` the common dimension that is summed over: the same, unless a launch is cut short.

// 1: a thread an element; consecutive lanes walk down a column of C, so that loads of A and stores are `pitch` apart.
__global__ void naive(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < pitch && column < pitch) {
        float sum = 0.0f;
        for (int k = 0; k < depth; ++k) sum += a[row * pitch + k] * b[k * pitch + column];
        c[row * pitch + column] = alpha * sum + beta * c[row * pitch + column];
    }
}

// 2: the same with consecutive lanes along a row of C.
__global__ void coalesced(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 32, column = blockIdx.y * 32 + threadIdx.x % 32;
    if (row < pitch && column < pitch) {
        float sum = 0.0f;
        for (int k = 0; k < depth; ++k) sum += a[row * pitch + k] * b[k * pitch + column];
        c[row * pitch + column] = alpha * sum + beta * c[row * pitch + column];
    }
}

// 3: 32 x 32 tiles of A and B in shared memory.
__global__ void shared_tiles(int pitch, int depth, float alpha, const float *a, const float *b, float beta, float *c)
{
    __shared__ float as[32 * 32], bs[32 * 32];
    const int y = threadIdx.x / 32, x = threadIdx.x % 32;
    a += blockIdx.x * 32 * pitch;
    b += blockIdx.y * 32;
    c += blockIdx.x * 32 * pitch + blockIdx.y * 32;
    float sum = 0.0f;
    for (int step = 0; step < depth; step += 32) {
        as[y * 32 + x] = a[y * pitch + x];
        bs[y * 32 + x] = b[y * pitch + x];
        __syncthreads();
        a += 32;
        b += 32 * pitch;
        for (int k = 0; k < 32; ++k) sum += as[y * 32 + k] * bs[k * 32 + x];
        __syncthreads();
    }
    c[y * pitch + x] = alpha * sum + beta * c[y * pitch + x];
}

// 6: tiles of 128 x 128 by 8, 8 x 8 results a thread, vectors of four; A lies transposed in shared memory.
__global__ void __launch_bounds__(256) vectorised(int pitch, int depth, float alpha, float *a, float *b, float beta, float *c)
{
    __shared__ float as[8 * 128], bs[8 * 128];
    const int t = threadIdx.x, row = t / 16 * 8, column = t % 16 * 8;
    a += blockIdx.y * 128 * pitch;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * pitch + blockIdx.x * 128;
    float sums[8 * 8] = {0.0f}, of_a[8] = {0.0f}, of_b[8] = {0.0f};
    for (int step = 0; step < depth; step += 8) {
        const float4 four = reinterpret_cast<float4 *>(&a[t / 2 * pitch + t % 2 * 4])[0];
        as[(t % 2 * 4 + 0) * 128 + t / 2] = four.x;
        as[(t % 2 * 4 + 1) * 128 + t / 2] = four.y;
        as[(t % 2 * 4 + 2) * 128 + t / 2] = four.z;
        as[(t % 2 * 4 + 3) * 128 + t / 2] = four.w;
        reinterpret_cast<float4 *>(&bs[t / 32 * 128 + t % 32 * 4])[0] = reinterpret_cast<float4 *>(&b[t / 32 * pitch + t % 32 * 4])[0];
        __syncthreads();
        a += 8;
        b += 8 * pitch;
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 8; ++i) of_a[i] = as[k * 128 + row + i];
            for (int i = 0; i < 8; ++i) of_b[i] = bs[k * 128 + column + i];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sums[i * 8 + j] += of_a[i] * of_b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4) {
            float4 *place = reinterpret_cast<float4 *>(&c[(row + i) * pitch + column + j]);
            float4 four = place[0];
            four.x = alpha * sums[i * 8 + j] + beta * four.x;
            four.y = alpha * sums[i * 8 + j + 1] + beta * four.y;
            four.z = alpha * sums[i * 8 + j + 2] + beta * four.z;
            four.w = alpha * sums[i * 8 + j + 3] + beta * four.w;
            place[0] = four;
        }
}
