// A chain of products of a warp (mma.sync), as lookup1980/microbench-blackwell describes its latencies, written anew. The host sets NAME (of the
// instruction), A_WORDS and B_WORDS (registers of a lane), D_WORDS, OF_D ("f" or "r"), and where it is sparse SPARSE. A round has PRODUCTS of them; with PACKETS as many times
// as the host says, in a loop that is not unrolled, as the same source's workloads do. The chain goes on from round to round.
typedef unsigned u32;
#if D_WORDS == 4
#define LIST_D "{%0,%1,%2,%3}"
#define BOTH_D "+" OF_D(d[0]), "+" OF_D(d[1]), "+" OF_D(d[2]), "+" OF_D(d[3])
#define FIRST_A 4
#define LIST_A "{%4,%5,%6,%7}"
#if B_WORDS == 4
#define LIST_B "{%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0"
#define INPUT_B "r"(b), "r"(b + 1), "r"(b + 2), "r"(b + 3), "r"(meta)
#else
#define LIST_B "{%8,%9}, {%0,%1,%2,%3}"
#define INPUT_B "r"(b), "r"(b + 1)
#endif
#else
#define LIST_D "{%0,%1}"
#define BOTH_D "+" OF_D(d[0]), "+" OF_D(d[1])
#define LIST_A "{%2,%3,%4,%5}"
#if B_WORDS == 4
#define LIST_B "{%6,%7,%8,%9}, {%0,%1}, %10, 0x0"
#define INPUT_B "r"(b), "r"(b + 1), "r"(b + 2), "r"(b + 3), "r"(meta)
#else
#define LIST_B "{%6,%7}, {%0,%1}"
#define INPUT_B "r"(b), "r"(b + 1)
#endif
#endif

#ifndef PRODUCTS
#define PRODUCTS 4
#endif
#ifdef PACKETS
#define PARAMETERS , int packets
#else
#define PARAMETERS
#define packets 1
#endif

extern "C" __global__ void chain(TYPE_D *out, int rounds PARAMETERS) {
    u32 a = threadIdx.x * 3, b = threadIdx.x * 5, meta = 0x44444444;
    TYPE_D d[D_WORDS] = {};
#pragma unroll 1
    for (int i = 0; i < rounds; i++) {
#pragma unroll 1
        for (int packet = 0; packet < packets; packet++) {
#pragma unroll
            for (int k = 0; k < PRODUCTS; k++)
                asm volatile(NAME " " LIST_D ", " LIST_A ", " LIST_B ";" : BOTH_D : "r"(a), "r"(a + 1), "r"(a + 2), "r"(a + 3), INPUT_B);
        }
    }
    out[threadIdx.x] = d[0];
}
