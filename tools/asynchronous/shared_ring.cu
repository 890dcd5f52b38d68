// Each block reads the shared memory of the next one of its cluster, or writes it, with all its threads, as arXiv 2402.13499 (ring-based copy) describes its
// measurement: four coalesced words a thread and round. Built with -DWRITES=1 it writes. Each round is at another place, or the compiler would load once.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int WORDS = 4096;  // of which a quarter is for each word of a thread

extern "C" __global__ void ring(unsigned *out, int rounds)
{
    extern __shared__ unsigned words[];
    auto cluster = cg::this_cluster();
    const int n = blockDim.x, t = threadIdx.x;
    for (int i = t; i < WORDS; i += n) words[i] = i;
    cluster.sync();
    unsigned *there = cluster.map_shared_rank(words, (cluster.block_rank() + 1) % cluster.num_blocks()), address, sum = 0;
    asm("{.reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a;}" : "=r"(address) : "l"(there));
    for (int i = 0; i < rounds; i++) {
        const unsigned at = address + (4 * (t + 32 * i)) % WORDS;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            unsigned value = i;
            if (WRITES)
                asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at + WORDS * k), "r"(value) : "memory");
            else
                asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(at + WORDS * k) : "memory");
            sum += value;
        }
    }
    cluster.sync();
    if (sum == 1) out[0] = sum;
}
