// Softmax of one long vector by the whole grid: blocks' maxima and sums meet at barriers of cooperative groups.
#include <cooperative_groups.h>
#include <math_constants.h>

template <int THREADS>
__global__ void __launch_bounds__(THREADS) grid_softmax(const float *__restrict__ x, float *__restrict__ out, float2 *states, int n)
{
    __shared__ float of_warp[THREADS / 32];
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, stride = gridDim.x * THREADS;
    auto over_block = [&](float value, auto join) {
        #pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) value = join(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
        __syncthreads();
        if (lane == 0) of_warp[warp] = value;
        __syncthreads();
        value = of_warp[0];
        #pragma unroll
        for (int each = 1; each < THREADS / 32; ++each) value = join(value, of_warp[each]);
        return value;
    };
    float most = -CUDART_INF_F, sum = 0.0f;
    for (int at = blockIdx.x * THREADS + threadIdx.x; at < n; at += stride) most = fmaxf(most, x[at]);
    most = over_block(most, [](float a, float b) { return fmaxf(a, b); });
    for (int at = blockIdx.x * THREADS + threadIdx.x; at < n; at += stride) sum += __expf(x[at] - most);
    sum = over_block(sum, [](float a, float b) { return a + b; });
    if (threadIdx.x == 0) states[blockIdx.x] = make_float2(most, sum);
    grid.sync();
    float all = -CUDART_INF_F, total = 0.0f;
    for (int block = 0; block < gridDim.x; ++block) all = fmaxf(all, states[block].x);
    for (int block = 0; block < gridDim.x; ++block) total += states[block].y * __expf(states[block].x - all);
    for (int at = blockIdx.x * THREADS + threadIdx.x; at < n; at += stride) out[at] = __expf(x[at] - all) / total;
}
