// Element-wise transforms as a library of parallel algorithms runs them: out[i] = operation(a[i], b[i], c[i]), of as many arrays as the operation has.
//
// Five ways: two elements a thread (scattered), some elements a thread behind prefetches of the block's lines (prefetched), tiles that come to shared
// memory by one bulk copy an array (bulk) or by 16-byte asynchronous copies (copied), and nothing read at all (filled, filled_by_vectors).
// Sizes are whole numbers of tiles, or the last block has fewer elements; arrays are aligned.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned long long u64;
using int128 = __int128;

struct mul
{
    static constexpr int arrays = 1;
    template <typename T> static __device__ T of(T a, T, T, T factor) { return T(a * factor); }
};
struct add
{
    static constexpr int arrays = 2;
    template <typename T> static __device__ T of(T a, T b, T, T) { return T(a + b); }
};
struct triad
{
    static constexpr int arrays = 2;
    template <typename T> static __device__ T of(T a, T b, T, T factor) { return T(a + factor * b); }
};
struct nstream
{
    static constexpr int arrays = 3;
    template <typename T> static __device__ T of(T a, T b, T c, T factor) { return T(a + b + factor * c); }
};
struct relu
{
    static constexpr int arrays = 1;
    template <typename T> static __device__ T of(T a, T, T, T)
    {
        const float x = float(a);
        return T(x < 0.0f ? 0.0f : x);
    }
};
struct gelu
{
    static constexpr int arrays = 1;
    template <typename T> static __device__ T of(T a, T, T, T)
    {
        const float x = float(a);
        return T(x * 0.5f * (1.0f + erff(x * 0.70710678118654752440f)));
    }
};
struct hyperbolic
{
    static constexpr int arrays = 1;
    template <typename T> static __device__ T of(T a, T, T, T) { return T(tanhf(float(a))); }
};
struct exponential
{
    static constexpr int arrays = 1;
    template <typename T> static __device__ T of(T a, T, T, T) { return T(expf(float(a))); }
};
struct not_less
{
    static constexpr int arrays = 2;
    template <typename T> static __device__ T of(T a, T b, T, T) { return T(a >= b ? 1.0f : 0.0f); }
};
struct lesser
{
    static constexpr int arrays = 2;
    template <typename T> static __device__ T of(T a, T b, T, T) { return T(fminf(float(a), float(b))); }
};

template <typename Operation, typename T>
__device__ void one(T *out, const T *a, const T *b, const T *c, T factor, int i)
{
    const T x = a[i];
    if constexpr (Operation::arrays == 1) out[i] = Operation::of(x, x, x, factor);
    if constexpr (Operation::arrays == 2) out[i] = Operation::of(x, b[i], x, factor);
    if constexpr (Operation::arrays == 3) out[i] = Operation::of(x, b[i], c[i], factor);
}

// Two elements a thread, a block's width apart.
template <typename Operation, typename T>
__global__ __launch_bounds__(256) void scattered(T *out, const T *a, const T *b, const T *c, int scalar, int count, int)
{
    const int tile = 2 * 256, begin = blockIdx.x * tile;
    const T factor = T(scalar);
    const bool whole = count - begin >= tile;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int i = begin + j * 256 + threadIdx.x;
        if (whole || i < count) one<Operation>(out, a, b, c, factor, i);
    }
}

template <int Threads>
__device__ void prefetch(const void *from, int bytes)
{
#pragma unroll 1
    for (int at = threadIdx.x * 128; at < bytes; at += Threads * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(static_cast<const char *>(from) + at)) : "memory");
}

// ``each`` elements a thread, a block's width apart, behind prefetches of all lines of the tile.
template <typename Operation, typename T>
__global__ void prefetched(T *out, const T *a, const T *b, const T *c, int scalar, int count, int each)
{
    const int tile = 256 * each, begin = blockIdx.x * tile, here = min(count - begin, tile);
    const T factor = T(scalar);
    out += begin, a += begin, b += begin, c += begin;
    prefetch<256>(a, here * int(sizeof(T)));
    if constexpr (Operation::arrays > 1) prefetch<256>(b, here * int(sizeof(T)));
    if constexpr (Operation::arrays > 2) prefetch<256>(c, here * int(sizeof(T)));
    if (here == tile) {
        for (int j = 0; j < each; ++j) one<Operation>(out, a, b, c, factor, j * 256 + threadIdx.x);
    } else {
        for (int j = 0; j < each; ++j)
            if (const int i = j * 256 + threadIdx.x; i < here) one<Operation>(out, a, b, c, factor, i);
    }
}

