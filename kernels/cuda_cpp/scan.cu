// Inclusive sum of the whole input in one pass: each block scans its tile, publishes the tile's sum, and looks back over the
// blocks before it until one has published the sum of everything up to its end (Merrill and Garland, 2016).
static const unsigned TILE_SUM = 1, PREFIX = 2;

__device__ unsigned long long packed(unsigned state, int value) { return (unsigned long long)state << 32 | (unsigned)value; }

__device__ unsigned long long load_acquire(const unsigned long long *at)
{
    unsigned long long value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ void store_release(unsigned long long *at, unsigned long long value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

template <int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) scan(const int *__restrict__ x, int *__restrict__ out, unsigned long long *tiles, unsigned *ticket, int n)
{
    __shared__ int of_warp[THREADS / 32];
    __shared__ int before, tile;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);  // tiles in the order in which blocks start
    __syncthreads();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = (tile * THREADS + threadIdx.x) * ITEMS;
    int values[ITEMS], sum = 0;
    #pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        sum += first + item < n ? x[first + item] : 0;
        values[item] = sum;
    }
    int upto = sum;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(0xFFFFFFFFu, upto, distance);
        if (lane >= distance) upto += other;
    }
    if (lane == 31) of_warp[warp] = upto;
    __syncthreads();
    int own = upto - sum, total = 0;
    #pragma unroll
    for (int each = 0; each < THREADS / 32; ++each) {
        if (each < warp) own += of_warp[each];
        total += of_warp[each];
    }
    if (threadIdx.x == 0) {
        int sum_before = 0;
        if (tile == 0) {
            store_release(tiles, packed(PREFIX, total));
        } else {
            store_release(tiles + tile, packed(TILE_SUM, total));
            for (int back = tile - 1; back >= 0;) {
                const unsigned long long seen = load_acquire(tiles + back);
                const unsigned state = seen >> 32;
                if (state == 0) continue;
                sum_before += (int)(unsigned)seen;
                if (state == PREFIX) break;
                --back;
            }
            store_release(tiles + tile, packed(PREFIX, sum_before + total));
        }
        before = sum_before;
    }
    __syncthreads();
    #pragma unroll
    for (int item = 0; item < ITEMS; ++item)
        if (first + item < n) out[first + item] = before + own + values[item];
}
