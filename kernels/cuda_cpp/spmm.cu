// Sparse (compressed rows) times dense: a warp a row, a lane four columns; the row's entries are read by all lanes and handed around.
__global__ void spmm(const int *__restrict__ starts, const int *__restrict__ columns, const float *__restrict__ values, const float *__restrict__ dense, float *__restrict__ out, int rows, int width)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, at = blockIdx.y * 128 + 4 * lane;
    if (row >= rows) return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int end = starts[row + 1];
    for (int first = starts[row]; first < end; first += 32) {
        const int own = first + lane < end ? columns[first + lane] : 0;
        const float value = first + lane < end ? values[first + lane] : 0.0f;
        const int here = min(32, end - first);
        for (int each = 0; each < here; ++each) {
            const int column = __shfl_sync(0xFFFFFFFFu, own, each);
            const float by = __shfl_sync(0xFFFFFFFFu, value, each);
            if (at < width) {
                const float4 in = *reinterpret_cast<const float4 *>(dense + (size_t)column * width + at);
                sum.x += by * in.x, sum.y += by * in.y, sum.z += by * in.z, sum.w += by * in.w;
            }
        }
    }
    if (at < width) *reinterpret_cast<float4 *>(out + (size_t)row * width + at) = sum;
}
