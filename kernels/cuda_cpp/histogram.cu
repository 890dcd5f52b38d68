// Counts in shared memory; the lanes of a warp that hold the same bin elect one to add for all of them.
__global__ void histogram(const unsigned char *__restrict__ x, unsigned *counts, int n)
{
    __shared__ unsigned own[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    const int stride = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    for (int first = blockIdx.x * blockDim.x; first < n; first += stride) {
        const int at = first + threadIdx.x;
        const unsigned here = __ballot_sync(0xFFFFFFFFu, at < n);
        if (at < n) {
            const unsigned bin = x[at], same = __match_any_sync(here, bin);
            if (lane == __ffs(same) - 1) atomicAdd(own + bin, __popc(same));
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        if (own[bin]) atomicAdd(counts + bin, own[bin]);
}
