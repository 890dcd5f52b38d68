// Sums: each block strides over the input, its warps reduce by shuffles, the first warp reduces the warps' sums.
template <typename T>
__device__ T warp_sum(T value)
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, distance);
    return value;
}

template <typename T, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) reduce(const T *__restrict__ x, T *__restrict__ sums, int n)
{
    static_assert(THREADS % 32 == 0, "whole warps");
    __shared__ T of_warp[THREADS / 32];
    const int tile = THREADS * ITEMS;
    T sum = 0;
    for (int first = blockIdx.x * tile; first < n; first += gridDim.x * tile) {
        #pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const int at = first + item * THREADS + threadIdx.x;
            if (at < n) sum += x[at];
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < THREADS / 32 ? of_warp[threadIdx.x] : T(0);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}
