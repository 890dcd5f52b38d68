// Filters of one and two dimensions with a mask of any odd width, after a textbook's description, as a repository of its readers measured them: results are kept
// between zero and one, by comparing in double precision. The mask lies in global memory (..._global) or in constant memory; a block's part of the input lies
// in shared memory with its surroundings (..._tiled) or alone (..._cached), where neighbours outside come from global memory.
constexpr int MOST = 121;
__constant__ float mask_of[MOST];
extern __shared__ float part[];

__device__ float within(float value) { return min(max(value, 0.0), 1.0); }

// MASK: 0 in global memory, 1 in constant memory.
template <int MASK>
__device__ float weight(const float *mask, int i) { return MASK ? mask_of[i] : mask[i]; }

template <int MASK>
__device__ void row_filter(const float *from, const float *mask, float *to, int wide, int size)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, first = i - wide / 2;
    if (!MASK && i >= size) return;
    float sum = 0;
    for (int j = 0; j < wide; ++j)
        if (first + j >= 0 && first + j < size) sum += from[first + j] * weight<MASK>(mask, j);
    to[i] = within(sum);
}

__global__ void row_global(float *from, float *mask, float *to, int wide, int size) { row_filter<0>(from, mask, to, wide, size); }
__global__ void row_constant(float *from, float *to, int wide, int size) { row_filter<1>(from, nullptr, to, wide, size); }

__global__ void row_tiled(float *from, float *to, int wide, int size)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, around = wide / 2;
    const int left = (blockIdx.x - 1) * blockDim.x + threadIdx.x, right = (blockIdx.x + 1) * blockDim.x + threadIdx.x;
    if (threadIdx.x >= blockDim.x - around) part[threadIdx.x - (blockDim.x - around)] = left < 0 ? 0 : from[left];
    part[around + threadIdx.x] = from[i];
    if (threadIdx.x < around) part[around + blockDim.x + threadIdx.x] = right >= size ? 0 : from[right];
    __syncthreads();
    float sum = 0;
    for (int j = 0; j < wide; ++j) sum += part[threadIdx.x + j] * mask_of[j];
    to[i] = within(sum);
}

__global__ void row_cached(float *from, float *to, int wide, int size)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, first = i - wide / 2;
    part[threadIdx.x] = from[i];
    __syncthreads();
    const int begin = blockIdx.x * blockDim.x, end = (blockIdx.x + 1) * blockDim.x;
    float sum = 0;
    for (int j = 0; j < wide; ++j) {
        const int at = first + j;
        if (at < 0 || at >= size) continue;
        if (at >= begin && at < end)
            sum += part[threadIdx.x + j - wide / 2] * mask_of[j];
        else
            sum += from[at] * mask_of[j];
    }
    to[i] = within(sum);
}

template <int MASK>
__device__ void image_filter(const float *from, const float *mask, float *to, int mask_high, int mask_wide, int high, int wide, int channels)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= high || j >= wide) return;
    const int top = i - mask_high / 2, left = j - mask_wide / 2;
    for (int c = 0; c < channels; ++c) {
        float sum = 0;
        for (int k = 0; k < mask_high; ++k)
            for (int l = 0; l < mask_wide; ++l)
                if (top + k >= 0 && top + k < high && left + l >= 0 && left + l < wide)
                    sum += from[((top + k) * wide + left + l) * channels + c] * weight<MASK>(mask, k * mask_wide + l);
        to[(i * wide + j) * channels + c] = within(sum);
    }
}

__global__ void image_global(float *from, float *mask, float *to, int mask_high, int mask_wide, int high, int wide, int channels)
{
    image_filter<0>(from, mask, to, mask_high, mask_wide, high, wide, channels);
}

__global__ void image_constant(float *from, float *to, int mask_high, int mask_wide, int high, int wide, int channels)
{
    image_filter<1>(from, nullptr, to, mask_high, mask_wide, high, wide, channels);
}

// A block reads as many elements as it has threads, and those that have all their neighbours there write.
__global__ void image_tiled(float *from, float *to, int mask_high, int mask_wide, int high, int wide, int channels)
{
    const int out_high = blockDim.y - mask_high + 1, out_wide = blockDim.x - mask_wide + 1, y = threadIdx.y, x = threadIdx.x;
    const int out_row = blockIdx.y * out_high + y, out_column = blockIdx.x * out_wide + x;
    const int row = out_row - mask_high / 2, column = out_column - mask_wide / 2;
    for (int c = 0; c < channels; ++c) {
        if (row >= 0 && row < high && column >= 0 && column < wide)
            part[y * blockDim.x + x] = from[(row * wide + column) * channels + c];
        else
            part[y * blockDim.x + x] = 0;
        __syncthreads();
        float sum = 0;
        if (y < out_high && x < out_wide && out_row < high && out_column < wide) {
            for (int k = 0; k < mask_high; ++k)
                for (int l = 0; l < mask_wide; ++l) sum += part[(y + k) * blockDim.x + x + l] * mask_of[k * mask_wide + l];
            to[(out_row * wide + out_column) * channels + c] = within(sum);
        }
        __syncthreads();
    }
}
