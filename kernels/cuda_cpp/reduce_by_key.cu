// Sums of runs of equal keys (sorted): a segmented scan by shuffles, then one atomic for each run that a warp holds a part of.
__global__ void reduce_by_key(const int *__restrict__ keys, const float *__restrict__ values, float *sums, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const int key = at < n ? keys[at] : -1;
    float sum = at < n ? values[at] : 0.0f;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const float other = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
        const int of = __shfl_up_sync(0xFFFFFFFFu, key, distance);
        if (lane >= distance && of == key) sum += other;
    }
    const int next = __shfl_down_sync(0xFFFFFFFFu, key, 1);
    if (key >= 0 && (lane == 31 || next != key)) atomicAdd(sums + key, sum);
}
