// One bulk copy in flight a block: as HPMLL/NVIDIA-Hopper-Benchmark describes its measurements, written anew.
typedef unsigned long long u64;

__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void begin(u64 *bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(bar)));
    asm volatile("fence.proxy.async.shared::cta;");
}

__device__ void copy_and_wait(void *to, const void *from, int bytes, u64 *bar, unsigned parity) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)),
                 "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    } while (!done);
}

extern "C" __global__ void stream(const char *from, float *out, int bytes, int loads) {
    extern __shared__ __align__(128) char tile[];
    __shared__ u64 bar;
    begin(&bar);
    for (int i = 0; i < loads; i++)
        copy_and_wait(tile, from + (size_t)bytes * ((size_t)i * gridDim.x + blockIdx.x), bytes, &bar, i & 1);
    out[blockIdx.x] = ((float *)tile)[0];
}

extern "C" __global__ void chase_bulk(const u64 *list, u64 *out, int hops, u64 start) {
    __shared__ __align__(128) u64 node[2];
    __shared__ u64 bar;
    if (threadIdx.x) return;
    begin(&bar);
    u64 here = start;
    for (int i = 0; i < hops; i++) {
        copy_and_wait(node, list + here, 16, &bar, i & 1);
        here = node[0];
    }
    out[0] = here;
}

extern "C" __global__ void chase_load(const u64 *list, u64 *out, int hops, u64 start) {
    u64 here = start;
    for (int i = 0; i < hops; i++) asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(here) : "l"(list + here) : "memory");
    out[0] = here;
}
