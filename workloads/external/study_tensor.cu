// C = A B in TF32 on tensor cores, A m x k and C m x n row-major: rungs of a study of an H100 (github.com/ahmadsharif1/cuda_study, matmul/matmul.cu),
// which are CuTe there. B is k x n for the first two, its transpose n x k for warp groups. `depth`: how much of k is summed over.
#include <cuda_runtime.h>

struct alignas(64) TensorMap { char bytes[128]; };

namespace {
constexpr int SIDE = 128, STEP = 8, WARP = 32, FOUR = 4, GROUP = 128, GROUP_ROWS = 64, SLAB = 32, ROW_BYTES = 128, STAGES = 3;
constexpr int DOWN = 4, ACROSS = 8, ATOM_ROWS = 32, ATOM_COLUMNS = 16;
typedef unsigned long long u64;

__device__ __forceinline__ unsigned shared_address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ __forceinline__ void copy16(void *to, const float *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ __forceinline__ void copies_done()
{
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
}

// Rounded half away from zero, as CUTLASS makes a TF32 of a float.
__device__ __forceinline__ unsigned rounded(float value)
{
    const unsigned bits = __float_as_uint(value);
    return isfinite(value) ? bits + 0x1000u : bits;
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four warps, two by two: of each 32 x 16 results a warp has 16 x 8.
struct Place {
    int row, column, of_four;
    __device__ __forceinline__ Place(int) : row(0), column(0), of_four(0) {}
    __device__ __forceinline__ Place()
    {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        row = warp % 2 * 16 + lane / 4, column = warp / 2 * 8 + lane / 4, of_four = lane % 4;
    }
};

// Fragments of a slab of STEPS * 8 of k, from where a_at and b_at say that element (row or column, k) lies.
template <int STEPS, typename A, typename B>
__device__ __forceinline__ void of_slab(float (&sums)[DOWN][ACROSS][4], const Place &my, A a_at, B b_at)
{
    unsigned a[STEPS][DOWN][4], b[STEPS][ACROSS][2];
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int part = 0; part < 4; ++part) a[k][i][part] = rounded(*a_at(i * ATOM_ROWS + my.row + part % 2 * 8, k * STEP + my.of_four + part / 2 * 4));
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int part = 0; part < 2; ++part) b[k][j][part] = rounded(*b_at(j * ATOM_COLUMNS + my.column, k * STEP + my.of_four + part * 4));
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) multiply(sums[i][j], a[k][i], b[k][j]);
}

__device__ __forceinline__ void stored(const float (&sums)[DOWN][ACROSS][4], float *c, int n)
{
    const Place my;
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int part = 0; part < 4; ++part)
                c[(i * ATOM_ROWS + my.row + part / 2 * 8) * n + j * ATOM_COLUMNS + my.column - lane / 4 + 2 * (lane % 4) + part % 2] = sums[i][j][part];
}

// ---- warp groups
__device__ __forceinline__ u64 described(unsigned tile) { return (u64)(tile >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }

#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
__device__ __forceinline__ void multiply_group(float (&d)[64], u64 a, u64 b)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
                 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63}, %64, %65, p, 1, 1;\n}"
                 : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56) : "l"(a), "l"(b));
}

