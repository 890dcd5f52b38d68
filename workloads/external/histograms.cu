// Histograms after the descriptions of two benchmarks: values in strides of the grid, counted in global memory or in the block's own bins, which
// are added to the global ones at the end. SKIP: bins that are zero are not added. CLEAR: the launch clears the global bins first.
template <typename T, bool CLEAR>
__global__ void in_global(const T *__restrict__ values, int n, unsigned *bins, int bin_count)
{
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    if (CLEAR) {
        for (unsigned bin = first; bin < bin_count; bin += stride) bins[bin] = 0;
        __syncthreads();
    }
    for (unsigned i = first; i < n; i += stride) atomicAdd(&bins[values[i]], 1);
}

template <typename T, int BINS, bool SKIP>
__global__ void in_shared(const T *__restrict__ values, int n, unsigned *bins, int)
{
    __shared__ unsigned own[BINS];
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    for (unsigned i = first; i < n; i += stride) atomicAdd(&own[values[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        if (!SKIP || own[bin] > 0) atomicAdd(&bins[bin], own[bin]);
}

// Sixteen values a load.
template <int BINS>
__global__ void in_shared_packed(const unsigned char *__restrict__ values, int n, unsigned *bins, int)
{
    __shared__ unsigned own[BINS];
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    unsigned char some[16];
    for (unsigned i = first; i < n / 16; i += stride) {
        *reinterpret_cast<uint4 *>(some) = reinterpret_cast<const uint4 *>(values)[i];
        #pragma unroll
        for (int j = 0; j < 16; ++j) atomicAdd(&own[some[j]], 1);
    }
    for (unsigned i = n / 16 * 16 + first; i < n; i += stride) atomicAdd(&own[values[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        if (own[bin] > 0) atomicAdd(&bins[bin], own[bin]);
}
