// A chase of one thread by loads through the L1. -DLINKED=1: words say in the list where the next one is, and a whole block makes pointers of them before,
// so that nothing lies between a load and the next; 0: they are left as they are, and the list is not touched before.
typedef unsigned long long u64;

extern "C" __global__ void chase_cached(u64 *list, u64 *out, int hops, u64 start, int lines) {
    if (LINKED) {
        for (int i = threadIdx.x; i < lines; i += blockDim.x) list[(u64)i * 16] = (u64)(list + list[(u64)i * 16]);
        __syncthreads();
    }
    if (threadIdx.x) return;
    u64 here = LINKED ? (u64)(list + start) : start;
#pragma unroll 8
    for (int i = 0; i < hops; i++)
        asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(here) : "l"(LINKED ? (const u64 *)here : list + here) : "memory");
    out[0] = here;
}