extern __shared__ __align__(128) char tiles[];

// A tile of each array in shared memory, ``Padding`` bytes apart, to results: an element of a thread at a time.
template <int Threads, int Padding, typename Operation, typename T>
__device__ void from_tiles(const char *shared, T *out, T factor, int here, int each)
{
    const int tile = Threads * each;
    const T *a = reinterpret_cast<const T *>(shared);
    const T *b = reinterpret_cast<const T *>(shared + (sizeof(T) * tile + Padding));
    const T *c = reinterpret_cast<const T *>(shared + 2 * (sizeof(T) * tile + Padding));
    if (here == tile) {
#pragma unroll 1
        for (int j = 0; j < each; ++j) one<Operation>(out, a, b, c, factor, j * Threads + threadIdx.x);
    } else {
#pragma unroll 1
        for (int j = 0; j < each; ++j)
            if (const int i = j * Threads + threadIdx.x; i < here) one<Operation>(out, a, b, c, factor, i);
    }
}

__device__ void bulk_copy(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}

// One thread of the block brings a tile of each array by bulk copies; all wait for them.
template <int Threads, typename Operation, typename T>
__global__ void bulk(T *out, const T *a, const T *b, const T *c, int scalar, int count, int each)
{
    const int tile = Threads * each, begin = blockIdx.x * tile, here = min(count - begin, tile);
    const unsigned barrier = unsigned(__cvta_generic_to_shared(tiles)), to = barrier + 128, apart = sizeof(T) * tile + 128;
    unsigned elected = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(elected));
    if (threadIdx.x < 32 && elected) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        const unsigned bytes = sizeof(T) * here;
        bulk_copy(to, a + begin, bytes, barrier);
        if constexpr (Operation::arrays > 1) bulk_copy(to + apart, b + begin, bytes, barrier);
        if constexpr (Operation::arrays > 2) bulk_copy(to + 2 * apart, c + begin, bytes, barrier);
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes * Operation::arrays)
                     : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
    from_tiles<Threads, 128, Operation>(tiles + 128, out + begin, T(scalar), here, each);
}

template <int Threads>
__device__ void copy16(char *to, const void *from, int bytes)
{
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < bytes; at += Threads * 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(to + at))),
                     "l"(static_cast<const char *>(from) + at)
                     : "memory");
    asm volatile("cp.async.commit_group;");
}

// All threads bring a tile of each array, sixteen bytes at a time.
template <typename Operation, typename T>
__global__ void copied(T *out, const T *a, const T *b, const T *c, int scalar, int count, int each)
{
    const int tile = 256 * each, begin = blockIdx.x * tile, here = min(count - begin, tile), bytes = sizeof(T) * here, apart = sizeof(T) * tile;
    copy16<256>(tiles, a + begin, bytes);
    if constexpr (Operation::arrays > 1) copy16<256>(tiles + apart, b + begin, bytes);
    if constexpr (Operation::arrays > 2) copy16<256>(tiles + 2 * apart, c + begin, bytes);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    from_tiles<256, 0, Operation>(tiles, out + begin, T(scalar), here, each);
}

// Nothing is read: two elements a thread.
template <typename T>
__global__ void filled(T *out, int value, int count)
{
    const int tile = 2 * 256, begin = blockIdx.x * tile;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int i = begin + j * 256 + threadIdx.x;
        if (count - begin >= tile || i < count) out[i] = T(value);
    }
}

// The same by stores of four elements, two a thread, a block's width apart. Of whole tiles.
template <typename T>
__global__ void filled_by_vectors(T *out, int value, int count)
{
    struct alignas(4 * sizeof(T)) Four { T of[4]; };
    const int tile = 8 * 256, begin = blockIdx.x * tile;
    const T v = T(value);
#pragma unroll
    for (int j = 0; j < 2; ++j) reinterpret_cast<Four *>(out + begin)[j * 256 + threadIdx.x] = Four{{v, v, v, v}};
}
