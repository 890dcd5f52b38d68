// A block meets again and again: nothing between two barriers, or one thread's addition to a word of shared memory.
__global__ void meet(int times, int *)
{
    #pragma unroll 1
    for (int i = 0; i < times; ++i) __syncthreads();
}

__global__ void add_and_meet(int times, int *result)
{
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    #pragma unroll 8
    for (int i = 0; i < times; ++i) {
        if (threadIdx.x == 0) sum += 1;
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = sum;
}
