// A hash table with open addressing: keys and values in one word, claimed by 64-bit compare-and-swap; then a lookup of each.
static const unsigned long long EMPTY = ~0ull;

__device__ __forceinline__ unsigned place_of(unsigned key, unsigned mask) { return (key ^ key >> 16) * 0x85EBCA6Bu >> 7 & mask; }

__global__ void insert(const unsigned *__restrict__ keys, const unsigned *__restrict__ values, unsigned long long *table, unsigned mask, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const unsigned long long entry = (unsigned long long)keys[at] << 32 | values[at];
    for (unsigned place = place_of(keys[at], mask);; place = (place + 1) & mask)
        if (atomicCAS(table + place, EMPTY, entry) == EMPTY) return;
}

__global__ void lookup(const unsigned *__restrict__ keys, unsigned *__restrict__ values, const unsigned long long *__restrict__ table, unsigned mask, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    for (unsigned place = place_of(keys[at], mask);; place = (place + 1) & mask) {
        const unsigned long long entry = table[place];
        if (entry == EMPTY) { values[at] = 0xFFFFFFFFu; return; }
        if ((unsigned)(entry >> 32) == keys[at]) { values[at] = (unsigned)entry; return; }
    }
}
