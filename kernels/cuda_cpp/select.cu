// Stream compaction: what exceeds a threshold moves to the front; one atomic a block reserves its room. The order of blocks is open.
__global__ void select(const float *__restrict__ x, float *out, unsigned *count, float threshold, int n)
{
    __shared__ unsigned of_warp[32], base;
    const int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float value = at < n ? x[at] : 0.0f;
    const bool keep = at < n && value > threshold;
    const unsigned kept = __ballot_sync(0xFFFFFFFFu, keep);
    if (lane == 0) of_warp[warp] = __popc(kept);
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned total = 0;
        for (int each = 0; each < blockDim.x / 32; ++each) {
            const unsigned own = of_warp[each];
            of_warp[each] = total;
            total += own;
        }
        base = total ? atomicAdd(count, total) : 0;
    }
    __syncthreads();
    if (keep) out[base + of_warp[warp] + __popc(kept & ((1u << lane) - 1))] = value;
}
