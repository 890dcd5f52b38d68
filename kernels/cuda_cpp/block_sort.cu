// Each block sorts its tile of keys with their values by CUB's radix sort.
#include <cub/block/block_radix_sort.cuh>

template <int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) block_sort(const unsigned *__restrict__ keys, const int *__restrict__ values, unsigned *keys_out, int *values_out, int bits)
{
    using Sort = cub::BlockRadixSort<unsigned, THREADS, ITEMS, int>;
    __shared__ typename Sort::TempStorage storage;
    const int first = (blockIdx.x * THREADS + threadIdx.x) * ITEMS;
    unsigned key[ITEMS];
    int value[ITEMS];
    #pragma unroll
    for (int item = 0; item < ITEMS; ++item) key[item] = keys[first + item], value[item] = values[first + item];
    Sort(storage).Sort(key, value, 0, bits);
    #pragma unroll
    for (int item = 0; item < ITEMS; ++item) keys_out[first + item] = key[item], values_out[first + item] = value[item];
}
