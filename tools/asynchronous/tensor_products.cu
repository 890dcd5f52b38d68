// Products into tensor memory, as lookup1980/microbench-blackwell describes its measurements, written anew. The host sets GROUP (blocks that
// work together), DEPTH, KIND (of tcgen05.mma), ROWS and COLUMNS of D, IDESC (the instruction descriptor), and, where it has them, A_IN_MEMORY and SCALED.
typedef unsigned long long u64;
typedef unsigned u32;
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define OF_GROUP ".cta_group::" TEXT(GROUP)

__device__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// No swizzle: 8 rows of 16 bytes lie together, the two halves of a row 128 bytes apart, the next eight rows 256 bytes.
__device__ u64 describe(u32 address) { return address >> 4 | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32 | (u64)1 << 46; }

__device__ u32 rank() {
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ void meet() {
    __syncthreads();
    if (GROUP == 2) asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ void multiply(u32 d, u64 a, u64 b, u32 accumulate) {
#if defined(A_IN_MEMORY)
#define OF_A "[%1]"
    u32 operand = d + 256;
#define A_IS "r"(operand)
#else
#define OF_A "%1"
#define A_IS "l"(a)
#endif
#if defined(SCALED)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma" OF_GROUP ".kind::" KIND ".block_scale.scale_vec::1X [%0], " OF_A
                 ", %2, %3, [%5], [%6], p; }" ::"r"(d), A_IS, "l"(b), "r"((u32)IDESC), "r"(accumulate), "r"(d + 300), "r"(d + 320) : "memory");
#else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma" OF_GROUP ".kind::" KIND " [%0], " OF_A ", %2, %3, p; }"
                 ::"r"(d), A_IS, "l"(b), "r"((u32)IDESC), "r"(accumulate) : "memory");
#endif
}

__device__ void commit(u64 *bar) {
#if GROUP == 2
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(at(bar)), "h"((unsigned short)3) : "memory");
#else
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(bar)) : "memory");
#endif
}

__device__ void wait(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }"
                 ::"r"(at(bar)), "r"(parity) : "memory");
}

__device__ bool elected() {
    u32 is;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is));
    return is;
}

// `rounds` times: DEPTH products of the same operands into the same D, a commit, and a wait, of the warp that issues them. (The measured
// kernel lets all warps wait, of both blocks, which hangs if one falls two rounds behind.) The first product of a round overwrites D, where `fresh`.
__device__ void measure(u64 *out, int rounds, bool fresh) {
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ u32 memory;
    __shared__ u64 bar;
    for (int i = threadIdx.x; i < 32 * (ROWS / GROUP + COLUMNS); i += 128) room[i] = (i + blockIdx.x) % 127 + 1;
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc" OF_GROUP ".sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(&memory)));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("fence.proxy.async.shared::cta;");
    meet();
    u32 d = memory;
    u64 a = describe(at(room)), b = describe(at(room) + 32 * ROWS / GROUP);
    if (threadIdx.x < 32 && (GROUP == 1 || rank() == 0)) {
        u64 begun = clock64();
#pragma unroll 1
        for (int i = 0; i < rounds; i++) {
            if (elected()) {
#pragma unroll 16
                for (int k = 0; k < DEPTH; k++) multiply(d, a, b, k > 0 || !fresh);
                commit(&bar);
            }
            __syncwarp();
            wait(&bar, i & 1);
        }
        u64 ended = clock64();
        if (threadIdx.x == 0) out[0] = ended - begun;
    }
    meet();
    if (threadIdx.x < 32)
        asm volatile("tcgen05.dealloc" OF_GROUP ".sync.aligned.b32 %0, 512;" ::"r"(d));
}

#if GROUP == 2
#define PAIR __cluster_dims__(2)
#else
#define PAIR
#endif
extern "C" __global__ void __launch_bounds__(128) PAIR multiply_rounds(u64 *out, int rounds) { measure(out, rounds, DEPTH > 1); }