__device__ __forceinline__ void pinned(float (&d)[64])
{
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// A slab of 32 of k: four products of 64 x 128 by 8.
__device__ __forceinline__ void group_slab(float (&d)[64], unsigned a, unsigned b)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < SLAB / STEP; ++k) multiply_group(d, described(a) + 2 * k, described(b) + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ __forceinline__ void group_stored(const float (&d)[64], float *c, int n)
{
    const int thread = threadIdx.x % GROUP, lane = thread % WARP, row = thread / WARP * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 64; ++i) c[(row + i / 2 % 2 * 8) * n + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

// 128 rows of 32 floats by 256 threads, 16 bytes each, to where the 128-byte swizzle has them.
__device__ __forceinline__ void fetched(char *to, const float *from, int pitch)
{
    const int piece = threadIdx.x % 8, first = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < SIDE / WARP; ++i) {
        const int row = first + i * WARP;
        copy16(to + row * ROW_BYTES + ((piece ^ row % 8) * 16), from + row * pitch + piece * FOUR);
    }
}

__device__ __forceinline__ void init(unsigned bar, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void arrive(unsigned bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void expect(unsigned bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wait(unsigned bar, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void ask(unsigned to, const TensorMap &map, unsigned bar, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ bool elected()
{
    unsigned one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
    return one;
}
} // namespace

// Fragments by loads of one element each, from global memory; three blocks an SM, as the profile of the source has them.
__global__ void __launch_bounds__(128, 3) fragments(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    const Place my;
    const float *of_a = a + (size_t)blockIdx.x * SIDE * k + my.row * k + my.of_four, *of_b = b + blockIdx.y * SIDE + my.of_four * n + my.column;
    float sums[DOWN][ACROSS][4] = {};
#pragma unroll 1
    for (int at = 0; at < depth; at += STEP, of_a += STEP, of_b += STEP * n)
        of_slab<1>(sums, Place(0), [&](int row, int deep) { return of_a + row * k + deep; }, [&](int column, int deep) { return of_b + deep * n + column; });
    stored(sums, c + (size_t)blockIdx.x * SIDE * n + blockIdx.y * SIDE, n);
}

// By way of shared memory, DEEP of k at a time: asynchronous copies of 16 bytes, rows padded by four.
template <int DEEP>
__global__ void staged(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    extern __shared__ __align__(16) float room[];
    constexpr int A_PITCH = DEEP + FOUR, B_PITCH = SIDE + FOUR, THREADS = 128, A_PIECES = DEEP / FOUR, A_ROWS = THREADS / A_PIECES;
    float *as = room, *bs = room + SIDE * A_PITCH - FOUR;
    const Place my;
    const int t = threadIdx.x;
    const float *of_a = a + (size_t)blockIdx.x * SIDE * k, *of_b = b + blockIdx.y * SIDE;
    float sums[DOWN][ACROSS][4] = {};
    for (int at = 0; at < depth; at += DEEP) {
#pragma unroll
        for (int i = 0; i < SIDE / A_ROWS; ++i) {
            const int row = t / A_PIECES + i * A_ROWS, x = t % A_PIECES * FOUR;
            copy16(as + row * A_PITCH + x, of_a + row * k + at + x);
        }
#pragma unroll
        for (int i = 0; i < DEEP / FOUR; ++i) {
            const int deep = t / WARP + i * FOUR, x = t % WARP * FOUR;
            copy16(bs + deep * B_PITCH + x, of_b + (at + deep) * n + x);
        }
        copies_done();
        __syncthreads();
        of_slab<DEEP / STEP>(sums, my, [&](int row, int deep) { return as + row * A_PITCH + deep; }, [&](int column, int deep) { return bs + deep * B_PITCH + column; });
        __syncthreads();
    }
    stored(sums, c + (size_t)blockIdx.x * SIDE * n + blockIdx.y * SIDE, n);
}

// Two warp groups read both slabs where they lie. TWICE: the next slab is fetched while one is multiplied; TOGETHER: tiles of so many columns of them go
// one after another, on a grid of one axis.
template <bool TWICE, int TOGETHER>
__global__ void warp_groups(const float *a, const float *b, float *c, int m, int k, int n, int depth)
{
    extern __shared__ __align__(1024) char bytes[];
    constexpr int OF_SLAB = SIDE * ROW_BYTES, BUFFER = 2 * OF_SLAB;
    int row = blockIdx.x, column = blockIdx.y;
    if (TOGETHER > 0) {
        const int high = m / SIDE, area = blockIdx.x / (high * TOGETHER), inside = blockIdx.x - area * (high * TOGETHER);
        row = inside % high, column = area * TOGETHER + inside / high;
    }
    const float *of_a = a + (size_t)row * SIDE * k, *of_b = b + (size_t)column * SIDE * k;
    const int group = threadIdx.x / GROUP, slabs = depth / SLAB;
    float d[64] = {};
    const unsigned own = shared_address(bytes) + group * GROUP_ROWS * ROW_BYTES, shared = shared_address(bytes) + OF_SLAB;
    if (TWICE) {
        fetched(bytes, of_a, k);
        fetched(bytes + OF_SLAB, of_b, k);
        copies_done();
        __syncthreads();
    }
    for (int slab = 0; slab < slabs; ++slab) {
        const int now = TWICE ? slab & 1 : 0, next = TWICE ? 1 - now : 0, ahead = TWICE ? slab + 1 : slab;
        if (ahead < slabs) {
            fetched(bytes + next * BUFFER, of_a + ahead * SLAB, k);
            fetched(bytes + next * BUFFER + OF_SLAB, of_b + ahead * SLAB, k);
            if (TWICE) asm volatile("cp.async.commit_group;" ::: "memory");
        }
        if (!TWICE) {
            copies_done();
            __syncthreads();
        }
        pinned(d);
        group_slab(d, own + now * BUFFER, shared + now * BUFFER);
        pinned(d);
        if (TWICE && ahead < slabs) asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
    }
    group_stored(d, c + ((size_t)row * SIDE + group * GROUP_ROWS) * n + column * SIDE, n);
}

// ACROSS_GROUPS times two warp groups; one lane of them asks for three slabs ahead by way of tensor maps, and all threads say when one is read.
template <int ACROSS_GROUPS>
__global__ void __launch_bounds__(2 * ACROSS_GROUPS *GROUP)
bulk(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float *c, int m, int k, int n, int depth)
{
    extern __shared__ __align__(1024) char bytes[];
    constexpr int OF_A = SIDE * ROW_BYTES, OF_B = ACROSS_GROUPS * SIDE * ROW_BYTES;
    __shared__ u64 full[STAGES], empty[STAGES];
    const unsigned at_a = shared_address(bytes), at_b = at_a + STAGES * OF_A;
    const int group = threadIdx.x / GROUP, down = group % 2, right = group / 2, row = blockIdx.x * SIDE, column = blockIdx.y * ACROSS_GROUPS * SIDE;
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);
    const bool leads = elected() && warp == 0;
    int left = depth / SLAB, slab = 0;
    if (leads)
        for (int stage = 0; stage < STAGES; ++stage) {
            init(shared_address(&full[stage]), 1);
            init(shared_address(&empty[stage]), 2 * ACROSS_GROUPS * GROUP);
        }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    auto fill = [&](int stage) {
        const unsigned bar = shared_address(&full[stage]);
        expect(bar, OF_A + OF_B);
        ask(at_a + stage * OF_A, map_a, bar, slab * SLAB, row);
        ask(at_b + stage * OF_B, map_b, bar, slab * SLAB, column);
    };
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        if (leads) fill(stage);
        --left, ++slab;
    }
    float d[64] = {};
    int reads = 0, writes = 0;
    unsigned read_phase = 0, write_phase = 0;
#pragma unroll 1
    while (left > -STAGES) {
        wait(shared_address(&full[reads]), read_phase);
        group_slab(d, at_a + reads * OF_A + down * GROUP_ROWS * ROW_BYTES, at_b + reads * OF_B + right * SIDE * ROW_BYTES);
        arrive(shared_address(&empty[reads]));
        if (++reads == STAGES) reads = 0, read_phase ^= 1;
        if (leads && left > 0) {
            wait(shared_address(&empty[writes]), write_phase);
            fill(writes);
            if (++writes == STAGES) writes = 0, write_phase ^= 1;
        }
        --left, ++slab;
    }
    group_stored(d, c + ((size_t)row + down * GROUP_ROWS) * n + column + right * SIDE, n);
}
